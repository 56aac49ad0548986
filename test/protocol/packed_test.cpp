// SPDX-License-Identifier: Apache-2.0
// Several small messages in one packet: when they share one, and what happens to it.
#include <catch2/catch.hpp>
#include <deque>

#include "proto/wire/packed.hpp"
#include "test/protocol/exchange.hpp"
#include "test/protocol/message_scene.hpp"
#include "test/protocol/packets.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::microseconds;
using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketType;
using proto::wire::PacketWriter;

// The packets with messages that left a node's NICs on the data queue, as "DATA 0" or "PACKED 1-5";
// a retransmit is "again 3".
struct Seen {
  std::vector<std::string> packets;
  std::function<std::optional<Fate>(const proto::wire::PacketView&)> fate;
  std::uint32_t from = 0;
  std::optional<Fate> operator()(std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    if (node != from || packet.direction != Direction::tx) return {};
    const auto view = view_of(packet);
    if (view.type != PacketType::data && view.type != PacketType::packed) return {};
    std::uint32_t last = view.fragment->message;
    if (view.type == PacketType::packed) {
      proto::wire::PackedMessages messages(view);
      while (messages.next()) CHECK(messages.message().fragment->message == ++last);
    }
    std::string text(proto::wire::rule_of(view.type).name);
    if ((view.header->flags & proto::wire::kFlagRetransmit) != 0) text = "again";
    text += ' ' + std::to_string(view.fragment->message);
    if (view.type == PacketType::packed) text += '-' + std::to_string(last);
    packets.push_back(text);
    return fate ? fate(view) : std::nullopt;
  }
};

// Two endpoints, and messages from node 0 to node 1 that are all posted before the next turn.
class Burst {
 public:
  explicit Burst(WorldConfig config) : seen_(), world_(with(config)) {
    world_.connect_all();
    world_.run_for(milliseconds(50));
    seen_.packets.clear();
  }
  void send(std::size_t bytes, std::uint8_t priority = 0) {
    const std::uint64_t tag = sent_.size();
    sent_.push_back(pattern(tag + 1, bytes));
    got_.emplace_back(bytes, 'x');
    (void)world_.receive(1, world_.peer(1, 0), tag, got_.back());
    proto::SendOptions options;
    options.hint.priority = priority;
    options.level = tag % 2 == 0 ? Level::delivered : Level::accepted;
    (void)world_.send(0, 1, tag, sent_.back(), options);
  }
  void run() {
    REQUIRE(world_.run_until_completed(0, sent_.size(), milliseconds(500)));
    REQUIRE(world_.run_until_completed(1, sent_.size(), milliseconds(500)));
    for (std::uint32_t node = 0; node < 2; ++node) {
      for (const Completion& completion : world_.completions(node)) {
        CHECK(completion.status == Status::ok);
      }
    }
    CHECK(std::equal(sent_.begin(), sent_.end(), got_.begin(), got_.end()));
    world_.run_for(milliseconds(100));
    CHECK(world_.stats(0).packets_in_flight == 0);
    CHECK(world_.buffers_in_use(0) == 0);
  }
  [[nodiscard]] Seen& seen() { return seen_; }
  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] EndpointStats stats() { return world_.stats(0); }

 private:
  WorldConfig with(WorldConfig config) {
    config.hook = std::ref(seen_);
    return config;
  }
  Seen seen_;
  World world_;
  std::deque<std::string> sent_;
  std::deque<std::string> got_;
};

using Packets = std::vector<std::string>;

void delay_first_packed(Burst& burst, proto::Duration delay) {
  burst.seen().fate = [first = true, delay](const auto& view) mutable -> std::optional<Fate> {
    if (view.type != PacketType::packed || !std::exchange(first, false)) return std::nullopt;
    return Fate{.delay = delay};
  };
}

TEST_CASE("packed__messages_that_wait_for_one_peer_share_a_packet", "[T12]") {
  Burst burst({});
  for (const std::size_t bytes : {8, 0, 1, 7, 64, 9}) burst.send(bytes);
  burst.run();
  CHECK(burst.seen().packets == Packets{"PACKED 0-5"});
  CHECK(burst.stats().packed_packets_sent == 1);
  CHECK(burst.stats().packed_messages_sent == 6);
  CHECK(burst.stats().data_bytes_sent == 8 + 0 + 1 + 7 + 64 + 9);
  CHECK(burst.stats().messages_sent == 6);
}

TEST_CASE("packed__one_that_is_alone_leaves_at_once_as_it_always_did") {
  Burst burst({});
  burst.send(8);
  burst.run();
  burst.send(8);
  burst.run();
  CHECK(burst.seen().packets == Packets{"DATA 0", "DATA 1"});
  CHECK(burst.stats().packed_packets_sent == 0);
}

