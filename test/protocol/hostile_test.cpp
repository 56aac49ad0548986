// SPDX-License-Identifier: Apache-2.0
// Packets that no honest peer sends. Strangers change nothing. A sender that knows the session's
// token can corrupt its own messages, but it breaks no invariant, and everything else goes on.
#include <catch2/catch.hpp>

#include "test/protocol/exchange.hpp"
#include "test/protocol/injector.hpp"
#include "test/protocol/packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;
using proto::Queue;
using proto::wire::PacketType;

struct Recorded {
  std::uint32_t from = 0;
  Datagram datagram;
};

// Keeps a copy of the nodes' packets: the newest of each type, and some others.
struct Recorder {
  std::vector<Recorded> packets;
  bool on = true;
  std::optional<Fate> operator()(std::uint32_t node, std::uint32_t, const FaultPacket& packet) {
    if (packet.direction != engine::Direction::tx || !on) return {};
    Recorded recorded{node, Datagram(packet.queue, packet.header, packet.payload)};
    if (packets.size() < 300) {
      packets.push_back(std::move(recorded));
    } else {
      packets[next_++ % packets.size()] = std::move(recorded);
    }
    return {};
  }

 private:
  std::size_t next_ = 0;
};

std::uint64_t all_drops(World& world, std::uint32_t node) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : world.stats(node).drops) sum += count;
  return sum;
}
void mutate(Datagram& datagram, proto::Random& random) {
  const auto bytes = datagram.datagram();
  for (std::uint64_t n = 1 + random.below(6); n-- > 0;) {
    // Mostly in the headers.
    const std::size_t at =
        random.below(random.chance(0.8) ? std::min<std::size_t>(bytes.size(), 200) : bytes.size());
    switch (random.below(3)) {
      case 0: bytes[at] ^= std::byte{1} << static_cast<int>(random.below(8)); break;
      case 1: bytes[at] = static_cast<std::byte>(random.next()); break;
      default: bytes[at] = random.chance(0.5) ? std::byte{0} : std::byte{0xff}; break;
    }
  }
}

TEST_CASE("hostile__strangers_change_nothing", "[F2]") {
  for_each_seed(10, [](proto::Random& random) {
    Recorder recorder;
    WorldConfig config;
    config.nics = 2;
    config.seed = random.next();
    config.hook = std::ref(recorder);
    config.secrets = {"of the job", "of the job"};
    World world(config);
    Injector injector(world);
    Exchange exchange(world);
    world.connect_all();
    for (std::uint64_t i = 0; i < 30; ++i) {
      (void)exchange.receive(1, 0, i, 30000);
      (void)exchange.receive(0, 1, i, 30000);
      (void)exchange.send(0, 1, i, random.below(30000));
      (void)exchange.send(1, 0, i, random.below(30000));
      for (int k = 0; k < 20; ++k) {
        const auto node = static_cast<std::uint32_t>(random.below(2));
        const auto nic = static_cast<std::uint32_t>(random.below(2));
        Datagram datagram;
        if (random.chance(0.3) || recorder.packets.empty()) {
          std::vector<std::byte> noise(1 + random.below(2000));
          for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
          datagram = Datagram(random.chance(0.5) ? Queue::data : Queue::control, {}, noise);
          if (random.chance(0.7) && noise.size() >= 32) {
            datagram.header().version = proto::wire::kVersion;
            datagram.seal();
          }
        } else {
          // A stranger knows no token; everything else may be right.
          datagram = recorder.packets[random.below(recorder.packets.size())].datagram;
          if (random.chance(0.7)) mutate(datagram, random);
          if (datagram.header().type != PacketType::hello) datagram.header().token = random.next();
          datagram.seal();
        }
        injector.send(node, nic, datagram);
        world.run_for(proto::microseconds(random.below(20)));
      }
    }
    REQUIRE(exchange.run(milliseconds(2000)));
    exchange.check_all_ok();
    exchange.check_quiet();
    CHECK(all_drops(world, 0) > 100);
    CHECK(all_drops(world, 1) > 100);
    CHECK(world.drops(0, DropReason::wrong_token) > 0);
    CHECK(world.stats(0).peer_failures + world.stats(1).peer_failures == 0);
  });
}

