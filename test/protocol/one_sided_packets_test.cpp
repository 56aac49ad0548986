// SPDX-License-Identifier: Apache-2.0
// One-sided operations packet by packet: what the target does with each, and what the initiator
// does with each answer.
#include <catch2/catch.hpp>
#include <set>

#include "test/protocol/one_sided_partner.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;
using proto::wire::kTargetFetches;
using proto::wire::kTargetNotifies;
using proto::wire::kTargetReply;
using proto::wire::kTargetSignals;
using proto::wire::kTargetWithdrawn;
using proto::wire::MessageStatus;
using proto::wire::PacketType;
using proto::wire::PacketWriter;

constexpr std::uint32_t kFragment = OneSidedPartner::kFragment;

std::set<std::uint32_t> numbers(const OneSidedPartner& at) {
  std::set<std::uint32_t> all;
  for (const auto& packet : at.sent) all.insert(packet.number);
  return all;
}

TEST_CASE("one_sided_packets__each_packet_twice_executes_once", "[O14][O15]") {
  OneSidedPartner at;
  const auto signal = at.signal(at.key, 8, 5);
  for (int time = 0; time < 2; ++time) {
    INFO("time " << time);
    at.add(0, at.target(0, 8), 3);
    at.write(1, 0, at.target(64, 100, kTargetSignals | kTargetNotifies, 7), 'w', &signal);
    at.read(2, at.target(64, 100, 0, 77));
    at.add(3, at.target(0, 8, kTargetFetches, 78), 10);
    at.listen();
    for (std::uint32_t number = 0; number < 4; ++number) {
      CHECK(at.statuses[number] == MessageStatus::delivered);
    }
    at.statuses.clear();
    CHECK(at.memory[0] == 13);
    CHECK(at.memory[1] == 5);
    CHECK(numbers(at).size() == 2);  // the replies
    CHECK(at.drops(DropReason::duplicate_fragment) == (time == 0 ? 0 : 4));
  }
  Completion notices[2];
  CHECK(at.endpoint().poll_notices(notices) == 1);
  const EndpointStats stats = at.endpoint().stats();
  CHECK(stats.writes_placed == 1);
  CHECK(stats.reads_answered == 1);
  CHECK(stats.atomics_executed == 3);  // the signal is one
  CHECK(stats.one_sided_repeats == 4);
  CHECK(stats.one_sided_refused == 0);
  CHECK(stats.regions_exposed == 1);
  CHECK(stats.replies_pending == 2);
  at.scene.peer.floor = 4;
  at.add(4, at.target(0, 8), 100);
  at.add(2, at.target(0, 8), 1000);
  at.listen();
  CHECK(at.memory[0] == 113);
  CHECK(at.drops(DropReason::below_floor) == 1);
}

TEST_CASE("one_sided_packets__a_number_keeps_its_type_and_its_target", "[O12][O15]") {
  OneSidedPartner at;
  at.read(0, at.target(0, 8, 0, 77));
  at.listen();
  REQUIRE(at.statuses[0] == MessageStatus::delivered);
  at.statuses.clear();
  at.write(0, 0, at.target(0, 8), 'w');  // of a number that was a READ
  at.add(0, at.target(0, 8), 1);
  at.listen();
  CHECK(at.statuses[0] == MessageStatus::delivered);
  CHECK(at.drops(DropReason::duplicate_fragment) == 2);
  CHECK(at.memory[0] == 0);

  const std::uint64_t bytes = 2 * kFragment + 100;
  at.write(1, 0, at.target(0, bytes), 'a');
  at.read(1, at.target(0, 8));
  at.add(1, at.target(8 * kFragment, 8), 1);
  at.listen();
  CHECK(at.drops(DropReason::bad_field) == 2);
  auto elsewhere = at.target(8 * kFragment, bytes);
  elsewhere.secret ^= 1;
  at.write(1, 1, elsewhere, 'b');                  // goes where the first packet said
  at.write(1, 2, at.target(0, bytes + 100), 'c');  // a longer last fragment
  at.listen();
  CHECK(at.drops(DropReason::bad_field) == 3);
  CHECK(at.text(0, kFragment) == std::string(kFragment, 'a'));
  CHECK(at.text(kFragment, kFragment) == std::string(kFragment, 'b'));
  CHECK(at.text(2 * kFragment, 14 * kFragment) == std::string(14 * kFragment, '\0'));
  at.write(1, 2, at.target(0, bytes), 'c');
  at.listen();
  CHECK(at.statuses[1] == MessageStatus::delivered);

  at.scene.data(2, 0, 100);
  at.write(2, 0, at.target(0, 100), 'w');  // of a number that is a message
  at.listen();
  CHECK(at.drops(DropReason::bad_field) == 4);
  CHECK(at.text(0, 1) == "a");
}