TEST_CASE("packed__no_more_than_a_buffer_holds") {
  Burst burst({});
  for (int i = 0; i < 40; ++i) burst.send(8);
  burst.run();
  // 32 bytes of headers, and 56 for each message.
  CHECK(burst.seen().packets == Packets{"PACKED 0-16", "PACKED 17-33", "PACKED 34-39"});
}

TEST_CASE("packed__no_more_than_a_full_packet_of_the_session") {
  WorldConfig config;
  config.tunables.fragment_bytes = 256;
  Burst burst(config);
  for (int i = 0; i < 8; ++i) burst.send(100);  // 80 and 104, then 152 each: 336 at most
  burst.run();
  CHECK(burst.seen().packets == Packets{"PACKED 0-1", "PACKED 2-3", "PACKED 4-5", "PACKED 6-7"});
}

TEST_CASE("packed__only_neighbours_of_one_fragment") {
  Burst burst({});
  burst.send(8);
  burst.send(8);
  burst.send(5000);  // two fragments
  burst.send(8);
  burst.send(3000);  // longer than a buffer
  burst.send(8);
  burst.send(8);
  burst.run();
  CHECK(burst.seen().packets ==
        Packets{"PACKED 0-1", "DATA 2", "DATA 2", "DATA 3", "DATA 4", "PACKED 5-6"});
}

TEST_CASE("packed__who_has_priority_goes_first_and_shares_with_its_like") {
  Burst burst({});
  burst.send(8);
  burst.send(8, 1);
  burst.send(8, 1);
  burst.send(8);
  burst.run();
  CHECK(burst.seen().packets == Packets{"PACKED 1-2", "DATA 0", "DATA 3"});
}

TEST_CASE("packed__may_be_turned_off") {
  WorldConfig config;
  config.tunables.pack_messages = 0;
  Burst burst(config);
  for (int i = 0; i < 3; ++i) burst.send(8);
  burst.run();
  CHECK(burst.seen().packets == Packets{"DATA 0", "DATA 1", "DATA 2"});
}

// The processor must not read a device's memory, so the endpoint doesn't copy it.
TEST_CASE("packed__bytes_that_only_a_device_may_read_stay_where_they_are") {
  Burst burst({});
  burst.send(8);
  const std::string bytes(8, 'd');
  std::string got(8, 'x');
  (void)burst.world().receive(1, burst.world().peer(1, 0), 99, got);
  proto::SendRequest request;
  request.peer = burst.world().peer(0, 1);
  request.tag = 99;
  request.data = reinterpret_cast<const std::byte*>(bytes.data());
  request.bytes = bytes.size();
  request.readable = false;
  REQUIRE(burst.world().post(0, request) == Status::ok);
  REQUIRE(burst.world().run_until_completed(1, 2, milliseconds(100)));
  CHECK(burst.seen().packets == Packets{"DATA 0", "DATA 1"});
  CHECK(got == bytes);
}

TEST_CASE("packed__what_is_lost_is_sent_again_one_by_one", "[T13]") {
  Burst burst({});
  burst.seen().fate = [](const auto& view) {
    return view.type == PacketType::packed ? std::optional(Fate{.drop = true}) : std::nullopt;
  };
  for (int i = 0; i < 4; ++i) burst.send(8);
  burst.run();
  CHECK(burst.seen().packets == Packets{"PACKED 0-3", "again 0", "again 1", "again 2", "again 3"});
  CHECK(burst.stats().fragments_retransmitted == 4);
  CHECK(burst.stats().packets_lost == 1);
  CHECK(burst.stats().spurious_retransmits == 0);
}

// The packet is overtaken and declared lost, and arrives after all. Each retransmit of its messages
// was spurious, and the receiver gets each message once.
TEST_CASE("packed__that_comes_after_it_was_given_up_is_counted_by_its_messages", "[T13]") {
  WorldConfig config;
  config.tunables.ack_every_packets = 1;
  config.tunables.recovery_request = 0;
  Burst burst(config);
  delay_first_packed(burst, microseconds(300));
  for (int i = 0; i < 17; ++i) burst.send(8);
  for (int i = 0; i < 30; ++i) burst.send(3000);
  burst.run();
  CHECK(burst.stats().fragments_retransmitted == 17);
  CHECK(burst.stats().spurious_retransmits == 17);
  CHECK(burst.world().stats(1).duplicate_fragments == 17);
}

// The same where few packets may be in flight. The packet arrives before most of its messages could
// be retransmitted, so those are not.
TEST_CASE("packed__that_comes_before_its_messages_are_sent_again_takes_them_back", "[T13]") {
  WorldConfig config;
  config.tunables.ack_every_packets = 1;
  config.tunables.recovery_request = 0;
  config.tunables.max_in_flight_packets = 8;
  Burst burst(config);
  delay_first_packed(burst, microseconds(20));
  for (int i = 0; i < 17; ++i) burst.send(8);
  for (int i = 0; i < 20; ++i) burst.send(3000);
  burst.run();
  CHECK(burst.stats().packets_lost == 1);
  CHECK(burst.stats().fragments_retransmitted > 0);
  CHECK(burst.stats().fragments_retransmitted < 17);
  CHECK(burst.stats().spurious_retransmits == burst.stats().fragments_retransmitted);
}

