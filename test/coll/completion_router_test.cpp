// SPDX-License-Identifier: Apache-2.0
#include "hawser/collectives.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "coll/look_schedule.hpp"
#include "test/coll/job.hpp"
#include "test/coll/world.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

TEST_CASE("router: the application keeps its own completions") {
  for_each_seed(20, [](proto::Random& random) {
    Job job({.kind = JobKind::all_gather, .ranks = 3, .count = 3000}, random);
    World world(3, {.seed = random.next(), .max_delay = 10});
    for (auto& communicator : world.communicators) {
      REQUIRE(job.start(*communicator) == Status::ok);
    }
    std::array<std::byte, 3> out{std::byte{1}, std::byte{2}, std::byte{3}};
    std::array<std::array<std::byte, 1>, 3> in{};
    OperationId operation{};
    for (std::uint64_t i = 0; i < 3; ++i) {
      REQUIRE(world.network.endpoint(2).receive({.peer = world.network.peer(2, 0),
                                                 .channel = 5,
                                                 .tag = i,
                                                 .data = in[i].data(),
                                                 .bytes = 1,
                                                 .user_data = 100 + i},
                                                operation) == Status::ok);
      REQUIRE(world.network.endpoint(0).send({.peer = world.network.peer(0, 2),
                                              .channel = 5,
                                              .tag = i,
                                              .data = &out[i],
                                              .bytes = 1,
                                              .user_data = 200 + i},
                                             operation) == Status::ok);
    }
    REQUIRE(world.settle(random));
    REQUIRE(world.run_until(random, [&] { return world.network.operations_pending(2) == 1; }));
    std::array<Completion, 2> two{};
    REQUIRE(world.routers[2]->take(two) == 2);
    std::uint64_t seen = two[0].user_data + two[1].user_data;
    REQUIRE(world.routers[2]->take(two) == 1);
    seen += two[0].user_data;
    CHECK(seen == 100 + 101 + 102);
    CHECK(world.routers[2]->take(two) == 0);
    for (std::size_t i = 0; i < 3; ++i) CHECK(in[i][0] == out[i]);
    for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(job.wrong(rank) == "");
  });
}

TEST_CASE("router: several communicators progress whichever is waited for") {
  for_each_seed(10, [](proto::Random& random) {
    constexpr std::uint32_t kRanks = 4;
    std::vector<Job> jobs;
    World world(kRanks, {.seed = random.next(), .max_delay = 10});
    std::vector<std::vector<std::unique_ptr<coll::Communicator>>> more(3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        more[i].push_back(
            std::make_unique<coll::Communicator>(*world.routers[rank], world.config(rank, 20 + i)));
      }
      jobs.emplace_back(draw_job(random, kRanks, 30'000), random);
      for (auto& one : more[i]) REQUIRE(jobs[i].start(*one) == Status::ok);
    }
    REQUIRE(world.run_until(random, [&] {
      for (std::uint32_t i = 0; i < 3; ++i) {
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
          if (more[i][rank]->test(jobs[i].request(rank)) == Status::again) return false;
        }
      }
      return true;
    }));
    for (std::uint32_t i = 0; i < 3; ++i) {
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) CHECK(jobs[i].wrong(rank) == "");
    }
  });
}

TEST_CASE("router: a communicator that goes leaves nothing behind") {
  proto::Random random(4);
  Job job({.kind = JobKind::all_reduce, .ranks = 3, .count = 1000}, random);
  World world(3, {.max_delay = 10});
  for (auto& communicator : world.communicators) REQUIRE(job.start(*communicator) == Status::ok);
  REQUIRE(world.settle(random));
  for (auto& communicator : world.communicators) communicator.reset();
  REQUIRE(world.run_until(random, [&] {
    return world.routers[0]->quiet() && world.routers[1]->quiet() && world.routers[2]->quiet();
  }));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(world.network.operations_pending(rank) == 0);
  }
  CHECK(world.network.unmatched() == 0);
}