TEST_CASE("one_sided_packets__a_first_fragment_again_is_answered_as_a_question", "[O18]") {
  OneSidedPartner at;
  const std::uint64_t bytes = 3 * kFragment;
  const auto to = at.target(0, bytes);
  at.write(0, 1, to, 'b');
  at.scene.settle();
  (void)at.scene.heard(0);
  at.write(0, 0, to, 'a');
  at.scene.settle();
  CHECK(at.scene.heard(0) == "grant 2-3");
  at.write(0, 0, to, 'x');
  at.scene.settle();
  CHECK(at.scene.heard(0) == "grant 2-3, request 2");
  CHECK(at.text(0, kFragment) == std::string(kFragment, 'a'));
  at.scene.granted(0, 2, bytes, at.scene.grant().rx_slot, at.scene.grant().rx_generation);
  at.scene.settle();
  CHECK(at.scene.heard(0) == "DELIVERED");
  at.write(0, 0, to, 'x');
  at.scene.settle();
  CHECK(at.scene.heard(0) == "DELIVERED");
  CHECK(at.text(0, kFragment) == std::string(kFragment, 'a'));
}

TEST_CASE("one_sided_packets__granted_fragments_are_checked_for_withdrawal", "[O4][O11]") {
  OneSidedPartner at;
  const std::uint64_t bytes = 4 * kFragment;
  at.write(0, 0, at.target(0, bytes), 'a');
  at.write(0, 1, at.target(0, bytes), 'a');
  at.scene.settle();
  REQUIRE(at.scene.heard(0) == "grant 2-4");
  const auto grant = at.scene.grant();
  at.scene.granted(0, 2, bytes, grant.rx_slot, grant.rx_generation);
  at.scene.settle();
  CHECK(at.text(2 * kFragment, kFragment) == std::string(kFragment, '\0'));  // bytes of number 0
  CHECK(at.drops(DropReason::bad_field) == 0);
  at.memory.assign(at.memory.size(), ~std::uint64_t{0});
  OperationId withdrawal{};
  REQUIRE(at.world().withdraw(0, at.region, withdrawal) == Status::ok);
  at.scene.settle();
  CHECK(at.world().completion(0, withdrawal) != nullptr);
  at.scene.granted(0, 3, bytes, grant.rx_slot, grant.rx_generation);
  at.listen();
  CHECK(at.statuses[0] == MessageStatus::region_withdrawn);
  CHECK(at.memory == std::vector<std::uint64_t>(at.memory.size(), ~std::uint64_t{0}));
}

