// SPDX-License-Identifier: Apache-2.0
// Deaths and aborts: wherever and whenever a rank leaves, all others learn which one it was, every
// started collective ends, every buffer comes back, and nothing hangs.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coll/layout.hpp"
#include "test/coll/job.hpp"
#include "test/coll/world.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Request;

// Starts `job` at every living rank. A rank that is revoked already refuses it.
void start(World& world, Job& job) {
  for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
    if (!world.alive[rank]) continue;
    const coll::Failure* failure = world.communicators[rank]->failure();
    REQUIRE(job.start(*world.communicators[rank]) == (failure ? failure->status : Status::ok));
  }
}

void check_all_ended(World& world, const std::vector<Job>& jobs, std::uint32_t dead) {
  for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
    if (!world.alive[rank]) continue;
    INFO("rank " << rank << " of " << world.ranks() << ", dead is " << dead);
    const coll::Failure* failure = world.communicators[rank]->failure();
    REQUIRE(failure != nullptr);
    CHECK(failure->rank == dead);
    CHECK(failure->status == Status::peer_timeout);
    CHECK(failure->text.find("rank " + std::to_string(dead)) != std::string::npos);
    for (const Job& job : jobs) {
      if (!job.started(rank)) continue;
      const Status status = world.communicators[rank]->test(job.request(rank));
      CHECK((status == Status::ok || status == Status::peer_timeout));
      if (status == Status::ok) CHECK(job.wrong(rank) == "");
      CHECK(world.communicators[rank]->released(job.request(rank)));
    }
    Request refused;
    CHECK(world.communicators[rank]->barrier(refused) == Status::peer_timeout);
  }
  CHECK(world.network.complaints() == std::vector<std::string>{});
}

bool all_know(const World& world) {
  for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
    if (world.alive[rank] && world.communicators[rank]->failure() == nullptr) return false;
  }
  return true;
}

// A long job of the given kind in which the dead rank certainly takes part.
JobShape long_job(JobKind kind, std::uint32_t ranks, std::uint32_t root) {
  return {.kind = kind, .ranks = ranks, .count = 5000, .root = root};
}

TEST_CASE("revocation: a death at any rank in any collective is named at every rank") {
  constexpr std::uint32_t kRanks = 7;
  for_each_seed(3, [](proto::Random& random) {
    for (std::uint64_t kind = 0; kind < kJobKinds; ++kind) {
      for (std::uint32_t dead = 0; dead < kRanks; ++dead) {
        std::vector<Job> jobs;
        World world(kRanks, {.seed = random.next(), .max_delay = 10},
                    {.chunk_bytes = 256, .pipeline = 2, .small_bytes = 0});
        // The root of a broadcast or a leaf of a reduce could end before any rank notices the
        // death, so an all-gather follows.
        jobs.emplace_back(long_job(static_cast<JobKind>(kind), kRanks, dead), random);
        jobs.emplace_back(long_job(JobKind::all_gather, kRanks, 0), random);
        for (Job& job : jobs) start(world, job);
        const std::uint64_t steps = random.below(200);
        for (std::uint64_t i = 0; i < steps; ++i) world.step(random);
        world.kill(dead);
        INFO("kind " << kind << ", dead " << dead << ", after " << steps);
        REQUIRE(world.run_until(random, [&] { return all_know(world); }));
        REQUIRE(world.settle(random));
        check_all_ended(world, jobs, dead);
      }
    }
  });
}