// Posts an operation that may have any outcome, or may not be accepted.
void post_send(World& world, std::uint32_t from, std::uint32_t to, std::uint64_t tag,
               const std::string& bytes, bool delivered) {
  proto::SendRequest request;
  request.peer = world.peer(from, to);
  request.tag = tag;
  request.data = reinterpret_cast<const std::byte*>(bytes.data());
  request.bytes = bytes.size();
  if (delivered) request.options.level = Level::delivered;
  (void)world.post(from, request);
}
void post_receive(World& world, std::uint32_t node, std::uint32_t from, std::uint64_t tag,
                  std::string& buffer) {
  proto::ReceiveRequest request;
  request.peer = world.peer(node, from);
  request.tag = tag;
  request.data = reinterpret_cast<std::byte*>(buffer.data());
  request.bytes = buffer.size();
  (void)world.post(node, request);
}

// Messages may be corrupted here, but no assertion fails, nothing leaks, and a new session works.
TEST_CASE("hostile__a_mad_peer_with_the_right_token_breaks_nothing") {
  for_each_seed(40, [](proto::Random& random) {
    Recorder recorder;
    WorldConfig config;
    config.nodes = 3;
    config.nics = 2;
    config.seed = random.next();
    if (random.chance(0.5)) config.secrets.assign(3, "of the job");
    config.hook = std::ref(recorder);
    config.tunables.peer_timeout_ms = 300;
    config.tunables.unexpected_bytes = 262144;
    config.tunables.max_receive_messages = 64;
    World world(config);
    Injector injector(world);
    world.connect_all();
    world.run_for(milliseconds(3));
    Exchange honest(world);
    std::vector<std::string> buffers(200, std::string(30000, ' '));
    std::size_t used = 0;
    for (std::uint64_t i = 0; i < 40; ++i) {
      (void)honest.receive(1, 2, 1000 + i, 20000);
      (void)honest.send(2, 1, 1000 + i, random.below(20000));
      if (random.chance(0.5)) post_receive(world, 1, 0, i, buffers[used++]);
      post_send(world, 0, 1, i, buffers[used++], random.chance(0.5));
      if (random.chance(0.5)) post_receive(world, 0, 1, i, buffers[used++]);
      post_send(world, 1, 0, i, buffers[used++], random.chance(0.5));
      for (int k = 0; k < 30; ++k) {
        const Recorded& source = recorder.packets[random.below(recorder.packets.size())];
        if (source.from == 2) continue;
        Datagram datagram = source.datagram;
        const proto::wire::CommonHeader before = datagram.header();
        mutate(datagram, random);
        datagram.header().version = before.version;
        datagram.header().token = before.token;
        datagram.header().receiver = before.receiver;
        if (random.chance(0.9)) datagram.header().type = before.type;
        if (random.chance(0.9)) datagram.header().hwords = before.hwords;
        datagram.seal();
        // A packet of node 2's session with node 1 is not valid for node 0: the tokens differ.
        injector.send(1 - source.from, static_cast<std::uint32_t>(random.below(2)), datagram);
        if (random.chance(0.3)) world.run_for(proto::microseconds(random.below(100)));
      }
    }
    world.run_for(milliseconds(400));
    REQUIRE(honest.run(milliseconds(2000)));
    honest.check_all_ok();
    // The corrupted session ends, and the next one works.
    if (world.endpoint(0).disconnect(world.now(), world.peer(0, 1)) == Status::ok) {
      world.run_for(milliseconds(20));
    }
    if (world.endpoint(1).disconnect(world.now(), world.peer(1, 0)) == Status::ok) {
      world.run_for(milliseconds(400));
    }
    recorder.on = false;
    for (const std::uint32_t node : {0, 1}) CHECK(world.stats(node).operations_pending == 0);
    world.reconnect(0, 1);
    world.reconnect(1, 0);
    Exchange after(world);
    after.ignore_what_was();
    after.both_ways(10, 50000, 50000, 5000);
    REQUIRE(after.run(milliseconds(500)));
    after.check_all_ok();
    world.run_for(milliseconds(100));
    for (const std::uint32_t node : {0, 1, 2}) {
      CHECK(world.stats(node).packets_in_flight == 0);
      CHECK(world.stats(node).buffers_in_use == 0);
      CHECK(world.stats(node).operations_pending == 0);
    }
  });
}

