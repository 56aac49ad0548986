// SPDX-License-Identifier: Apache-2.0
// Thousands of random cases: ranks, operations, types, counts, options, limits, delays, refusals.
#include <catch2/catch.hpp>
#include <vector>

#include "test/coll/job.hpp"
#include "test/coll/world.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

struct Case {
  std::uint32_t ranks = 1;
  LoopbackOptions network;
  coll::CommunicatorOptions options;
  std::vector<std::uint8_t> bandwidths;
  std::vector<Job> jobs;
};

// Often one rank or some have less than the others.
std::vector<std::uint8_t> draw_bandwidths(proto::Random& random, std::uint32_t ranks) {
  std::vector<std::uint8_t> bandwidths(ranks, 8);
  const std::uint64_t kinds = random.below(4);
  if (kinds == 0) return {};
  for (std::uint8_t& one : bandwidths) {
    if (kinds == 1 || random.below(4) == 0) one = static_cast<std::uint8_t>(1 + random.below(16));
  }
  if (kinds == 3) bandwidths[random.below(ranks)] = static_cast<std::uint8_t>(1 + random.below(8));
  return bandwidths;
}

coll::CommunicatorOptions draw_options(proto::Random& random) {
  if (random.below(4) == 0) return {};
  return {.chunk_bytes = static_cast<std::uint32_t>(64 * (1 + random.below(64))),
          .pipeline = static_cast<std::uint32_t>(1 + random.below(random.below(2) == 0 ? 3 : 32)),
          .max_active = static_cast<std::uint32_t>(1 + random.below(5)),
          .small_bytes = static_cast<std::uint32_t>(random.below(3) * random.below(5000))};
}

LoopbackOptions draw_network(proto::Random& random, const coll::CommunicatorOptions& options) {
  LoopbackOptions network{.seed = random.next()};
  if (random.below(2) == 0) network.max_delay = static_cast<std::uint32_t>(random.below(100));
  if (random.below(2) == 0) network.again = 0.1 * static_cast<double>(random.below(9));
  if (random.below(2) == 0) network.unexpected_bytes = random.below(3) * random.below(2000);
  // The communicator is documented to need no more room than this.
  const std::uint32_t sends = 2 * options.pipeline * options.max_active;
  if (random.below(2) == 0) network.max_operations = 2 * sends + 1;
  if (random.below(2) == 0) network.max_messages_per_peer = sends;
  return network;
}

Case draw_case(proto::Random& random, std::uint64_t most_bytes) {
  Case one;
  one.ranks = static_cast<std::uint32_t>(1 + random.below(17));
  one.options = draw_options(random);
  one.network = draw_network(random, one.options);
  one.options.follow_bandwidths = random.below(3) == 0;
  if (one.options.follow_bandwidths) {
    one.options.check_bytes = random.below(3) * random.below(100'000);
  } else {
    one.bandwidths = draw_bandwidths(random, one.ranks);
  }
  const std::uint64_t jobs = 1 + (random.below(2) == 0 ? random.below(8) : 0);
  for (std::uint64_t i = 0; i < jobs; ++i) {
    JobShape shape = draw_job(random, one.ranks, most_bytes);
    while (one.options.follow_bandwidths && shape.kind != JobKind::all_reduce &&
           random.below(8) > 0) {
      shape = draw_job(random, one.ranks, most_bytes);
    }
    one.jobs.emplace_back(shape, random);
  }
  return one;
}

// Every rank starts the jobs in order, each at its own random time.
void run(Case& one, World& world, proto::Random& random) {
  std::vector<std::size_t> started(one.ranks, 0);
  const auto complete = [&] {
    for (std::uint32_t rank = 0; rank < one.ranks; ++rank) {
      while (started[rank] < one.jobs.size() && random.below(3) > 0) {
        const Status status = one.jobs[started[rank]].start(*world.communicators[rank]);
        REQUIRE(status == Status::ok);
        ++started[rank];
      }
    }
    for (std::uint32_t rank = 0; rank < one.ranks; ++rank) {
      if (started[rank] < one.jobs.size()) return false;
      for (const Job& job : one.jobs) {
        const Status status = world.communicators[rank]->test(job.request(rank));
        if (status == Status::again) return false;
        REQUIRE(status == Status::ok);
      }
    }
    return true;
  };
  // NICs die and return meanwhile, whether anybody follows it or not.
  REQUIRE(world.run_until(random, [&] {
    if (random.below(16) == 0) {
      const std::uint64_t nics = 1 + random.below(8);
      world.network.set_nics(random.below(one.ranks), nics, random.below(nics));
    }
    return complete();
  }));
}

void check(const Case& one, World& world, proto::Random& random) {
  for (const Job& job : one.jobs) {
    INFO(job.shape().text());
    for (std::uint32_t rank = 0; rank < one.ranks; ++rank) {
      INFO("rank " << rank);
      CHECK(job.wrong(rank) == "");
    }
  }
  REQUIRE(world.settle(random));
  world.network.check_groups();
  CHECK(world.network.complaints() == std::vector<std::string>{});
  CHECK(world.network.unmatched() == 0);
  for (std::uint32_t rank = 0; rank < one.ranks; ++rank) {
    CHECK(world.network.operations_pending(rank) <= 1);  // the listener
  }
  const std::size_t window = std::size_t{2} * one.options.pipeline * one.options.max_active;
  CHECK(world.network.most_sends() <= window);
  CHECK(world.network.most_receives() <= window + 1);
}

void run_cases(std::uint64_t count, std::uint64_t most_bytes) {
  for_each_seed(count, [most_bytes](proto::Random& random) {
    Case one = draw_case(random, most_bytes);
    INFO(one.ranks << " ranks, chunk " << one.options.chunk_bytes << ", pipeline "
                   << one.options.pipeline << ", active " << one.options.max_active);
    World world(one.ranks, one.network, one.options, 7, one.bandwidths);
    run(one, world, random);
    check(one, world, random);
  });
}

TEST_CASE("collectives: small drawn cases") { run_cases(2000, 3000); }

TEST_CASE("collectives: large drawn cases") { run_cases(60, 400'000); }

}  // namespace
}  // namespace hawser::test
