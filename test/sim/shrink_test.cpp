// SPDX-License-Identifier: Apache-2.0
// The shrinker with artificial predicates that know the cause, and with real storms.
#include "sim/storm/shrink.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "proto/base/random.hpp"
#include "sim/storm/plan_check.hpp"
#include "sim/storm/storm.hpp"

namespace hawser::test {
namespace {

using sim::FaultKind;
using sim::Plan;
using Parts = std::span<const std::uint32_t>;

bool has(Parts parts, std::uint32_t part) { return std::ranges::find(parts, part) != parts.end(); }

TEST_CASE("fewest__finds_the_culprits") {
  std::size_t asked = 0;
  const auto run = [&](std::size_t n, const std::vector<std::uint32_t>& culprits) {
    asked = 0;
    return sim::fewest(n, [&](Parts kept) {
      ++asked;
      return std::ranges::all_of(culprits, [&](std::uint32_t one) { return has(kept, one); });
    });
  };
  CHECK(run(0, {}).empty());
  CHECK(run(100, {}).empty());
  CHECK(asked == 1);
  CHECK(run(1, {0}) == std::vector<std::uint32_t>{0});
  CHECK(run(1024, {777}) == std::vector<std::uint32_t>{777});
  CHECK(asked < 40);
  CHECK(run(100, {3, 50, 99}) == std::vector<std::uint32_t>{3, 50, 99});
  CHECK(asked < 100);
  CHECK(run(7, {0, 1, 2, 3, 4, 5, 6}).size() == 7);
}

// The predicate may need one of several sets of parts, an even number of them, or anything. The
// result still fails, and no part of it can be left out.
TEST_CASE("fewest__can_spare_none_of_what_it_returns") {
  proto::Random random(3);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 1 + random.below(40);
    std::vector<std::vector<std::uint32_t>> reasons;  // fails with all parts of one of these
    for (std::uint64_t i = 0; i < 1 + random.below(4); ++i) {
      std::vector<std::uint32_t>& reason = reasons.emplace_back();
      for (std::uint64_t k = 0; k < 1 + random.below(5); ++k) {
        reason.push_back(static_cast<std::uint32_t>(random.below(n)));
      }
    }
    const bool also_odd = random.chance(0.3);  // not monotone
    const auto fails = [&](Parts kept) {
      if (also_odd && kept.size() > 5 && kept.size() % 2 == 0 && kept.size() != n) return false;
      return std::ranges::any_of(reasons, [&](const auto& reason) {
        return std::ranges::all_of(reason, [&](std::uint32_t one) { return has(kept, one); });
      });
    };
    const std::vector<std::uint32_t> result = sim::fewest(n, fails);
    CAPTURE(round, n, result);
    REQUIRE(fails(result));
    CHECK(std::ranges::is_sorted(result));
    for (std::size_t i = 0; i < result.size(); ++i) {
      std::vector<std::uint32_t> less = result;
      less.erase(less.begin() + static_cast<long>(i));
      CHECK_FALSE(fails(less));
    }
  }
}

struct Told {
  std::vector<std::string> stages;
  void operator()(std::string_view what, std::size_t before, std::size_t after) {
    CHECK(after < before);
    stages.emplace_back(what);
  }
};

Plan shrunk(const Plan& plan, const sim::Shrinker::Fails& fails, std::uint64_t limit = 100000) {
  REQUIRE(sim::complaint_about(plan).empty());
  REQUIRE(fails(plan));
  sim::Shrinker shrinker(
      [&](const Plan& candidate) {
        const std::string complaint = sim::complaint_about(candidate);
        if (!complaint.empty()) FAIL(complaint);
        return fails(candidate);
      },
      Told{}, limit);
  const Plan small = shrinker.shrink(plan);
  CHECK(fails(small));
  CHECK(shrinker.asked() <= limit);
  return small;
}

// A plain NIC has larger datagrams than the other hosts' queues hold.
TEST_CASE("shrink__what_is_left_is_a_plan_that_is_taken") {
  Plan plan = sim::draw_plan(5);
  for (sim::CablePlan& cable : plan.cables) cable.link.queue_bytes = 3000;
  for (sim::HostPlan& host : plan.hosts) {
    host.nics.resize(1);
    host.nic.max_datagram_bytes = 1500;
    host.nics[0].cable.queue_bytes = 3000;
  }
  plan.faults.clear();
  REQUIRE(sim::complaint_about(plan).empty());
  sim::Shrinker shrinker(
      [](const Plan& some) { return some.hosts[0].nics[0].cable.queue_bytes == 3000; }, Told{},
      1000);
  CHECK(sim::complaint_about(shrinker.shrink(plan)) == "");
}

std::size_t nics(const Plan& plan) {
  std::size_t n = 0;
  for (const sim::HostPlan& host : plan.hosts) n += host.nics.size();
  return n;
}

TEST_CASE("shrink__what_has_nothing_to_do_with_it_goes") {
  int with_both = 0;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    const Plan plan = sim::draw_plan(seed);
    const auto fails = [](const Plan& some) {
      return std::ranges::any_of(some.faults,
                                 [](const auto& fault) { return fault.kind == FaultKind::slow; }) &&
             std::ranges::any_of(some.messages,
                                 [](const auto& message) { return message.bytes >= 3000; });
    };
    if (!fails(plan)) continue;
    ++with_both;
    CAPTURE(seed);
    const Plan small = shrunk(plan, fails);
    CHECK(small.faults.size() == 1);
    CHECK(small.messages.size() == 1);
    CHECK(small.messages[0].bytes < 6000);
    CHECK(small.receives.empty());
    CHECK(small.hosts.size() <= 4);  // the host of the fault and those of the message
    CHECK(nics(small) <= small.hosts.size());
    CHECK(small.switches == 1);
    CHECK(sim::odd_tunables(small) == 0);
    CHECK(small.faults[0].lasts.ns < 2000);
    CHECK_FALSE(small.has_secret);
  }
  CHECK(with_both > 5);
}