TEST_CASE("one_sided_packets__a_signal_is_checked_before_the_first_byte", "[O10]") {
  OneSidedPartner at;
  auto signal = at.signal(at.key, 8, 5);
  signal.secret ^= 1;
  at.write(0, 0, at.target(64, 100, kTargetSignals), 'w', &signal);
  signal = at.signal(at.key, 12, 5);
  at.write(1, 0, at.target(64, 100, kTargetSignals), 'w', &signal);
  signal.width = 4;
  at.write(2, 0, at.target(64, 100, kTargetSignals), 'w', &signal);
  at.listen();
  CHECK(at.statuses[0] == MessageStatus::access_denied);
  CHECK(at.statuses[1] == MessageStatus::misaligned);
  CHECK(at.statuses[2] == MessageStatus::delivered);
  CHECK(at.memory[1] == std::uint64_t{5} << 32);
  CHECK(at.drops(DropReason::bad_field) == 0);
}

TEST_CASE("one_sided_packets__a_signal_that_can_not_be_executed_any_more", "[O29]") {
  struct NoAtomics final : proto::Placement {
    void place(std::byte* to, const std::byte* from, std::size_t bytes) override {
      std::memcpy(to, from, bytes);
    }
    void make_visible() override {}
    bool execute(std::byte*, const WordOperation&, std::uint64_t&) override { return false; }
    std::size_t granularity() const override { return 8; }
  } without;
  OneSidedPartner at;
  const RegionKey other = at.expose(without);  // at.region is this one from here on
  auto signal = at.signal(other, 0, 5);
  const std::uint8_t flags = kTargetSignals | kTargetNotifies;
  at.write(0, 0, at.target(64, 8, flags), 'w', &signal);
  at.write(1, 0, at.target(72, kFragment + 1, flags), 'w', &signal);
  at.listen();
  CHECK(at.statuses[0] == MessageStatus::unsupported);
  CHECK(at.text(64, 8) == "wwwwwwww");
  OperationId withdrawal{};
  REQUIRE(at.world().withdraw(0, at.region, withdrawal) == Status::ok);
  at.write(1, 1, at.target(72, kFragment + 1, flags), 'w', &signal);
  at.listen();
  CHECK(at.statuses[1] == MessageStatus::region_withdrawn);
  CHECK(at.text(72, kFragment + 1) == std::string(kFragment + 1, 'w'));
  CHECK(at.memory[0] == 0);
  Completion notice;
  CHECK(at.endpoint().poll_notices({&notice, 1}) == 0);
}

TEST_CASE("one_sided_packets__a_reply_is_a_write_of_the_target", "[O20][O14][O24]") {
  OneSidedPartner at;
  for (std::size_t i = 0; i < at.memory.size(); ++i) at.memory[i] = i;
  const std::uint64_t bytes = kFragment + 8;
  at.read(5, at.target(16, bytes, 0, 77));
  at.add(6, at.target(16, 4, kTargetFetches, 78), 1);
  at.listen();
  CHECK(at.statuses[5] == MessageStatus::delivered);  // executed in any order of numbers
  CHECK(at.statuses[6] == MessageStatus::delivered);
  REQUIRE(at.sent.size() == 3);
  const std::string word{2, 0, 0, 0};
  for (const auto& packet : at.sent) {
    CHECK(packet.type == PacketType::write);
    CHECK(packet.target.flags == kTargetReply);
    const bool of_read = packet.target.note == 77;
    CHECK(packet.number == (of_read ? 0 : 1));  // of the target's own
    CHECK(packet.target.note == (of_read ? 77 : 78));
    CHECK(packet.target.length() == (of_read ? bytes : 4));
    CHECK(packet.target.secret == 0);
    if (!of_read) CHECK(packet.payload == word);
  }
  at.memory[2] = 99;  // the word of the ATOMIC's reply is kept, whatever becomes of the memory
  const auto sent_before = at.sent.size();
  at.scene.acknowledge();
  at.world().run_for(milliseconds(20));
  at.listen();
  REQUIRE(at.sent.size() > sent_before);  // repeated, as no status has come
  bool has_new_word = false;
  for (const auto& packet : at.sent) {
    if (packet.number == 1) CHECK(packet.payload == word);
    has_new_word |= packet.number == 0 && packet.fragment == 0 && packet.payload.front() == 99;
  }
  CHECK(has_new_word);  // the READ's bytes are not kept
  at.scene.status(0, MessageStatus::delivered, 2);
  at.listen();
  const auto sent = at.sent.size();
  at.world().run_for(milliseconds(100));
  at.listen();
  CHECK(at.sent.size() == sent);
}