TEST_CASE("router: a communicator destroyed in the middle aborts at the others") {
  for_each_seed(40, [](proto::Random& random) {
    Job job({.kind = JobKind::all_reduce, .ranks = 5, .count = 5000}, random);
    World world(
        5,
        {.seed = random.next(), .max_delay = 10, .unexpected_bytes = random.below(2) * 1'000'000},
        {.chunk_bytes = 256, .small_bytes = 0});
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      if (rank != 2) REQUIRE(job.start(*world.communicators[rank]) == Status::ok);
    }
    for (int i = 0; i < 100; ++i) world.step(random);
    world.communicators[0].reset();
    const auto know = [&] {
      for (std::uint32_t rank = 1; rank < 5; ++rank) {
        if (world.communicators[rank]->failure() == nullptr) return false;
      }
      return true;
    };
    REQUIRE(world.run_until(random, know));
    for (std::uint32_t rank = 1; rank < 5; ++rank) {
      CHECK(world.communicators[rank]->failure()->rank == 0);
      CHECK(world.communicators[rank]->failure()->status == Status::cancelled);
    }
    // Whatever was sent to the destroyed one ends, and its endpoint keeps nothing.
    REQUIRE(world.run_until(random, [&] {
      for (std::uint32_t rank = 1; rank < 5; ++rank) {
        if (!world.communicators[rank]->idle()) return false;
        if (!world.communicators[rank]->released(job.request(rank))) return false;
      }
      return world.routers[0]->quiet() && world.network.unmatched() == 0;
    }));
    CHECK(world.network.operations_pending(0) == 0);
    CHECK(world.network.complaints().empty());
  });
}

TEST_CASE("router: a member may replace its communicator before others know of the failure") {
  for_each_seed(40, [](proto::Random& random) {
    constexpr std::uint32_t kDead = 4;
    Job job({.kind = JobKind::all_to_all, .ranks = 5, .count = 5000}, random);
    Job after({.kind = JobKind::all_reduce, .ranks = 4, .count = 5000}, random);
    std::vector<std::unique_ptr<coll::Communicator>> next(4);
    World world(
        5,
        {.seed = random.next(), .max_delay = 30, .unexpected_bytes = random.below(2) * 1'000'000},
        {.chunk_bytes = 256, .pipeline = 2, .small_bytes = 0});
    const auto replace = [&](std::uint32_t rank) {
      world.communicators[rank].reset();
      coll::CommunicatorConfig config = world.config(rank, 8);
      config.peers.resize(4);
      next[rank] = std::make_unique<coll::Communicator>(*world.routers[rank], config);
      REQUIRE(after.start(*next[rank]) == Status::ok);
    };
    world.kill(kDead);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      REQUIRE(job.start(*world.communicators[rank]) == Status::ok);
    }
    REQUIRE(world.run_until(random, [&] { return world.communicators[0]->failure() != nullptr; }));
    replace(0);
    for (std::uint32_t rank = 1; rank < 4; ++rank) {
      REQUIRE(world.run_until(random, [&] {
        return world.communicators[rank]->failure() != nullptr &&
               world.communicators[rank]->released(job.request(rank));
      }));
      CHECK(world.communicators[rank]->failure()->rank == kDead);
      replace(rank);
    }
    REQUIRE(world.run_until(random, [&] {
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        if (next[rank]->test(after.request(rank)) != Status::ok) return false;
      }
      return world.network.unmatched() == 0;
    }));
    for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(after.wrong(rank) == "");
    CHECK(world.network.complaints().empty());
    for (auto& one : next) one.reset();
  });
}