TEST_CASE("revocation: a death during recursive doubling, refusals and full stores") {
  for_each_seed(150, [](proto::Random& random) {
    const auto ranks = static_cast<std::uint32_t>(2 + random.below(16));
    const auto dead = static_cast<std::uint32_t>(random.below(ranks));
    std::vector<Job> jobs;
    World world(ranks,
                {.seed = random.next(),
                 .again = 0.2 * static_cast<double>(random.below(4)),
                 .max_delay = 30,
                 .unexpected_bytes = random.below(2) * 5000},
                {.chunk_bytes = 512, .pipeline = 3});
    for (int i = 0; i < 6; ++i) jobs.emplace_back(draw_job(random, ranks, 20'000), random);
    jobs.emplace_back(long_job(JobKind::all_gather, ranks, 0), random);
    world.kill(dead);
    for (Job& job : jobs) {
      start(world, job);
      const std::uint64_t steps = random.below(50);
      for (std::uint64_t i = 0; i < steps; ++i) world.step(random);
    }
    REQUIRE(world.run_until(random, [&] { return all_know(world); }));
    REQUIRE(world.settle(random));
    check_all_ended(world, jobs, dead);
  });
}

TEST_CASE("revocation: ranks that never talk to the dead one learn of it too") {
  // In a chain of 12, only rank 10 notices rank 11's death by itself.
  proto::Random random(9);
  std::vector<Job> jobs;
  World world(12, {.max_delay = 2}, {.chunk_bytes = 64});
  jobs.emplace_back(long_job(JobKind::broadcast, 12, 0), random);
  world.kill(11);
  start(world, jobs[0]);
  REQUIRE(world.run_until(random, [&] { return all_know(world); }));
  REQUIRE(world.settle(random));
  check_all_ended(world, jobs, 11);
  CHECK(world.communicators[0]->failure()->text.find("rank 10 reports") != std::string::npos);
}

TEST_CASE("revocation: the news gets around although others have died as well") {
  for_each_seed(40, [](proto::Random& random) {
    constexpr std::uint32_t kRanks = 16;
    std::vector<Job> jobs;
    World world(kRanks, {.seed = random.next(), .max_delay = 10, .peer_timeout = 500});
    jobs.emplace_back(long_job(JobKind::all_reduce, kRanks, 0), random);
    // The dead ranks start nothing and die in a row, so none has told of another's death.
    std::vector<std::uint32_t> dead;
    while (dead.size() < 5) {
      const auto rank = static_cast<std::uint32_t>(random.below(kRanks));
      if (world.alive[rank]) {
        world.kill(rank);
        dead.push_back(rank);
      }
    }
    start(world, jobs[0]);
    REQUIRE(world.run_until(random, [&] { return all_know(world); }));
    REQUIRE(world.settle(random));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!world.alive[rank]) continue;
      const coll::Failure* failure = world.communicators[rank]->failure();
      CHECK(std::count(dead.begin(), dead.end(), failure->rank) == 1);
      CHECK(world.communicators[rank]->released(jobs[0].request(rank)));
    }
    CHECK(world.network.complaints().empty());
  });
}

TEST_CASE("revocation: a member hears of it although all neighbours on one side are dead") {
  for (const bool before : {false, true}) {
    constexpr std::uint32_t kRanks = 16;
    constexpr std::uint32_t kMember = 5;
    World world(kRanks, {.max_delay = 5});
    proto::Random random(11);
    for (const std::uint32_t distance : {1u, 2u, 4u}) {
      world.kill((kMember + (before ? kRanks - distance : distance)) % kRanks);
    }
    world.kill((kMember + 8) % kRanks);
    // The other member has started nothing and notices nothing by itself.
    world.communicators[0]->abort(0, Status::cancelled);
    REQUIRE(world.run_until(random, [&] { return all_know(world); }));
    CHECK(world.communicators[kMember]->failure()->rank == 0);
  }
}

TEST_CASE("revocation: a caller's abort ends everyone's collectives") {
  for_each_seed(20, [](proto::Random& random) {
    std::vector<Job> jobs;
    World world(9, {.seed = random.next(), .again = 0.3, .max_delay = 10});
    jobs.emplace_back(long_job(JobKind::all_gather, 9, 0), random);
    // Rank 4 never starts, so no rank can finish.
    for (std::uint32_t rank = 0; rank < 9; ++rank) {
      if (rank != 4) REQUIRE(jobs[0].start(*world.communicators[rank]) == Status::ok);
    }
    for (int i = 0; i < 300; ++i) world.step(random);
    world.communicators[4]->abort(2, Status::peer_closed);
    REQUIRE(world.run_until(random, [&] { return all_know(world); }));
    REQUIRE(world.settle(random));
    for (std::uint32_t rank = 0; rank < 9; ++rank) {
      CHECK(world.communicators[rank]->failure()->rank == 2);
      CHECK(world.communicators[rank]->failure()->status == Status::peer_closed);
      if (rank != 4) {
        CHECK(world.communicators[rank]->test(jobs[0].request(rank)) == Status::peer_closed);
        CHECK(world.communicators[rank]->released(jobs[0].request(rank)));
      }
    }
    CHECK(world.network.complaints().empty());
  });
}

TEST_CASE("revocation: a peer that this end has disconnected is named, and not the own rank") {
  for (const bool by_message : {false, true}) {
    std::array<std::byte, 8> data{};
    World world(3, {});
    proto::Random random(4);
    REQUIRE(world.network.endpoint(0).disconnect(world.network.peer(0, 2)) == Status::ok);
    Request request;
    coll::Communicator& own = *world.communicators[0];
    if (by_message) {
      CHECK(own.send(data.data(), 8, 2, 1, request) == Status::endpoint_closed);
    } else {
      CHECK(own.broadcast(data.data(), 8, 2, request) == Status::ok);
    }
    REQUIRE(world.run_until(random, [&] { return own.failure() != nullptr; }));
    CHECK(own.failure()->rank == 2);
    CHECK(own.failure()->status == Status::endpoint_closed);
  }
}

