// SPDX-License-Identifier: Apache-2.0
// Communicators that follow their ranks' bandwidths: when they check, what they take a change for,
// and that all ranks divide the same collective alike.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "test/coll/job.hpp"
#include "test/coll/world.hpp"

namespace hawser::test {
namespace {

using Bandwidths = std::vector<std::uint8_t>;

coll::CommunicatorOptions following(std::uint64_t check_bytes) {
  return {.small_bytes = 1024, .follow_bandwidths = true, .check_bytes = check_bytes};
}

// Ranks with four NICs each.
class Followers {
 public:
  explicit Followers(std::uint32_t ranks, std::uint64_t check_bytes = 0)
      : world(ranks, {.max_delay = 20}, following(check_bytes)) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) world.network.set_nics(rank, 4, 0);
  }

  void lose(std::uint32_t rank, std::size_t nics) { world.network.set_nics(rank, 4, nics); }

  // One all-reduce of all ranks, from its start to its end.
  void reduce(std::uint64_t count = 5'000) {
    jobs.emplace_back(JobShape{.kind = JobKind::all_reduce,
                               .type = coll::DataType::i32,
                               .ranks = world.ranks(),
                               .count = count},
                      random);
    for (auto& one : world.communicators) REQUIRE(jobs.back().start(*one) == Status::ok);
    REQUIRE(world.settle(random));
    for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
      CHECK(jobs.back().wrong(rank) == "");
    }
  }

  // The same at all ranks.
  [[nodiscard]] Bandwidths bandwidths() {
    const auto of = [](const auto& one) {
      return Bandwidths(one->bandwidths().begin(), one->bandwidths().end());
    };
    for (const auto& one : world.communicators) CHECK(of(one) == of(world.communicators[0]));
    return of(world.communicators[0]);
  }

  proto::Random random{1};
  std::deque<Job> jobs;
  World world;
};

TEST_CASE("following: the first check takes bandwidths as they are") {
  Followers job(4);
  job.lose(2, 1);
  CHECK(job.bandwidths().empty());
  job.reduce();
  CHECK(job.bandwidths() == Bandwidths{16, 16, 12, 16});
}

TEST_CASE("following: a loss counts from the second check that finds it, and so does a return") {
  Followers job(4);
  job.reduce();
  job.lose(1, 2);
  job.reduce();
  CHECK(job.bandwidths().empty());
  job.reduce();
  CHECK(job.bandwidths() == Bandwidths{16, 8, 16, 16});
  job.lose(1, 0);
  job.reduce();
  CHECK(job.bandwidths() == Bandwidths{16, 8, 16, 16});
  job.reduce();
  CHECK(job.bandwidths().empty());
}

TEST_CASE("following: a NIC that flaps between two checks changes nothing") {
  Followers job(3);
  job.reduce();
  for (int i = 0; i < 5; ++i) {
    job.lose(0, 1);
    job.reduce();
    job.lose(0, 0);
    job.reduce();
    CHECK(job.bandwidths().empty());
  }
  // Two different losses are two changes.
  job.lose(0, 1);
  job.reduce();
  job.lose(0, 3);
  job.reduce();
  CHECK(job.bandwidths().empty());
  job.reduce();
  CHECK(job.bandwidths() == Bandwidths{4, 16, 16});
}

TEST_CASE("following: several ranks lose NICs, and the one with the most is 16") {
  Followers job(5);
  job.world.network.set_nics(0, 8, 0);
  job.lose(3, 1);
  job.lose(4, 3);
  job.reduce();
  CHECK(job.bandwidths() == Bandwidths{16, 8, 8, 6, 2});
  // A rank that knows of no NIC that works takes part, so it has one.
  job.lose(4, 4);
  job.reduce();
  job.reduce();
  CHECK(job.bandwidths() == Bandwidths{16, 8, 8, 6, 2});
}