TEST_CASE("router: sends of a revoked communicator end although the receiver's router is gone") {
  for_each_seed(20, [](proto::Random& random) {
    Job job({.kind = JobKind::all_to_all, .ranks = 3, .count = 5000}, random);
    World world(3, {.seed = random.next(), .max_delay = 10, .unexpected_bytes = 0},
                {.chunk_bytes = 256, .small_bytes = 0});
    for (std::uint32_t rank = 1; rank < 3; ++rank) {
      REQUIRE(job.start(*world.communicators[rank]) == Status::ok);
    }
    world.communicators[0]->abort(0, Status::cancelled);
    world.communicators[0].reset();
    REQUIRE(world.run_until(random, [&] { return world.routers[0]->quiet(); }));
    world.routers[0].reset();  // the endpoint stays open
    world.alive[0] = false;
    REQUIRE(world.run_until(random, [&] {
      return world.communicators[1]->failure() != nullptr && world.communicators[1]->idle() &&
             world.communicators[2]->failure() != nullptr && world.communicators[2]->idle();
    }));
    for (std::uint32_t rank = 1; rank < 3; ++rank) {
      CHECK(world.communicators[rank]->released(job.request(rank)));
    }
    CHECK(world.network.operations_pending(0) == 0);
    CHECK(world.network.complaints().empty());
  });
}

TEST_CASE("router: an abort that comes after a healthy communicator's end is discarded") {
  proto::Random random(4);
  World world(3, {.max_delay = 10});
  world.communicators[0].reset();
  world.communicators[1]->abort(2, Status::peer_closed);
  for (int i = 0; i < 500; ++i) world.step(random);
  CHECK(world.network.unmatched() > 0);
  REQUIRE(world.run_until(random, [&] { return world.network.unmatched() == 0; }));
  REQUIRE(world.run_until(random, [&] { return world.routers[0]->quiet(); }));
}

TEST_CASE("router: looks come at doubling distances while it is idle and rarely while it is busy") {
  using coll::LookSchedule;
  LookSchedule looks;
  std::vector<std::uint64_t> at;
  for (std::uint64_t turn = 1; turn <= 300'000; ++turn) {
    if (looks.count_turn(false, 0)) at.push_back(turn);
  }
  CHECK(at ==
        std::vector<std::uint64_t>{4096, 8192, 16'384, 32'768, 65'536, 131'072, 196'608, 262'144});
  (void)looks.count_turn(true, 0);
  at.clear();
  for (std::uint64_t turn = 1; turn <= 150'000; ++turn) {
    if (looks.count_turn(true, 0)) at.push_back(turn);
  }
  REQUIRE(at.size() == 2);
  CHECK(at[1] - at[0] == LookSchedule::kMostBetween);
  // A wait of 100 ms in vain is long enough.
  CHECK(looks.count_turn(false, 100'000'000));
}

TEST_CASE("router: its destructor ends what is pending by closing the endpoint") {
  proto::Random random(4);
  Job job({.kind = JobKind::all_reduce, .ranks = 2, .count = 50'000}, random);
  World world(2, {.max_delay = 10, .unexpected_bytes = 0}, {.small_bytes = 0});
  REQUIRE(job.start(*world.communicators[0]) == Status::ok);  // rank 1 never comes
  for (int i = 0; i < 50; ++i) world.routers[0]->progress();
  CHECK(world.network.operations_pending(0) > 1);
  world.communicators[0].reset();
  world.routers[0].reset();
  CHECK(world.network.operations_pending(0) == 0);
  CHECK(world.network.complaints().empty());
}

TEST_CASE("router: wait lets the others go on and comes back with the result") {
  proto::Random random(4);
  Job job({.kind = JobKind::all_reduce, .ranks = 3, .count = 50'000}, random);
  World world(3, {.max_delay = 10});
  for (auto& communicator : world.communicators) REQUIRE(job.start(*communicator) == Status::ok);
  world.network.on_wait = [&](std::size_t waiting) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      if (rank != waiting) world.routers[rank]->progress();
    }
  };
  CHECK(world.communicators[1]->wait(job.request(1)) == Status::ok);
  CHECK(job.wrong(1) == "");
  world.network.on_wait = nullptr;  // a router's destructor waits, too, when others have gone
}

}  // namespace
}  // namespace hawser::test