TEST_CASE("shrink__a_tunable_that_matters_stays_and_faults_keep_their_nics") {
  int seen = 0;
  for (std::uint64_t seed = 1; seed < 300; ++seed) {
    const Plan plan = sim::draw_plan(seed);
    const auto fails = [](const Plan& some) {
      return some.tunables.reorder_packets != sim::small_world().reorder_packets &&
             std::ranges::any_of(some.faults, [&](const auto& fault) {
               return fault.kind == FaultKind::one_way &&
                      some.hosts[fault.host].nics[fault.nic].cable.bytes_per_s < 5'000'000'000;
             });
    };
    if (!fails(plan)) continue;
    ++seen;
    CAPTURE(seed);
    const Plan small = shrunk(plan, fails);
    CHECK(sim::odd_tunables(small) == 1);
    REQUIRE(small.faults.size() == 1);
    CHECK(small.hosts.size() == 2);
    CHECK(nics(small) == 2);
    CHECK(small.messages.empty());
  }
  CHECK(seen > 3);
}

TEST_CASE("shrink__is_tired_at_its_limit") {
  const Plan plan = sim::draw_plan(3);
  const auto fails = [](const Plan& some) { return !some.messages.empty(); };
  for (const std::uint64_t limit : {0, 1, 5, 20}) {
    CHECK(shrunk(plan, fails, limit).messages.size() <= plan.messages.size());
  }
}

// A host that takes over another's addresses stays with that host, whatever traffic there is
// between them.
TEST_CASE("shrink__partners_go_but_for_those_that_matter") {
  int with_one = 0;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const Plan plan = sim::draw_plan(sim::kFirstOfPartners + i);
    const auto fails = [](const Plan& some) {
      return std::ranges::any_of(some.hosts, [](const sim::HostPlan& host) {
        return host.takes_over != sim::kAnyHost && host.starts >= proto::milliseconds(1);
      });
    };
    if (!fails(plan)) continue;
    ++with_one;
    CAPTURE(plan.seed);
    const Plan small = shrunk(plan, fails);
    CHECK(small.hosts.size() == 2);
    CHECK(small.messages.empty());
    CHECK(small.faults.empty());
    CHECK(std::ranges::count(small.hosts, sim::kAnyHost, &sim::HostPlan::takes_over) == 1);
    CHECK(std::ranges::count(small.hosts, proto::Duration{}, &sim::HostPlan::starts) == 1);
  }
  CHECK(with_one > 3);
}