// The endpoint as initiator. Its peer has told that it knows one-sided operations.
struct Initiator {
  OneSidedPartner at;
  RegionKey key = OneSidedPartner::key_of_peer();
  std::string buffer = std::string(100, '-');

  template <class Request>
  OperationId post(const Request& request) {
    OperationId operation{};
    REQUIRE(at.world().post(0, request, operation) == Status::ok);
    return operation;
  }
  OperationId write(std::uint64_t bytes = 100) {
    return post(
        WriteRequest{.peer = at.scene.id, .key = key, .data = buffer.data(), .bytes = bytes});
  }
  OperationId read() {
    return post(ReadRequest{
        .peer = at.scene.id, .key = key, .data = buffer.data(), .bytes = buffer.size()});
  }
  OperationId add() {
    return post(AtomicRequest{
        .peer = at.scene.id, .key = key, .word = {AtomicOperation::add, 8, 1, 0}, .fetches = true});
  }
  [[nodiscard]] bool has_ended(OperationId operation) {
    return at.world().completion(0, operation) != nullptr;
  }
  [[nodiscard]] Status status(OperationId operation) {
    REQUIRE(has_ended(operation));
    return at.world().completion(0, operation)->status;
  }
  // The packet of the operation posted last.
  const OneSidedPartner::Sent& packet() {
    at.listen();
    REQUIRE_FALSE(at.sent.empty());
    return at.sent.back();
  }
};

TEST_CASE("one_sided_packets__an_operation_asks_by_its_first_fragment", "[O18]") {
  Initiator from;
  MessageScene& scene = from.at.scene;
  (void)from.write();
  scene.settle();
  CHECK(scene.heard(0) == "data 0");
  scene.acknowledge();
  scene.settle();
  from.at.world().run_for(milliseconds(20));
  CHECK(scene.heard(0) == "again 0");  // neither lost nor answered, and no ENVELOPE
  scene.status(0, MessageStatus::delivered);
  scene.settle();
  from.at.world().run_for(milliseconds(100));
  (void)scene.heard(0);
  CHECK(scene.ended() == "ok");
}

TEST_CASE("one_sided_packets__final_statuses_and_those_that_are_none", "[B13][O19][O36]") {
  constexpr std::pair<MessageStatus, Status> kFinal[] = {
      {MessageStatus::delivered, Status::ok},
      {MessageStatus::access_denied, Status::access_denied},
      {MessageStatus::region_withdrawn, Status::region_withdrawn},
      {MessageStatus::misaligned, Status::misaligned},
      {MessageStatus::unsupported, Status::unsupported}};
  for (const auto& [told, expected] : kFinal) {
    INFO("status " << to_string(expected));
    Initiator from;
    for (const int kind : {0, 1, 2}) {
      const OperationId operation = kind == 0 ? from.write() : kind == 1 ? from.add() : from.read();
      const std::uint32_t number = from.packet().number;
      std::uint64_t bad = from.at.drops(DropReason::bad_field);
      for (const MessageStatus none :
           {MessageStatus::accepted, MessageStatus::no_room, MessageStatus::truncated,
            MessageStatus::cancelled, MessageStatus::matched}) {
        from.at.scene.status(number, none);
        from.at.scene.settle();
        CHECK(from.at.drops(DropReason::bad_field) == ++bad);
        CHECK_FALSE(from.has_ended(operation));
      }
      from.at.scene.status(number, MessageStatus::pending);
      from.at.scene.settle();
      CHECK(from.at.drops(DropReason::bad_field) == bad);
      CHECK_FALSE(from.has_ended(operation));
      from.at.scene.status(number, told);
      from.at.listen();
      if (expected == Status::ok && from.at.sent.back().target.note != 0) {
        CHECK_FALSE(from.has_ended(operation));  // awaits its reply
        const auto last = from.at.sent.back().target;
        from.at.write(number, 0, from.at.reply(last.note, last.length()), 'r');
        from.at.scene.settle();
      }
      CHECK(from.status(operation) == expected);
      CHECK(from.at.world().completion(0, operation)->executed == (expected == Status::ok));
    }
    // A message has none of these.
    if (expected == Status::ok) continue;
    const std::uint64_t bad = from.at.drops(DropReason::bad_field);
    const OperationId send = from.at.scene.send(10, Level::delivered);
    from.at.scene.settle();
    from.at.scene.status(3, told);
    from.at.scene.settle();
    CHECK(from.at.drops(DropReason::bad_field) == bad + 1);
    CHECK_FALSE(from.has_ended(send));
  }
}