TEST_CASE("following: ranks check each time that check_bytes were reduced") {
  Followers job(3, 60'000);
  job.reduce();  // the first one checks; each has 20,000 bytes
  job.lose(2, 2);
  job.reduce();
  job.reduce();
  job.reduce();  // the first finding
  job.reduce();
  job.reduce();
  CHECK(job.bandwidths().empty());
  job.reduce();  // the second one
  CHECK(job.bandwidths() == Bandwidths{16, 16, 8});
}

TEST_CASE("following: small all-reduces and other collectives neither count nor check") {
  Followers job(3);
  job.lose(2, 2);
  job.reduce(200);
  CHECK(job.bandwidths().empty());
  coll::Request request;
  for (auto& one : job.world.communicators) REQUIRE(one->barrier(request) == Status::ok);
  REQUIRE(job.world.settle(job.random));
  CHECK(job.bandwidths().empty());
}

TEST_CASE("following: a rank with less bandwidth sends less") {
  Followers even(4);
  Followers job(4);
  job.lose(2, 2);
  for (Followers* one : {&even, &job}) {
    one->reduce();
    one->reduce(200'000);
  }
  const auto share = [](Followers& of) {
    const LoopbackNetwork& network = of.world.network;
    return double(network.bytes_sent(2)) / double(network.bytes_sent(1));
  };
  CHECK(share(even) == Approx(1).epsilon(0.02));
  CHECK(share(job) < 0.75);
}

TEST_CASE("following: bandwidths change while many all-reduces are in line") {
  Followers job(4);
  std::vector<Job> jobs;
  for (int i = 0; i < 32; ++i) {
    jobs.emplace_back(
        JobShape{.kind = JobKind::all_reduce, .ranks = 4, .count = 5'000, .in_place = i % 2 == 0},
        job.random);
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      REQUIRE(jobs[i].start(*job.world.communicators[rank]) == Status::ok);
    }
    // A check goes with each, so the line is full.
    coll::Request request;
    std::vector<float> more(5'000);
    CHECK(job.world.communicators[rank]->all_reduce(more.data(), more.data(), more.size(),
                                                    coll::DataType::f32, coll::ReduceOp::sum,
                                                    request) == Status::again);
  }
  std::uint32_t turns = 0;
  bool were_unlike = false;
  REQUIRE(job.world.run_until(job.random, [&] {
    if (++turns % 64 == 0) job.lose(turns / 64 % 4, turns / 128 % 4);
    were_unlike = were_unlike || !job.world.communicators[0]->bandwidths().empty();
    return std::ranges::all_of(job.world.communicators,
                               [](const auto& one) { return one->idle(); });
  }));
  CHECK(were_unlike);
  for (const Job& one : jobs) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(one.wrong(rank) == "");
  }
  CHECK(job.world.network.complaints() == std::vector<std::string>{});
}

TEST_CASE("following: two ranks, or a pipeline of one, have nothing to divide") {
  Followers pair(2);
  pair.lose(1, 2);
  pair.reduce();
  CHECK(pair.bandwidths().empty());
  coll::CommunicatorOptions narrow = following(0);
  narrow.pipeline = 1;
  World world(3, {}, narrow);
  world.network.set_nics(0, 4, 3);
  proto::Random random(2);
  Job job({.kind = JobKind::all_reduce, .ranks = 3, .count = 5'000}, random);
  for (auto& one : world.communicators) REQUIRE(job.start(*one) == Status::ok);
  REQUIRE(world.settle(random));
  CHECK(world.communicators[0]->bandwidths().empty());
  for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(job.wrong(rank) == "");
}

TEST_CASE("following: nobody else sets bandwidths, and all ranks follow or none") {
  proto::Random random(4);
  Job job({.kind = JobKind::all_reduce, .ranks = 3, .count = 5'000}, random);
  World world(3, {}, following(0));
  CHECK(world.communicators[0]->set_bandwidths(Bandwidths{8, 4, 8}) == Status::invalid_argument);
  World mixed(3, {}, following(0));
  std::vector<std::unique_ptr<coll::Communicator>> others;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    coll::CommunicatorConfig config = mixed.config(rank, 8);
    config.options.follow_bandwidths = rank != 1;
    others.push_back(std::make_unique<coll::Communicator>(*mixed.routers[rank], config));
    REQUIRE(job.start(*others[rank]) == Status::ok);
  }
  REQUIRE(mixed.run_until(random, [&] {
    return std::ranges::all_of(others, [](const auto& one) { return one->failure() != nullptr; });
  }));
  for (const auto& one : others) CHECK(one->failure()->status == Status::invalid_argument);
}

TEST_CASE("following: a rank that dies in a check revokes the communicator") {
  Followers job(4);
  job.reduce();
  proto::Random random(3);
  Job next({.kind = JobKind::all_reduce, .ranks = 4, .count = 5'000}, random);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    if (rank != 1) REQUIRE(next.start(*job.world.communicators[rank]) == Status::ok);
  }
  job.world.kill(1);
  REQUIRE(job.world.run_until(random, [&] {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      if (rank != 1 && job.world.communicators[rank]->failure() == nullptr) return false;
    }
    return true;
  }));
  CHECK(job.world.communicators[0]->failure()->rank == 1);
}

}  // namespace
}  // namespace hawser::test