// A quiet session of two nodes, and packets made for it that are right in all respects but one.
class Forger {
 public:
  Forger() : world_(config(*this)), injector_(world_) {
    world_.connect_all();
    world_.run_for(milliseconds(3));
    // Traffic first, so that either side knows a path.
    Exchange exchange(world_);
    exchange.message(0, 1, 1, 100);
    REQUIRE(exchange.run(milliseconds(20)));
    world_.run_for(milliseconds(5));
    for (const Recorded& recorded : recorder_.packets) {
      if (recorded.from == 0 && recorded.datagram.queue == Queue::data) {
        Datagram copy = recorded.datagram;
        if (copy.header().type == PacketType::data) header_ = copy.header();
      }
    }
    REQUIRE(header_.token != 0);
  }

  World& world() { return world_; }

  // Makes a packet from node 0 to node 1; `write` adds to it.
  template <class Write>
  void forge(PacketType type, Queue queue, Write&& write) {
    proto::PacketBuffer buffer;
    proto::wire::PacketWriter writer(buffer);
    writer.begin(type, header_.receiver, header_.token, header_.floor);
    write(writer);
    const std::uint32_t bytes = writer.finish(true);
    Datagram datagram(queue, std::span(buffer.bytes).first(bytes), {});
    injector_.send(1, 0, datagram);
    world_.run_for(milliseconds(2));
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) { return world_.drops(1, reason); }

 private:
  static WorldConfig config(Forger& forger) {
    WorldConfig config;
    config.hook = std::ref(forger.recorder_);
    return config;
  }
  Recorder recorder_;
  World world_;
  Injector injector_;
  proto::wire::CommonHeader header_{};
};

