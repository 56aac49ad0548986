// SPDX-License-Identifier: Apache-2.0
// Routes between NICs that are dead in one direction, or for one queue alone. Only probes without
// an answer show it.
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <tuple>

#include "proto/base/random.hpp"
#include "proto/wire/layout.hpp"
#include "test/protocol/exchange.hpp"

namespace hawser::test {
namespace {

using engine::Direction;
using engine::Fate;
using engine::FaultPacket;
using proto::milliseconds;
using proto::Queue;

proto::wire::CommonHeader header_of(const FaultPacket& packet) {
  proto::wire::CommonHeader header;
  std::memcpy(&header, packet.header.data(), sizeof header);
  return header;
}

// Drops everything that arrives over a dead route.
class DeadWays {
 public:
  // The route from NIC `from` of the other node to NIC `nic` of `node`.
  void kill(std::uint32_t node, std::uint32_t nic, std::uint32_t from, Queue queue) {
    dead_.emplace(node, nic, from, queue);
  }
  // All routes from a NIC of `node` to the other node, which has `others` NICs.
  void silence(std::uint32_t node, std::uint32_t nic, Queue queue, std::uint32_t others) {
    for (std::uint32_t other = 0; other < others; ++other) kill(1 - node, other, nic, queue);
  }
  void clear() { dead_.clear(); }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

  std::optional<Fate> operator()(std::uint32_t node, std::uint32_t nic, const FaultPacket& packet) {
    if (packet.direction != Direction::rx) return std::nullopt;
    const proto::wire::CommonHeader header = header_of(packet);
    if (!dead_.contains({node, nic, header.nic(), packet.queue})) return std::nullopt;
    ++lost_;
    return Fate{.drop = true};
  }

 private:
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, Queue>> dead_;
  std::uint64_t lost_ = 0;
};

// Exchanges messages of all kinds in both directions. False if not all is done within the limit.
bool exchange_all_sorts(World& world, std::uint64_t round, proto::Duration limit) {
  Exchange exchange(world);
  exchange.both_ways(4, 100, 100, 1000 * round);
  exchange.both_ways(4, 1000000, 300000, 1000 * round + 100);
  for (std::uint64_t i = 0; i < 4; ++i) {
    exchange.message(0, 1, 1000 * round + 200 + i, 3000, {.level = Level::delivered});
    exchange.send(1, 0, 1000 * round + 300 + i, 200000);  // before its receive
  }
  world.run_for(proto::microseconds(300));
  for (std::uint64_t i = 0; i < 4; ++i) exchange.receive(0, 1, 1000 * round + 300 + i, 200000);
  if (!exchange.run(limit)) return false;
  exchange.check_all_ok();
  return true;
}

TEST_CASE("control_routes__what_one_nic_says_on_one_queue_is_lost", "[A4][A9]") {
  for (const std::uint32_t nics : {2u, 4u}) {
    for (const std::uint32_t node : {0u, 1u}) {
      for (const Queue queue : {Queue::control, Queue::data}) {
        for (std::uint32_t nic = 0; nic < nics; ++nic) {
          INFO(nics << " NICs, NIC " << nic << " of node " << node << ", "
                    << (queue == Queue::control ? "control" : "data"));
          DeadWays ways;
          WorldConfig config;
          config.nics = nics;
          config.hook = std::ref(ways);
          World world(config);
          world.connect_all();
          REQUIRE(exchange_all_sorts(world, 0, milliseconds(20)));
          ways.silence(node, nic, queue, nics);
          for (std::uint64_t round = 1; round < 6; ++round) {
            REQUIRE(exchange_all_sorts(world, round, milliseconds(20)));
          }
          if (queue == Queue::data) CHECK(ways.lost() > 0);  // control may keep to other NICs
          ways.clear();
          REQUIRE(exchange_all_sorts(world, 6, milliseconds(20)));
        }
      }
    }
  }
}

// Any routes may be dead, each in one direction and for one queue, except those of one pair of
// NICs. They may be so from the first packet on, or later.
TEST_CASE("control_routes__one_pair_that_works_is_enough", "[A9]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    proto::Random random(seed);
    const std::array<std::uint32_t, 2> nics{static_cast<std::uint32_t>(1 + random.below(4)),
                                            static_cast<std::uint32_t>(1 + random.below(4))};
    DeadWays ways;
    WorldConfig config;
    config.nics_of = {nics[0], nics[1]};
    config.seed = seed;
    config.hook = std::ref(ways);
    World world(config);
    const bool late = random.chance(0.5);
    if (late) {
      world.connect_all();
      REQUIRE(exchange_all_sorts(world, 0, milliseconds(20)));
    }
    const std::array<std::uint64_t, 2> works{random.below(nics[0]), random.below(nics[1])};
    const double dead = 0.2 + 0.2 * static_cast<double>(random.below(5));
    for (std::uint32_t a = 0; a < nics[0]; ++a) {
      for (std::uint32_t b = 0; b < nics[1]; ++b) {
        if (a == works[0] && b == works[1]) continue;
        for (const Queue queue : {Queue::control, Queue::data}) {
          if (random.chance(dead)) ways.kill(0, a, b, queue);
          if (random.chance(dead)) ways.kill(1, b, a, queue);
        }
      }
    }
    if (!late) world.connect_all();
    REQUIRE(exchange_all_sorts(world, 1, milliseconds(400)));
    REQUIRE(exchange_all_sorts(world, 2, milliseconds(400)));
  }
}

// No probe is answered but one that insists, and the one that goes beside it over NIC 0. The way of
// the first is the longer one, and so the verdict of silence comes before its answer.
TEST_CASE("control_routes__a_path_that_only_insisting_probes_hear_from_is_not_probed_for_ever",
          "[P28]") {
  bool answers_all = true;
  bool insisted = false;  // the last probe of NIC 1
  int lost = 0;
  int probes = 0;
  int insisting = 0;
  WorldConfig config;
  config.nics = 2;
  config.hook = [&](std::uint32_t node, std::uint32_t nic,
                    const FaultPacket& packet) -> std::optional<Fate> {
    if (packet.direction == Direction::rx || node != 0) return std::nullopt;
    const proto::wire::CommonHeader header = header_of(packet);
    if (answers_all || !proto::wire::rule_of(header.type).sequenced) return std::nullopt;
    if (header.type != proto::wire::PacketType::probe) {
      const bool drop = nic == 1 && lost == 0;
      lost += drop ? 1 : 0;
      return Fate{.drop = drop};
    }
    ++probes;
    if (nic == 1) insisted = (header.flags & proto::wire::kFlagInsists) != 0;
    insisting += nic == 1 && insisted ? 1 : 0;
    return Fate{.drop = !insisted, .delay = proto::microseconds(nic == 0 ? 0 : 30)};
  };
  World world(config);
  world.connect_all();
  REQUIRE(exchange_all_sorts(world, 0, milliseconds(20)));
  answers_all = false;
  for (std::uint64_t tag = 1; tag < 20 && lost == 0; ++tag) {
    Exchange exchange(world);
    exchange.message(0, 1, 1'000'000 + tag, 100);
    REQUIRE(exchange.run(milliseconds(100)));
  }
  world.run_for(milliseconds(200));
  CHECK(lost > 0);
  CHECK(insisting > 0);
  CHECK(probes < 20);  // without the rule some 2000
}

}  // namespace
}  // namespace hawser::test