TEST_CASE("shrink__one_sided_operations_go_but_for_those_that_matter") {
  int with_both = 0;
  for (std::uint64_t i = 0; i < 150; ++i) {
    const Plan plan = sim::draw_plan(sim::kFirstOfOneSided + i);
    const auto fails = [](const Plan& some) {
      return std::ranges::any_of(some.one_sided, [&](const sim::OneSidedPlan& write) {
        return write.kind == sim::OneSidedKind::write && write.bytes >= 2000 &&
               std::ranges::any_of(some.one_sided, [&](const sim::OneSidedPlan& other) {
                 return other.kind == sim::OneSidedKind::withdraw && other.from == write.to;
               });
      });
    };
    if (!fails(plan)) continue;
    ++with_both;
    CAPTURE(plan.seed);
    const Plan small = shrunk(plan, fails);
    REQUIRE(small.one_sided.size() == 2);
    CHECK(small.messages.empty());
    CHECK(small.faults.empty());
    CHECK(small.hosts.size() <= 3);  // a withdrawal names a host that it has nothing to do with
    for (const sim::OneSidedPlan& operation : small.one_sided) {
      CHECK(operation.bytes < 4000);
      CHECK_FALSE((operation.strong || operation.signals || operation.notifies));
    }
  }
  CHECK(with_both > 5);
}

// Shrinks the first seed's storm in which a session fails.
TEST_CASE("shrink__of_a_real_storm") {
  const auto fails = [](const Plan& plan) {
    const sim::StormOutcome outcome = sim::run_storm(plan);
    return outcome.verdict.empty() && outcome.failed_sessions > 0;
  };
  std::uint64_t seed = 1;
  while (!fails(sim::draw_plan(seed))) ++seed;
  CAPTURE(seed);
  const Plan small = shrunk(sim::draw_plan(seed), fails, 400);
  CHECK(small.faults.size() <= 2);
  CHECK(small.messages.size() <= 2);
  // The run is the same each time.
  CHECK(sim::run_storm(small).digest == sim::run_storm(small).digest);
}

TEST_CASE("plan_check__plans_of_seeds_are_right_and_others_are_told_what_is_wrong") {
  for (std::uint64_t seed = 1; seed < 500; ++seed) {
    CAPTURE(seed);
    CHECK(sim::complaint_about(sim::draw_plan(seed)) == "");
  }
  const Plan good = sim::draw_plan(4);
  const auto complaint = [&](auto&& spoil) {
    Plan plan = good;
    spoil(plan);
    return sim::complaint_about(plan);
  };
  CHECK(complaint([](Plan& p) { p.messages[2].to = 99; }) == "messages[2]: no such pair of hosts");
  CHECK(complaint([](Plan& p) { p.messages[0].to = p.messages[0].from; }) ==
        "messages[0]: no such pair of hosts");
  CHECK(complaint([](Plan& p) { p.receives[1].host = 99; }) == "receives[1]: no such host");
  CHECK(complaint([](Plan& p) { p.faults[1].nic = 99; }) == "faults[1]: no such NIC");
  CHECK(complaint([](Plan& p) { p.hosts.resize(1); }) == "the number of hosts is 1, not 2 to 64");
  CHECK(complaint([](Plan& p) { p.hosts[0].nics.clear(); }) ==
        "hosts[0]: the number of NICs is 0, not 1 to 16");
  CHECK(complaint([](Plan& p) { p.hosts[1].nics[0].at_switch = 50; }) ==
        "hosts[1].nics[0]: switch is 50, not 0 to 2");
  CHECK(complaint([](Plan& p) { p.tunables.reorder_packets = 0; }) ==
        "tunables: reorder_packets is 0, not 1 to 1024");
  CHECK(complaint([](Plan& p) { p.faults[0].at.ns = -1; }) ==
        "faults[0]: at_ns is -1, not 0 to 86400000000000");
  CHECK(complaint([](Plan& p) { p.heals_at = {}; }).ends_with("it ends after heals_at_ns"));
}

}  // namespace
}  // namespace hawser::test
