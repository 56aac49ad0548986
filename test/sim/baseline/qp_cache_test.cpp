// SPDX-License-Identifier: Apache-2.0
// The cost of a NIC's cache of contexts: hits and misses under least-recently-used eviction, and
// the time of a miss.
#include "sim/baseline/qp_cache.hpp"

#include "test/sim/baseline/world.hpp"

namespace hawser::baseline {
namespace {

ContextCache cache_of(std::uint32_t contexts, Span miss, std::uint32_t fetches = 0) {
  return {.contexts = contexts, .miss = miss, .fetches = fetches};
}

TEST_CASE("qp_cache__in_turn_over_one_more_than_it_holds_always_misses") {
  for (const std::uint32_t connections : {8u, 9u}) {
    QpCache cache(cache_of(8, microseconds(1)));
    Instant now{};
    for (std::uint32_t i = 0; i < 100 * connections; ++i) {
      now = cache.use(i % connections, now);
    }
    CHECK(cache.hits() == (connections == 8 ? 99 * 8 : 0));
    CHECK(cache.misses() == (connections == 8 ? 8 : 100 * 9));
    CHECK(now.ps == static_cast<std::int64_t>(cache.misses()) * 1'000'000);
  }
}

TEST_CASE("qp_cache__forgets_what_was_used_longest_ago") {
  QpCache cache(cache_of(2, microseconds(1)));
  const auto hits = [&](std::uint32_t connection) {
    const Instant now{1'000'000'000};
    return cache.use(connection, now) == now;
  };
  (void)cache.use(1, Instant{});
  (void)cache.use(2, Instant{});
  CHECK(hits(1));
  CHECK_FALSE(hits(3));
  CHECK(hits(1));  // 2 was evicted
  CHECK_FALSE(hits(2));
  CHECK(cache.misses() == 4);
  CHECK(cache.hits() == 2);
}

// A packet that comes while its context is being fetched waits for that fetch, and no longer.
TEST_CASE("qp_cache__a_fetch_is_waited_for_once") {
  QpCache cache(cache_of(4, microseconds(2)));
  CHECK(cache.use(1, Instant{0}) == Instant{2'000'000});
  CHECK(cache.use(1, Instant{500'000}) == Instant{2'000'000});
  CHECK(cache.use(2, Instant{500'000}) == Instant{2'500'000});
  CHECK(cache.use(1, Instant{3'000'000}) == Instant{3'000'000});
}

TEST_CASE("qp_cache__fetches_no_more_at_once_than_it_can") {
  QpCache cache(cache_of(8, microseconds(1), 2));
  std::vector<std::int64_t> ready;
  for (std::uint32_t i = 0; i < 5; ++i) ready.push_back(cache.use(i, Instant{}).ps);
  CHECK(ready == std::vector<std::int64_t>{1'000'000, 1'000'000, 2'000'000, 2'000'000, 3'000'000});
}

Setup with_cache(ContextCache cache) {
  Setup out = setup();
  out.cache = cache;
  return out;
}

// One packet needs the sender's context, then the receiver's. The sender's is still there for the
// acknowledgement.
TEST_CASE("qp_cache__a_cold_connection_waits_at_both_ends") {
  for (const std::int64_t miss : {500, 5000}) {
    World world(two_hosts(), one_flow(1), baseline("rc"),
                with_cache(cache_of(1, nanoseconds(miss))));
    REQUIRE(world.run.run(kMost));
    CHECK(world.received() == kThere + 2 * miss * 1000);
    CHECK(world.ended() == kThereAndBack + 2 * miss * 1000);
    CHECK(world.run.cache(0).misses() == 1);
    CHECK(world.run.cache(0).hits() == 1);
    CHECK(world.run.cache(1).misses() == 1);
  }
}

// A warm connection is as fast as one without a cache.
TEST_CASE("qp_cache__a_context_that_is_held_costs_nothing_more") {
  World world(two_hosts(), one_flow(100), baseline("rc"), with_cache(cache_of(1, microseconds(1))));
  REQUIRE(world.run.run(kMost));
  CHECK(world.run.cache(0).misses() == 1);
  CHECK(world.run.cache(0).hits() == 199);
  CHECK(world.run.cache(1).hits() == 99);
  // Both misses once, less the time by which a window of 15 packets exceeds the round trip.
  CHECK(world.ended() == 99 * kPacket + kThereAndBack + 2'000'000 - (15 * kPacket - kThereAndBack));
}

// One host sends to N others, with a packet in flight to each. The acknowledgements come in turn,
// and each needs a context. The packet that follows finds it in the cache. With room for all
// contexts but one, every acknowledgement misses.
TEST_CASE("qp_cache__a_host_with_one_peer_too_many_misses_at_every_ack") {
  constexpr std::uint32_t kPeers = 8;
  constexpr std::uint32_t kRounds = 50;
  ConnectionMatrix matrix;
  matrix.nodes = kPeers + 1;
  for (std::uint32_t peer = 1; peer <= kPeers; ++peer) {
    matrix.connections.push_back(
        {.from = 0, .to = peer, .bytes = std::uint64_t{kRounds} * kSizes.payload});
  }
  Baseline rc = baseline("rc");
  rc.window_round_trips = 0.01;  // a packet
  std::int64_t ends[2] = {};
  for (const std::uint32_t contexts : {kPeers, kPeers - 1}) {
    World world(fabric::one_switch(kPeers + 1, 100 * kGigabit, microseconds(1)), matrix, rc,
                with_cache(cache_of(contexts, nanoseconds(200))));
    REQUIRE(world.run.run(kMost));
    const QpCache& cache = world.run.cache(0);
    CHECK(cache.hits() + cache.misses() == 2 * kPeers * kRounds);
    CHECK(cache.misses() == (contexts == kPeers ? kPeers : kPeers + kPeers * kRounds));
    for (std::uint32_t peer = 1; peer <= kPeers; ++peer) CHECK(world.run.cache(peer).misses() == 1);
    ends[contexts == kPeers ? 0 : 1] = world.ended(kPeers - 1);
  }
  // Each round takes one fetch more.
  CHECK(ends[1] - ends[0] == kRounds * 200'000);
}

}  // namespace
}  // namespace hawser::baseline