TEST_CASE("hostile__each_forgery_is_told_by_name", "[scenario 14][M7][M24][F2]") {
  using proto::wire::PacketWriter;
  Forger forger;
  Exchange exchange(forger.world());
  exchange.ignore_what_was();
  // Node 1 waits for a status of one message, and for the rest of another.
  (void)exchange.send(1, 0, 1, 300000);
  forger.world().run_for(milliseconds(5));
  const auto expect = [&](DropReason reason, PacketType type, Queue queue, auto&& write) {
    const std::uint64_t before = forger.dropped(reason);
    forger.forge(type, queue, write);
    INFO(static_cast<int>(reason));
    CHECK(forger.dropped(reason) > before);
  };
  const auto control = [&](DropReason reason, auto&& write) {
    expect(reason, PacketType::control, Queue::control, write);
  };
  control(DropReason::bad_field, [](PacketWriter& w) {  // a status of a message never sent
    REQUIRE(w.status(1, proto::wire::MessageStatus::delivered));
  });
  control(DropReason::bad_field, [](PacketWriter& w) {
    REQUIRE(w.status(0, proto::wire::MessageStatus::accepted, proto::wire::kMaxStatusRun));
  });
  control(DropReason::bad_field, [](PacketWriter& w) {  // the sender doesn't cancel this message
    REQUIRE(w.status(0, proto::wire::MessageStatus::cancelled));
  });
  control(DropReason::bad_field, [](PacketWriter& w) { w.header().floor += 1000; });
  control(DropReason::bad_field, [](PacketWriter& w) { REQUIRE(w.grant(0, 5, 5, 0, 1 << 30)); });
  control(DropReason::bad_field, [](PacketWriter& w) { REQUIRE(w.grant(0, 5, 5, 9, 8)); });
  control(DropReason::bad_field, [](PacketWriter& w) { REQUIRE(w.nic_state(9, false, 1)); });
  control(DropReason::bad_field, [](PacketWriter& w) {  // acknowledges a packet never sent
    const std::array<std::uint64_t, 1> all{~std::uint64_t{0}};
    REQUIRE(w.path_ack(0, 1, 100000, 0, 0, all));
  });
  // An acknowledgement of a path that was given up is late, which is normal, and settles nothing.
  const std::uint64_t late = forger.world().stats(1).late_acknowledgements;
  forger.forge(PacketType::control, Queue::control, [](PacketWriter& w) {
    const std::array<std::uint64_t, 1> all{~std::uint64_t{0}};
    REQUIRE(w.path_ack(0, 77, 0, 0, 0, all));
  });
  CHECK(forger.world().stats(1).late_acknowledgements == late + 1);
  control(DropReason::unknown_receiver, [](PacketWriter& w) { w.header().receiver = 1000000; });
  control(DropReason::wrong_token, [](PacketWriter& w) { w.header().token ^= 1; });
  control(DropReason::not_connected, [](PacketWriter& w) { w.header().slot = 0xf0; });
  const auto envelope = [](std::uint64_t length) {
    proto::wire::EnvelopePart part{};
    part.set_length(length);
    return part;
  };
  expect(DropReason::below_floor, PacketType::envelope, Queue::control, [&](PacketWriter& w) {
    w.part(proto::wire::FragmentPart{0xfffffff0u, 0});
    w.part(envelope(10));
  });
  expect(DropReason::beyond_window, PacketType::envelope, Queue::control, [&](PacketWriter& w) {
    w.part(proto::wire::FragmentPart{1000000, 0});
    w.part(envelope(10));
  });
  expect(DropReason::bad_field, PacketType::data, Queue::data, [&](PacketWriter& w) {
    w.header().generation = 1;
    w.header().path_number = 50;
    w.part(proto::wire::FragmentPart{5, 3});  // a message of 10 bytes has no fragment 3
    w.part(envelope(10));
  });
  expect(DropReason::bad_slot, PacketType::granted, Queue::data, [&](PacketWriter& w) {
    w.header().generation = 1;
    w.header().path_number = 51;
    w.part(proto::wire::FragmentPart{7, 0});
    w.part(proto::wire::ReceiveSlotPart{3, 3});
  });
  // None of that has harmed the messages that were under way.
  (void)exchange.receive(0, 1, 1, 300000);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
}

TEST_CASE("hostile__a_floor_above_an_unfinished_message_is_refused", "[scenario 14]") {
  Forger forger;
  World& world = forger.world();
  Exchange exchange(world);
  exchange.ignore_what_was();
  exchange.message(0, 1, 9, 300000);
  world.apply(0, "blackhole=tx");
  world.run_for(milliseconds(1));
  world.apply(0, "blackhole=none");
  std::uint32_t before = static_cast<std::uint32_t>(forger.dropped(DropReason::bad_field));
  for (std::uint32_t floor = 1; floor < 4; ++floor) {
    forger.forge(PacketType::control, Queue::control,
                 [&](proto::wire::PacketWriter& w) { w.header().floor = floor; });
  }
  CHECK(forger.dropped(DropReason::bad_field) > before);
  REQUIRE(exchange.run(milliseconds(100)));
  exchange.check_all_ok();
  exchange.check_quiet();
}

}  // namespace
}  // namespace hawser::test