TEST_CASE("revocation: the first abort counts and ok is no reason") {
  World world(2, {});
  world.communicators[0]->abort(1, Status::ok);
  world.communicators[0]->abort(0, Status::peer_closed);
  REQUIRE(world.communicators[0]->failure() != nullptr);
  CHECK(world.communicators[0]->failure()->status == Status::cancelled);
  CHECK(world.communicators[0]->failure()->rank == 1);
}

TEST_CASE("revocation: sends to members that have cancelled their receives end") {
  // The network stores nothing: a send needs a receive. Rank 1 learns of the abort while the sends
  // of rank 0, which talks to it, are under way.
  for_each_seed(30, [](proto::Random& random) {
    std::vector<Job> jobs;
    World world(4, {.seed = random.next(), .max_delay = 40, .unexpected_bytes = 0},
                {.chunk_bytes = 256, .small_bytes = 0});
    jobs.emplace_back(long_job(JobKind::all_to_all, 4, 0), random);
    jobs.emplace_back(long_job(JobKind::all_reduce, 4, 0), random);
    for (Job& job : jobs) start(world, job);
    const std::uint64_t steps = random.below(100);
    for (std::uint64_t i = 0; i < steps; ++i) world.step(random);
    world.communicators[1]->abort(1, Status::cancelled);
    REQUIRE(world.run_until(random, [&] { return all_know(world); }));
    REQUIRE(world.settle(random));
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      for (const Job& job : jobs) CHECK(world.communicators[rank]->released(job.request(rank)));
    }
    CHECK(world.network.complaints().empty());
  });
}

TEST_CASE("revocation: a closed endpoint fails its own communicator and names itself") {
  proto::Random random(1);
  Job job(long_job(JobKind::all_gather, 3, 0), random);
  World world(3, {});
  REQUIRE(job.start(*world.communicators[1]) == Status::ok);
  world.network.endpoint(1).close();
  for (int i = 0; i < 50; ++i) world.routers[1]->progress();
  REQUIRE(world.communicators[1]->failure() != nullptr);
  CHECK(world.communicators[1]->failure()->rank == 1);
  CHECK(world.communicators[1]->failure()->status == Status::endpoint_closed);
  CHECK(world.communicators[1]->failure()->text.find("endpoint_closed at rank 1") !=
        std::string::npos);
  CHECK(world.communicators[1]->released(job.request(1)));
  CHECK(world.communicators[1]->idle());
}

TEST_CASE("revocation: every member names the rank whose endpoint an abort calls closed") {
  proto::Random random(1);
  std::vector<Job> jobs;
  World world(6, {.max_delay = 10});
  jobs.emplace_back(long_job(JobKind::all_gather, 6, 0), random);
  start(world, jobs[0]);
  world.communicators[5]->abort(3, Status::endpoint_closed);
  REQUIRE(world.run_until(random, [&] { return all_know(world); }));
  REQUIRE(world.settle(random));
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    INFO("rank " << rank);
    CHECK(world.communicators[rank]->failure()->rank == 3);
    CHECK(world.communicators[rank]->failure()->status == Status::endpoint_closed);
    CHECK(world.communicators[rank]->failure()->text.find("rank 3: endpoint_closed") == 0);
  }
}

TEST_CASE("revocation: other communicators over the same endpoints don't notice") {
  proto::Random random(2);
  Job job(long_job(JobKind::all_to_all, 4, 0), random);
  World world(4, {.max_delay = 5});
  // These have the same channel, since the ids differ in the upper bits only.
  const std::uint32_t id = 7 + (1u << coll::kChannelIdBits);
  std::vector<std::unique_ptr<coll::Communicator>> others;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    others.push_back(
        std::make_unique<coll::Communicator>(*world.routers[rank], world.config(rank, id)));
  }
  for (auto& other : others) REQUIRE(job.start(*other) == Status::ok);
  world.communicators[3]->abort(3, Status::cancelled);
  REQUIRE(world.run_until(random, [&] { return all_know(world); }));
  REQUIRE(world.run_until(random, [&] {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      if (others[rank]->test(job.request(rank)) == Status::again) return false;
    }
    return true;
  }));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(others[rank]->failure() == nullptr);
    CHECK(job.wrong(rank) == "");
  }
}

}  // namespace
}  // namespace hawser::test