// Below, the test plays the peer of one endpoint.

void send_three(MessageScene& scene) {
  for (int i = 0; i < 3; ++i) (void)scene.send(8, Level::delivered);
  scene.settle();
}

TEST_CASE("packed__a_status_of_one_message_ends_that_one") {
  MessageScene scene;
  send_three(scene);
  CHECK(scene.heard(0) == "data 0");
  scene.status(1, MessageStatus::delivered);
  scene.settle();
  CHECK(scene.ended() == "ok");
  scene.acknowledge();
  scene.settle();
  scene.status(0, MessageStatus::delivered);
  scene.status(2, MessageStatus::delivered);
  scene.settle();
  CHECK(scene.ended() == "ok ok ok");
}

// The packet was acknowledged, but no status came: each message asks for its own.
TEST_CASE("packed__each_message_of_it_asks_for_its_own_status") {
  MessageScene scene;
  send_three(scene);
  (void)scene.heard(0);
  scene.acknowledge();
  scene.world().run_for(milliseconds(20));
  std::string asks;
  for (Datagram& datagram : scene.peer.datagrams()) {
    proto::wire::PacketView view;
    REQUIRE(!proto::wire::parse(datagram.datagram(), datagram.queue, true, view));
    if (view.type == PacketType::envelope) asks += std::to_string(view.fragment->message);
  }
  for (const char number : {'0', '1', '2'}) CHECK(asks.find(number) != std::string::npos);
}

TEST_CASE("packed__a_request_for_one_message_of_it_has_it_sent_again") {
  for (const std::uint32_t asked : {0u, 2u}) {
    MessageScene scene;
    send_three(scene);
    (void)scene.heard(0);
    scene.world().run_for(milliseconds(20));
    constexpr std::array<std::uint64_t, 1> kFirst{1};
    scene.control([&](PacketWriter& w) { REQUIRE(w.request(asked, 0, kFirst)); });
    scene.world().run_for(milliseconds(20));
    INFO("message " << asked);
    CHECK(scene.heard(asked).find("again 0") != std::string::npos);
  }
}

// Sends several messages in one packet. Each finds its own receive.
void put_packed(MessageScene& scene, std::uint32_t first, std::span<const std::string> messages) {
  proto::PacketBuffer buffer;
  proto::wire::PackedRow row(buffer, 0, proto::PacketBuffer::kBytes);
  const auto envelope = [&](std::uint32_t number) {
    proto::wire::EnvelopePart part{};
    part.tag = number;
    part.set_length(messages[number - first].size());
    part.eflags = proto::wire::kEnvelopeDelivered;
    return part;
  };
  REQUIRE(row.add_first(std::as_bytes(std::span(messages[0]))));
  for (std::uint32_t i = 1; i < messages.size(); ++i) {
    row.add(first + i, envelope(first + i), std::as_bytes(std::span(messages[i])));
  }
  const std::vector<std::byte> payload(row.bytes().begin(), row.bytes().end());
  scene.peer.put(PacketType::packed, payload, [&](PacketWriter& w) {
    w.part(proto::wire::FragmentPart{first, 0});
    w.part(envelope(first));
  });
}

TEST_CASE("packed__each_message_that_comes_finds_its_receive_or_waits_for_one") {
  MessageScene scene;
  (void)scene.receive(scene.id, 1, 8);
  const std::array<std::string, 3> sent{"first", "second", "third and long"};
  put_packed(scene, 0, sent);
  scene.settle();
  CHECK(scene.ended() == "ok");
  CHECK(scene.bytes().substr(0, 6) == "second");
  CHECK(scene.heard(0) == "ACCEPTED");
  CHECK(scene.heard(1).empty());  // the line before has read the packet with both statuses
  put_packed(scene, 0, sent);     // under a new path number: all of it is a duplicate
  scene.settle();
  CHECK(scene.drops(DropReason::duplicate_fragment) == 3);
  (void)scene.receive(scene.id, 2, 5);
  scene.settle();
  CHECK(scene.ended() == "ok truncated");
  CHECK(scene.bytes() == "third");
}

TEST_CASE("packed__what_comes_before_its_turn_waits_for_it") {
  MessageScene scene;
  for (int tag = 0; tag < 3; ++tag) (void)scene.receive(scene.id, 7, 8);
  const std::array<std::string, 2> later{"b", "c"};
  put_packed(scene, 1, later);
  scene.settle();
  CHECK(scene.ended().empty());
  scene.data(0, 0, 1);
  scene.settle();
  CHECK(scene.heard(0) == "ACCEPTED");
  CHECK(scene.world().stats(0).unexpected_messages == 3);
}

}  // namespace
}  // namespace hawser::test