TEST_CASE("one_sided_packets__a_fetch_ends_with_its_reply", "[O21]") {
  for (const bool reply_first : {true, false}) {
    INFO("reply first " << reply_first);
    Initiator from;
    const OperationId read = from.read();
    const auto packet = from.packet();
    CHECK(packet.type == PacketType::read);
    const auto reply = from.at.reply(packet.target.note, 100);
    const auto status = [&] { from.at.scene.status(packet.number, MessageStatus::delivered); };
    reply_first ? from.at.write(0, 0, reply, 'r') : status();
    from.at.listen();
    CHECK(from.has_ended(read) == reply_first);
    reply_first ? status() : from.at.write(0, 0, reply, 'r');
    from.at.listen();
    CHECK(from.status(read) == Status::ok);
    CHECK(from.at.statuses[0] == MessageStatus::delivered);  // the reply ends as well
    CHECK(from.buffer == std::string(100, 'r'));
    from.at.write(0, 0, reply, 'x');
    from.at.write(1, 0, reply, 'x');  // nobody awaits a second one
    from.at.listen();
    CHECK(from.at.statuses[1] == MessageStatus::delivered);
    CHECK(from.buffer == std::string(100, 'r'));
  }
}

TEST_CASE("one_sided_packets__a_reply_must_fit_its_fetch", "[O22]") {
  Initiator from;
  const OperationId read = from.read();
  const std::uint64_t note = from.packet().target.note;
  from.at.write(0, 0, from.at.reply(note, 99), 'x');
  from.at.write(0, 0, from.at.reply(note, 3 * kFragment), 'x');
  from.at.listen();
  CHECK(from.at.drops(DropReason::bad_field) == 2);
  from.at.write(0, 0, from.at.reply(note ^ 1, 100), 'x');  // a name of none
  from.at.listen();
  CHECK(from.at.statuses[0] == MessageStatus::delivered);
  CHECK(from.buffer == std::string(100, '-'));
  CHECK_FALSE(from.has_ended(read));
}

TEST_CASE("one_sided_packets__no_reply_reaches_a_fetch_that_was_refused", "[O21][O22]") {
  Initiator from;
  const OperationId read = from.read();
  const auto packet = from.packet();
  from.at.scene.status(packet.number, MessageStatus::access_denied);
  from.at.write(0, 0, from.at.reply(packet.target.note, 100), 'x');
  from.at.listen();
  CHECK(from.status(read) == Status::access_denied);
  CHECK(from.at.statuses[0] == MessageStatus::delivered);
  CHECK(from.buffer == std::string(100, '-'));
}

