// SPDX-License-Identifier: Apache-2.0
// Each generator compared with hand calculation, and carried out.
#include "sim/traffic/generate.hpp"

#include <numeric>

#include "test/sim/traffic/ledger.hpp"

namespace hawser::fabric {
namespace {

using Kind = Traffic::Kind;

std::uint64_t sum(const std::vector<std::uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

TEST_CASE("generate__a_ring_sends_twice_all_but_its_own_block") {
  for (const std::uint32_t n : {2u, 3u, 4u, 16u}) {
    for (const std::uint32_t channels : {1u, 3u}) {
      const std::uint64_t bytes = 1200 * n;
      const ConnectionMatrix ring =
          generate({.kind = Kind::ring, .nodes = n, .bytes = bytes, .channels = channels}, 1);
      check_whole(ring);
      const Ledger ledger(ring);
      CHECK(ring.connections.size() == 2 * (n - 1) * n * channels);
      CHECK(ledger.steps.size() == 2 * (n - 1));
      CHECK(ledger.pairs.size() == n);
      for (std::uint32_t node = 0; node < n; ++node) {
        CHECK(ledger.sent[node] * n == 2 * (n - 1) * bytes);
        CHECK(ledger.received[node] * n == 2 * (n - 1) * bytes);
        CHECK(ledger.pairs.contains({node, (node + 1) % n}));
      }
    }
  }
}

// Every block goes n-1 hops in each half. All nodes together therefore send 2(n-1) times the
// vector, however its bytes are divided. Empty blocks aren't sent.
TEST_CASE("generate__a_ring_of_bytes_that_do_not_divide") {
  for (const std::uint64_t bytes : {1u, 3u, 5u, 1001u, 4099u}) {
    const ConnectionMatrix ring =
        generate({.kind = Kind::ring, .nodes = 5, .bytes = bytes, .channels = 2}, 1);
    check_whole(ring);
    CHECK(sum(Ledger(ring).sent) == 8 * bytes);
    std::uint64_t longest = 0;
    for (const Connection& one : ring.connections) longest = std::max(longest, one.bytes);
    CHECK(longest == (bytes + 9) / 10);
  }
}

// A node that awaits nothing more goes on at once; the others don't.
TEST_CASE("generate__a_ring_goes_on_with_what_came") {
  const ConnectionMatrix ring = generate({.kind = Kind::ring, .nodes = 3, .bytes = 300}, 1);
  Triggers triggers(ring);
  CHECK(triggers.begin().empty());
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(ring.connections[i].trigger == 0);
    const std::vector<std::uint32_t> next = triggers.on_received(i);
    REQUIRE(next.size() == 1);
    CHECK(ring.connections[next[0]].from == ring.connections[i].to);
    CHECK(ring.connections[next[0]].step == ring.connections[i].step + 1);
    CHECK(triggers.on_sent(i).empty());
  }
}

TEST_CASE("generate__a_butterfly_halves_and_doubles") {
  for (const std::uint32_t n : {2u, 4u, 8u, 16u}) {
    const std::uint64_t bytes = 512 * n;
    const ConnectionMatrix butterfly =
        generate({.kind = Kind::butterfly, .nodes = n, .bytes = bytes}, 1);
    check_whole(butterfly);
    const Ledger ledger(butterfly);
    const auto stages = static_cast<std::uint32_t>(std::countr_zero(n));
    CHECK(butterfly.connections.size() == 2 * stages * n);
    CHECK(ledger.steps.size() == 2 * stages);
    for (std::uint32_t node = 0; node < n; ++node) {
      CHECK(ledger.sent[node] * n == 2 * (n - 1) * bytes);
      // Half of the vector goes to the neighbour, and all of that half comes back.
      CHECK(ledger.pairs.at({node, node ^ 1}) == bytes);
    }
    for (const Connection& one : butterfly.connections) {
      const std::uint32_t step = one.hint.step;
      const std::uint32_t halvings = step < stages ? step + 1 : 2 * stages - step;
      CHECK(one.bytes == bytes >> halvings);
    }
  }
  // 7 bytes make blocks of 2, 2, 2 and 1. All nodes together send 2(n-1) times the vector.
  const ConnectionMatrix uneven = generate({.kind = Kind::butterfly, .nodes = 4, .bytes = 7}, 1);
  check_whole(uneven);
  CHECK(sum(Ledger(uneven).sent) == 6 * 7);
  CHECK(uneven.connections[0].bytes == 3);  // to 1: its block and that of 3
  CHECK(uneven.connections[1].bytes == 4);  // to 0: its block and that of 2
}

TEST_CASE("generate__doubling_of_any_number") {
  for (const std::uint32_t n : {2u, 3u, 6u, 8u, 13u}) {
    const ConnectionMatrix doubling =
        generate({.kind = Kind::doubling, .nodes = n, .bytes = 1000}, 1);
    check_whole(doubling);
    const auto power = std::bit_floor(n);
    const auto stages = static_cast<std::uint32_t>(std::countr_zero(power));
    CHECK(doubling.connections.size() == power * stages + 2 * (n - power));
    CHECK(Ledger(doubling).steps.size() == stages + (n == power ? 0 : 2));
    for (const Connection& one : doubling.connections) CHECK(one.bytes == 1000);
  }
}

// The most messages of a node that are under way at once, if they end in the order in which they
// began.
std::size_t most_under_way(const ConnectionMatrix& all, std::uint32_t node) {
  Triggers triggers(all);
  std::vector<std::uint32_t> begun;
  std::size_t most = 0;
  std::size_t under_way = 0;
  const auto begin = [&](std::uint32_t i) {
    begun.push_back(i);
    if (all.connections[i].from == node) most = std::max(most, ++under_way);
  };
  for (std::uint32_t i = 0; i < all.connections.size(); ++i) {
    if (all.connections[i].trigger == 0) begin(i);
  }
  for (std::size_t next = 0; next < begun.size(); ++next) {
    if (all.connections[begun[next]].from == node) --under_way;
    for (const std::uint32_t i : triggers.on_received(begun[next])) begin(i);
    for (const std::uint32_t i : triggers.on_sent(begun[next])) begin(i);
  }
  CHECK(begun.size() == all.connections.size());
  return most;
}

TEST_CASE("generate__an_all_to_all_keeps_its_window") {
  for (const std::uint32_t window : {0u, 1u, 4u, 16u}) {
    for (const bool shuffled : {false, true}) {
      const ConnectionMatrix all = generate({.kind = Kind::all_to_all,
                                             .nodes = 32,
                                             .bytes = 2000,
                                             .window = window,
                                             .shuffled = shuffled},
                                            7);
      check_whole(all);
      const Ledger ledger(all);
      CHECK(all.connections.size() == 32 * 31);
      CHECK(ledger.pairs.size() == 32 * 31);
      CHECK(ledger.steps.size() == 1);
      for (const auto& [pair, bytes] : ledger.pairs) CHECK(bytes == 2000);
      for (const std::uint32_t node : {0u, 5u, 31u}) {
        CHECK(most_under_way(all, node) == (window == 0 ? 31 : window));
      }
      CHECK((all.connections[0].to == 1) == !shuffled);
      CHECK(all.connections[0].hint.members == 31);
    }
  }
}

TEST_CASE("generate__rounds_follow_each_other_at_each_node") {
  const ConnectionMatrix all =
      generate({.kind = Kind::all_to_all, .nodes = 4, .bytes = 10, .rounds = 3}, 1);
  check_whole(all);
  CHECK(Ledger(all).steps.size() == 3);
  Triggers triggers(all);
  // Node 2 has received the first round with the third of its messages, and then starts the second.
  std::size_t came = 0;
  for (std::uint32_t i = 0; i < 12; ++i) {
    if (all.connections[i].to != 2) continue;
    const std::vector<std::uint32_t> next = triggers.on_received(i);
    CHECK(next.size() == (++came == 3 ? 3 : 0));
    for (const std::uint32_t one : next) {
      CHECK(all.connections[one].from == 2);
      CHECK(all.connections[one].step == 2);
    }
  }
}

TEST_CASE("generate__an_incast_shares_senders_out") {
  const ConnectionMatrix one = generate({.kind = Kind::incast, .nodes = 16, .bytes = 500}, 1);
  check_whole(one);
  CHECK(Ledger(one).received[0] == 15 * 500);
  CHECK(one.connections.size() == 15);
  CHECK(one.connections[3].hint.members == 15);
  const ConnectionMatrix three =
      generate({.kind = Kind::incast, .nodes = 14, .bytes = 500, .receivers = 3}, 1);
  check_whole(three);
  const Ledger ledger(three);
  CHECK(ledger.received[0] == 4 * 500);
  CHECK(ledger.received[1] == 4 * 500);
  CHECK(ledger.received[2] == 3 * 500);
  CHECK(ledger.pairs.size() == 11);
  const ConnectionMatrix few =
      generate({.kind = Kind::incast, .nodes = 14, .bytes = 500, .senders = 2, .receivers = 3}, 1);
  check_whole(few);
  CHECK(few.connections.size() == 6);
  CHECK(Ledger(few).pairs.size() == 6);
}

TEST_CASE("generate__a_permutation_leaves_nobody_out_and_nobody_alone") {
  const Traffic traffic{.kind = Kind::permutation, .nodes = 257, .bytes = 9};
  std::set<std::uint32_t> firsts;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ConnectionMatrix matrix = generate(traffic, seed);
    check_whole(matrix);
    const Ledger ledger(matrix);
    CHECK(matrix.connections.size() == 257);
    CHECK(std::ranges::count(ledger.sent, 9u) == 257);
    CHECK(std::ranges::count(ledger.received, 9u) == 257);
    firsts.insert(matrix.connections[0].to);
    CHECK(generate(traffic, seed).connections[0].to == matrix.connections[0].to);
  }
  CHECK(firsts.size() > 10);
}

TEST_CASE("generate__moe_comes_back_the_way_it_went") {
  const Traffic traffic{.kind = Kind::moe,
                        .nodes = 8,
                        .bytes = 64,
                        .rounds = 2,
                        .tokens = 500,
                        .top = 2,
                        .compute = microseconds(5)};
  const ConnectionMatrix matrix = generate(traffic, 3);
  check_whole(matrix);
  CHECK(Ledger(matrix).steps.size() == 4);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> way[4];
  std::uint64_t kept = 8 * 500 * 2 * 64;  // bytes that stay at their node
  for (const Connection& one : matrix.connections) {
    way[one.step - 1][{one.from, one.to}] = one.bytes;
    if (one.step == 1) kept -= one.bytes;
    CHECK(one.bytes % 64 == 0);
  }
  for (const auto& [pair, bytes] : way[0]) {
    CHECK(way[1].at({pair.second, pair.first}) == bytes);
  }
  CHECK(way[0].size() == way[1].size());
  CHECK(way[2] != way[0]);  // drawn again
  // One token in eight has its experts at its own node: 8000 draws, and five deviations.
  CHECK(static_cast<double>(kept) / 64 == Approx(1000).margin(5 * 30));
}

// If each token has one expert, the busiest of n gets 1 / sum(i^-s) of the draws with the skew s.
TEST_CASE("generate__moe_has_the_skew_that_was_asked_for") {
  for (const double skew : {0.0, 1.0, 2.0}) {
    const ConnectionMatrix matrix = generate(
        {.kind = Kind::moe, .nodes = 16, .bytes = 1, .tokens = 4000, .top = 1, .skew = skew}, 5);
    double weights = 0;
    for (int i = 1; i <= 16; ++i) weights += std::pow(i, -skew);
    const Ledger dispatched = [&] {
      ConnectionMatrix first = matrix;
      std::erase_if(first.connections, [](const Connection& one) { return one.step != 1; });
      return Ledger(first);
    }();
    const std::uint64_t busiest = *std::ranges::max_element(dispatched.received);
    const double share = skew == 0 ? 1.05 / 16 : 1 / weights;  // chance picks the busiest of equals
    CHECK(static_cast<double>(busiest) == Approx(15 * 4000 * share).epsilon(0.05));
  }
  // An extreme skew still gives each token different experts.
  const ConnectionMatrix all =
      generate({.kind = Kind::moe, .nodes = 4, .bytes = 1, .tokens = 10, .top = 4, .skew = 8}, 5);
  for (const auto& [pair, bytes] : Ledger(all).pairs) CHECK(bytes == 20);
}

TEST_CASE("generate__background_has_its_load_and_its_sizes") {
  Traffic traffic{.kind = Kind::background,
                  .nodes = 20,
                  .bytes = 50'000,
                  .load = 0.4,
                  .bits_per_s = 100 * kGigabit,
                  .duration = microseconds(20'000)};
  // 0.4 of 100 Gb/s in 20 ms are 100 MB a node: 2000 messages of 50 KB.
  for (const auto sizes :
       {Traffic::Sizes::fixed, Traffic::Sizes::exponential, Traffic::Sizes::web_search}) {
    traffic.sizes = sizes;
    traffic.duration = microseconds(sizes == Traffic::Sizes::web_search ? 2'000'000 : 20'000);
    const ConnectionMatrix matrix = generate(traffic, 11);
    check_whole(matrix);
    const double expected = 20 * 5e9 * static_cast<double>(traffic.duration.ps) * 1e-12;
    CHECK(static_cast<double>(sum(Ledger(matrix).sent)) == Approx(expected).epsilon(0.03));
    for (std::size_t i = 1; i < matrix.connections.size(); ++i) {
      REQUIRE(matrix.connections[i].start >= matrix.connections[i - 1].start);
    }
    CHECK(matrix.connections.back().start < Instant{} + traffic.duration);
    CHECK(Ledger(matrix).steps.empty());
    CHECK(matrix.connections[0].hint.group == 0);
    if (sizes == Traffic::Sizes::exponential) {
      // A share of exp(-1) is longer than the mean.
      const auto longer = std::ranges::count_if(matrix.connections,
                                                [](const auto& one) { return one.bytes > 50'000; });
      CHECK(static_cast<double>(longer) / static_cast<double>(matrix.connections.size()) ==
            Approx(0.3679).epsilon(0.03));
    } else if (sizes == Traffic::Sizes::web_search) {
      const auto shorter = std::ranges::count_if(
          matrix.connections, [](const auto& one) { return one.bytes <= 80'000; });
      CHECK(static_cast<double>(shorter) / static_cast<double>(matrix.connections.size()) ==
            Approx(0.53).epsilon(0.03));
    } else {
      // Gaps between a node's messages are exponential: a share of exp(-1) exceeds the mean, 10 us.
      std::vector<Instant> last(20);
      std::size_t above = 0;
      for (const Connection& one : matrix.connections) {
        above += one.start - last[one.from] > microseconds(10) ? 1 : 0;
        last[one.from] = one.start;
      }
      CHECK(static_cast<double>(above) / static_cast<double>(matrix.connections.size()) ==
            Approx(0.3679).epsilon(0.03));
    }
  }
}

void refused(const Traffic& traffic, const std::string& error) {
  INFO(error);
  CHECK_THROWS_WITH(generate(traffic, 1), Catch::Contains(error));
  CHECK_THROWS_AS(generate(traffic, 1), InputError);
}

TEST_CASE("generate__what_can_not_be_is_refused_with_a_sentence") {
  refused({.kind = Kind::ring, .nodes = 1, .bytes = 1}, "between 2 to 65536 nodes, not 1");
  refused({.kind = Kind::ring, .nodes = 65537, .bytes = 1}, "between 2 to 65536 nodes, not 65537");
  refused({.kind = Kind::ring, .nodes = 4},
          "ring traffic of 0 bytes is no traffic: give the number of bytes");
  refused({.kind = Kind::ring, .nodes = 4, .bytes = ~0ull}, "but at most 1099511627776");
  refused({.kind = Kind::ring, .nodes = 4, .bytes = 1, .channels = 65}, "channels are 1 to 64");
  refused({.kind = Kind::ring, .nodes = 4, .bytes = 1, .rounds = 0}, "rounds are 1 to 1000000");
  refused({.kind = Kind::ring, .nodes = 8192, .bytes = 1 << 20},
          "ring traffic of 8192 nodes would be more than 8000000 messages");
  refused({.kind = Kind::all_to_all, .nodes = 4096, .bytes = 1}, "would be more than 8000000");
  refused({.kind = Kind::butterfly, .nodes = 12, .bytes = 1},
          "needs a power of two of nodes, not 12: take 8 or 16, or a ring");
  refused({.kind = Kind::incast, .nodes = 4, .bytes = 1, .receivers = 4},
          "an incast of 4 nodes has 1 to 3 receivers, not 4");
  refused({.kind = Kind::incast, .nodes = 4, .bytes = 1, .receivers = 3},
          "3 receivers with 1 senders each need more than 4 nodes");
  refused({.kind = Kind::incast, .nodes = 4, .bytes = 1, .senders = 4},
          "1 receivers with 4 senders each need more than 4 nodes");
  refused({.kind = Kind::permutation, .nodes = 4, .bytes = 1, .rounds = 2},
          "permutation traffic has one round");
  refused({.kind = Kind::moe, .nodes = 4, .bytes = 1}, "moe traffic needs tokens");
  refused({.kind = Kind::moe, .nodes = 4, .bytes = 1, .tokens = 1, .top = 5},
          "a token goes to 1 to 4 of as many experts, not to 5");
  refused({.kind = Kind::moe, .nodes = 4, .bytes = 1, .tokens = 1, .skew = -1}, "skew is 0");
  refused({.kind = Kind::moe, .nodes = 4, .bytes = 1, .tokens = 4'000'000'000},
          "more than 100000000 tokens in all");
  Traffic background{.kind = Kind::background, .nodes = 4, .bytes = 1000};
  refused(background, "a load above 0 and up to 1");
  background.load = 0.5;
  refused(background, "needs the rate of a node's link");
  background.bits_per_s = kGigabit;
  refused(background, "a duration above 0 and up to 1000 s");
  background.duration = microseconds(1'000'000'000);
  refused(background, "is too much: take less time, less load or longer messages");
}

TEST_CASE("generate__kinds_have_names") {
  for (const char* name : {"ring", "butterfly", "doubling", "all_to_all", "incast", "permutation",
                           "moe", "background"}) {
    REQUIRE(kind_named(name));
    CHECK(name_of(*kind_named(name)) == name);
  }
  CHECK_FALSE(kind_named("rings"));
  for (const char* name : {"fixed", "exponential", "web_search"}) {
    REQUIRE(sizes_named(name));
    CHECK(name_of(*sizes_named(name)) == name);
  }
  CHECK_FALSE(sizes_named(""));
}

// The protocol carries out each kind, with hints, on one switch, and all flows end.
TEST_CASE("generate__every_kind_is_carried_out") {
  std::vector<Traffic> all;
  for (const Kind kind : {Kind::ring, Kind::butterfly, Kind::doubling, Kind::all_to_all,
                          Kind::incast, Kind::permutation}) {
    all.push_back({.kind = kind, .nodes = 8, .bytes = 100'000, .window = 2});
  }
  all[0].channels = 2;
  all[0].rounds = 2;
  all.push_back({.kind = Kind::moe,
                 .nodes = 8,
                 .bytes = 4096,
                 .tokens = 64,
                 .skew = 1.2,
                 .compute = microseconds(20)});
  all.push_back({.kind = Kind::background,
                 .nodes = 8,
                 .bytes = 30'000,
                 .load = 0.3,
                 .bits_per_s = 100 * kGigabit,
                 .duration = microseconds(200),
                 .sizes = Traffic::Sizes::exponential});
  for (const Traffic& traffic : all) {
    INFO(name_of(traffic.kind));
    const ConnectionMatrix matrix = generate(traffic, 2);
    const Carried carried = carry(matrix);
    // The busiest cable bounds the time from below.
    const Ledger ledger(matrix);
    const std::uint64_t busiest = std::max(*std::ranges::max_element(ledger.sent),
                                           *std::ranges::max_element(ledger.received));
    CHECK(carried.last - Instant{} > Pace::of(100 * kGigabit).time_of(busiest));
    for (std::size_t i = 0; i < matrix.connections.size(); ++i) {
      if (matrix.connections[i].trigger == 0) {
        CHECK(carried.flows[i].started == matrix.connections[i].start);
      }
    }
    if (traffic.kind != Kind::moe) continue;
    // Each node sends back only after everything has arrived and 20 us have passed.
    const std::vector<StepSpan> steps = steps_by_node(matrix, carried.flows);
    for (std::size_t i = 0; i < matrix.connections.size(); ++i) {
      const Connection& one = matrix.connections[i];
      if (one.step != 2) continue;
      const auto here = std::ranges::find_if(
          steps, [&](const StepSpan& span) { return span.step == 1 && span.node == one.from; });
      REQUIRE(here != steps.end());
      CHECK(carried.flows[i].started == here->received + microseconds(20));
    }
  }
}

}  // namespace
}  // namespace hawser::fabric
