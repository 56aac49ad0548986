// SPDX-License-Identifier: Apache-2.0
// Each recovery mechanism does something that the others can't. The same scene runs with it and
// without it, and the difference must show.
#include <catch2/catch.hpp>

#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using proto::microseconds;
using proto::milliseconds;

// Time in ns from the first send until the receiver has everything; -1 if it exceeds `limit`.
std::int64_t time_of_stream(World& world, int messages, std::size_t bytes, proto::Duration limit,
                            const std::function<void(int)>& before_message = {}) {
  const proto::Time begin = world.now();
  std::vector<std::string> sent;
  std::vector<std::string> got(static_cast<std::size_t>(messages), std::string(bytes, 'x'));
  for (int i = 0; i < messages; ++i) sent.push_back(pattern(static_cast<std::uint64_t>(i), bytes));
  for (int i = 0; i < messages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (before_message) before_message(i);
    world.receive(1, world.peer(1, 0), 1, got[at]);
    world.send(0, 1, 1, sent[at]);
    if (!world.run_until_completed(1, at + 1, limit)) return -1;
    CHECK(got[at] == sent[at]);
  }
  return (world.now() - begin).ns;
}

// Loses the n-th packet of the data queue that node 0 sends after `armed`, once.
struct LoseOne {
  bool armed = false;
  int skip = 0;
  std::optional<engine::Fate> operator()(std::uint32_t node, const engine::FaultPacket& packet) {
    if (!armed || node != 0 || packet.direction != engine::Direction::tx ||
        packet.queue != proto::Queue::data || skip-- > 0) {
      return std::nullopt;
    }
    armed = false;
    return engine::Fate{.drop = true};
  }
};

WorldConfig losing_the_last_packet(LoseOne& lose, bool request, bool pto) {
  WorldConfig config;
  config.tunables.recovery_request = request ? 1 : 0;
  config.tunables.recovery_pto = pto ? 1 : 0;
  config.hook = [&lose](std::uint32_t node, std::uint32_t, const engine::FaultPacket& packet) {
    return lose(node, packet);
  };
  return config;
}

// Sends messages of 8 fragments; the last packet of the third message is lost.
std::int64_t tail_loss(bool request, bool pto) {
  LoseOne lose;
  World world(losing_the_last_packet(lose, request, pto));
  world.connect_all();
  return time_of_stream(world, 3, 8 * 4096, milliseconds(3000), [&](int i) {
    lose.armed = i == 2;
    lose.skip = 7;
  });
}

TEST_CASE("mechanisms__the_receiver_asks_for_a_lost_tail_where_the_sender_never_probes") {
  const std::int64_t with = tail_loss(true, false);
  const std::int64_t without = tail_loss(false, false);
  CHECK(with > 0);
  CHECK(with < milliseconds(20).ns);
  CHECK((without < 0 || without > 10 * with));
}

TEST_CASE("mechanisms__the_sender_probes_for_a_lost_tail_where_the_receiver_never_asks", "[L8]") {
  const std::int64_t with = tail_loss(false, true);
  const std::int64_t without = tail_loss(false, false);
  CHECK(with > 0);
  CHECK(with < milliseconds(20).ns);
  CHECK((without < 0 || without > 10 * with));
}

// A NIC dies silently in the middle of a stream. Returns how long the stream takes from then on.
std::int64_t death_in_a_stream(bool evacuate) {
  WorldConfig config;
  config.nics = 4;
  config.tunables.recovery_evacuate = evacuate ? 1 : 0;
  config.tunables.recovery_request = 0;  // this test is about the sender's own knowledge
  World world(config);
  world.connect_all();
  world.apply(0, "rate=500000000");  // so that the stream lasts for 20 ms
  const std::string sent = pattern(1, 40 << 20);
  std::string got(sent.size(), 'x');
  world.receive(1, world.peer(1, 0), 1, got);
  world.send(0, 1, 1, sent);
  REQUIRE(
      world.run_until([&] { return world.stats(0).packets_in_flight > 100; }, milliseconds(10)));
  world.apply(0, 2, "kill");
  const proto::Time death = world.now();
  std::int64_t moved_on = -1;
  REQUIRE(world.run_until(
      [&] {
        if (moved_on < 0 && world.stats(0).lost_by_evacuation > 0) {
          moved_on = (world.now() - death).ns;
        }
        return world.completions(0).size() == 1;
      },
      milliseconds(20000)));
  CHECK(world.completions(0)[0].status == Status::ok);
  CHECK(got == sent);
  return moved_on;
}