// A peer that never says that it has the reply holds the memory no longer than the NICs do.
TEST_CASE("one_sided_packets__a_withdrawal_waits_for_no_peer", "[O44]") {
  OneSidedPartner at;
  at.read(0, at.target(0, 4 * kFragment, 0, 77));
  at.listen();
  REQUIRE_FALSE(at.sent.empty());
  OperationId withdrawal{};
  REQUIRE(at.world().withdraw(0, at.region, withdrawal) == Status::ok);
  at.world().run_for(milliseconds(1));
  REQUIRE(at.world().completion(0, withdrawal) != nullptr);
  CHECK(at.world().completion(0, withdrawal)->status == Status::ok);
  at.memory.assign(at.memory.size(), ~std::uint64_t{0});
  at.listen();
  const std::size_t before = at.sent.size();
  at.scene.acknowledge();
  at.world().run_for(milliseconds(50));
  at.listen();
  REQUIRE(at.sent.size() > before);  // it goes on telling the peer
  for (const auto& packet : std::span(at.sent).subspan(before)) {
    CHECK((packet.target.flags & kTargetWithdrawn) != 0);
    CHECK(packet.payload.empty());
  }
}

TEST_CASE("one_sided_packets__a_withdrawn_reply_ends_the_fetch", "[O43]") {
  Initiator from;
  from.buffer = std::string(2 * kFragment, '-');
  for (const bool had_begun : {false, true}) {
    INFO("had begun " << had_begun);
    const OperationId read = from.read();
    const auto packet = from.packet();
    const std::uint32_t number = had_begun ? 1 : 0;
    const auto note = packet.target.note;
    if (had_begun) from.at.write(number, 0, from.at.reply(note, 2 * kFragment), 'r');
    from.at.write(number, 0, from.at.reply(note, 2 * kFragment, kTargetWithdrawn), 0);
    from.at.scene.status(packet.number, MessageStatus::delivered);
    from.at.listen();
    CHECK(from.status(read) == Status::region_withdrawn);
    CHECK(from.at.world().completion(0, read)->executed);
    CHECK(from.at.statuses[number] == MessageStatus::delivered);
  }
  CHECK(from.at.drops(DropReason::bad_field) == 0);
}

TEST_CASE("one_sided_packets__a_cancel_comes_too_late", "[O37]") {
  Initiator from;
  const OperationId write = from.write();
  CHECK(from.at.world().cancel(0, write) == Status::too_late);
  from.at.scene.settle();
  CHECK_FALSE(from.has_ended(write));
}

TEST_CASE("one_sided_packets__a_peer_without_the_feature_bit_is_asked_for_nothing", "[O47]") {
  const RegionKey key = OneSidedPartner::key_of_peer();
  std::string buffer(100, '-');
  for (const unsigned features : {0u, 0xfeu, 0x01u, 0xffu}) {
    INFO("features " << features);
    OneSidedPartner at(MessageScene::defaults(), static_cast<std::uint8_t>(features));
    const Status expected = (features & 1) != 0 ? Status::ok : Status::unsupported;
    WriteRequest write{.peer = at.scene.id, .key = key, .data = buffer.data(), .bytes = 10};
    ReadRequest read{.peer = at.scene.id, .key = key, .data = buffer.data(), .bytes = 10};
    AtomicRequest add{.peer = at.scene.id, .key = key, .word = {AtomicOperation::add, 8, 1, 0}};
    CHECK(at.world().post(0, write) == expected);
    CHECK(at.world().post(0, read) == expected);
    CHECK(at.world().post(0, add) == expected);
    at.listen();
    CHECK(at.sent.size() == (expected == Status::ok ? 3 : 0));
  }
}

TEST_CASE("one_sided_packets__hello_and_welcome_announce_the_feature", "[O47]") {
  MessageScene scene;
  std::uint8_t features = 0;
  scene.peer.cookie = 0;
  scene.peer.say(PacketType::hello);
  scene.settle();
  for (const auto& packet : scene.peer.seen()) features |= packet.session.features;
  CHECK(features == (proto::wire::kFeatureOneSided | proto::wire::kFeatureSizeClasses));
}

}  // namespace
}  // namespace hawser::test