TEST_CASE("mechanisms__evacuation_moves_what_a_dead_nic_holds_without_waiting_for_a_timer",
          "[P4]") {
  const std::int64_t with = death_in_a_stream(true);
  const std::int64_t without = death_in_a_stream(false);
  CHECK(with > 0);
  CHECK(with < milliseconds(3).ns);
  // Without evacuation the probe timeouts notice the death.
  CHECK(without > 2 * with);
}

// If silence has no consequence, the sender doesn't ask about it: each answer would be followed by
// the next question.
TEST_CASE("mechanisms__without_evacuation_nobody_asks_about_silence", "[L8]") {
  WorldConfig config;
  config.nics = 2;
  config.tunables.recovery_evacuate = 0;
  config.tunables.initial_rtt_us = 20000;
  World world(config);
  world.connect_all();
  world.apply(0, 1, "blackhole=both");
  const std::string sent = pattern(1, 8);
  std::array<std::string, 8> got;
  for (std::string& one : got) {
    one.resize(8);
    world.receive(1, world.peer(1, 0), 1, one);
    world.send(0, 1, 1, sent);
  }
  REQUIRE(world.run_until_completed(1, got.size(), milliseconds(2000)));
  world.run_for(milliseconds(100));
  CHECK(world.stats(0).path_probes_sent < 50);
}

std::uint64_t bytes_on(World& world, std::uint32_t nic) {
  std::vector<NicStats> stats(4);
  world.endpoint(0).nic_stats(stats);
  return stats[nic].bytes_sent;
}

std::int64_t stream_with_a_slow_nic(bool weighted, std::uint64_t& slow_bytes) {
  WorldConfig config;
  config.nics = 4;
  config.tunables.spray_weighted = weighted ? 1 : 0;
  World world(config);
  world.connect_all();
  for (std::uint32_t nic = 0; nic < 4; ++nic) {
    const char* rate = nic == 3 ? "rate=100000000" : "rate=500000000";
    world.apply(0, nic, rate);
  }
  const std::int64_t time = time_of_stream(world, 100, 1 << 18, milliseconds(20000));
  slow_bytes = bytes_on(world, 3);
  return time;
}

TEST_CASE("mechanisms__weighting_gives_a_slow_nic_its_share", "[P9]") {
  std::uint64_t slow_weighted = 0;
  std::uint64_t slow_equal = 0;
  const std::int64_t weighted = stream_with_a_slow_nic(true, slow_weighted);
  const std::int64_t equal = stream_with_a_slow_nic(false, slow_equal);
  REQUIRE(weighted > 0);
  REQUIRE(equal > 0);
  UNSCOPED_INFO("weighted " << weighted << " ns, equal " << equal << " ns; on the slow NIC "
                            << slow_weighted << " and " << slow_equal);
  CHECK(slow_weighted * 2 < slow_equal);
  CHECK(static_cast<double>(weighted) < 0.9 * static_cast<double>(equal));
}

TEST_CASE("mechanisms__probing_brings_a_path_back") {
  WorldConfig config;
  config.nics = 2;
  World world(config);
  world.connect_all();
  REQUIRE(time_of_stream(world, 1, 1 << 20, milliseconds(1000)) > 0);
  world.apply(0, 1, "kill");
  for (int i = 0; i < 20; ++i) {
    const auto done = world.completions(1).size();
    std::string got(1 << 20, 'x');
    const std::string sent = pattern(9, got.size());
    world.receive(1, world.peer(1, 0), 1, got);
    world.send(0, 1, 1, sent);
    REQUIRE(world.run_until_completed(1, done + 1, milliseconds(5000)));
    REQUIRE(world.run_until_completed(0, done + 1, milliseconds(5000)));
  }
  REQUIRE(world.run_until([&] { return world.stats(0).paths_down >= 1; }, milliseconds(2000)));
  world.apply(0, 1, "revive");
  // path_probe_max is half a second.
  REQUIRE(world.run_until([&] { return world.stats(0).paths_returned >= 1; }, milliseconds(2000)));
}

}  // namespace
}  // namespace hawser::test
