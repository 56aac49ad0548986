// SPDX-License-Identifier: Apache-2.0
// Collectives over whole engines and memory NICs: in one thread, in one thread per rank, with
// faults, at hostile limits, and when a rank falls silent.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/coll/engine_world.hpp"
#include "test/coll/job.hpp"
#include "test/support/hang_limit.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

// Turns of every rank, more than any test here takes. A test that uses them up has failed.
constexpr int kPatience = 2'000'000;

bool run_until(EngineWorld& world, const std::vector<bool>& awake,
               const std::function<bool()>& done) {
  for (int i = 0; i < kPatience; ++i) {
    if (done()) return true;
    for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
      if (awake[rank]) world.routers[rank]->progress();
    }
  }
  return done();
}

void run(EngineWorld& world, std::vector<Job>& jobs) {
  for (Job& job : jobs) {
    for (auto& communicator : world.communicators) REQUIRE(job.start(*communicator) == Status::ok);
  }
  REQUIRE(run_until(world, std::vector<bool>(world.ranks(), true), [&] {
    for (const Job& job : jobs) {
      for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
        const Status status = world.communicators[rank]->test(job.request(rank));
        if (status == Status::again) return false;
        REQUIRE(status == Status::ok);
      }
    }
    return true;
  }));
  for (const Job& job : jobs) {
    INFO(job.shape().text());
    for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) CHECK(job.wrong(rank) == "");
  }
}

// Only the listener of each rank remains, and no packet buffer is in use.
void check_quiet(EngineWorld& world) {
  CHECK(run_until(world, std::vector<bool>(world.ranks(), true), [&] {
    for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
      const EndpointStats stats = world.endpoint(rank).stats();
      if (stats.operations_pending != 1 || stats.buffers_in_use != 0) return false;
    }
    return true;
  }));
}

std::vector<Job> draw_jobs(proto::Random& random, std::uint32_t ranks, std::size_t count,
                           std::uint64_t most_bytes) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < count; ++i) {
    jobs.emplace_back(draw_job(random, ranks, most_bytes), random);
  }
  return jobs;
}

TEST_CASE("engine: drawn collectives over memory NICs") {
  for_each_seed(4, [](proto::Random& random) {
    const auto ranks = static_cast<std::uint32_t>(2 + random.below(5));
    std::vector<Job> jobs = draw_jobs(random, ranks, 8, 500'000);
    EngineWorld world({.ranks = ranks});
    run(world, jobs);
    check_quiet(world);
  });
}

TEST_CASE("engine: every kind of collective through loss and duplicates and reordering") {
  proto::Random random(1);
  std::vector<Job> jobs;
  for (std::uint64_t kind = 0; kind < kJobKinds; ++kind) {
    jobs.emplace_back(
        JobShape{.kind = static_cast<JobKind>(kind), .ranks = 4, .count = 60'000, .root = 1},
        random);
  }
  EngineWorld world({.ranks = 4, .faults = "loss=0.05,duplicate=0.01,reorder=0.05"});
  run(world, jobs);
}

TEST_CASE("engine: hostile limits of the endpoint") {
  proto::Random random(2);
  Tunables tunables;
  tunables.max_operations = 32;
  tunables.max_messages_per_peer = 4;
  tunables.unexpected_bytes = 65536;
  std::vector<Job> jobs = draw_jobs(random, 3, 10, 300'000);
  EngineWorld world(
      {.ranks = 3, .tunables = tunables, .options = coll::CommunicatorOptions::within(tunables)});
  run(world, jobs);
  check_quiet(world);
}

TEST_CASE("engine: a rank that falls silent is named by all others") {
  constexpr std::uint32_t kRanks = 6;
  constexpr std::uint32_t kSilent = 4;
  proto::Random random(3);
  Tunables tunables;
  tunables.peer_timeout_ms = 300;
  std::vector<Job> jobs;
  jobs.emplace_back(JobShape{.kind = JobKind::all_reduce, .ranks = kRanks, .count = 300'000},
                    random);
  jobs.emplace_back(JobShape{.kind = JobKind::all_gather, .ranks = kRanks, .count = 3000}, random);
  EngineWorld world({.ranks = kRanks, .tunables = tunables});
  std::vector<Job> before = draw_jobs(random, kRanks, 1, 1000);
  run(world, before);
  for (Job& job : jobs) {
    for (auto& communicator : world.communicators) REQUIRE(job.start(*communicator) == Status::ok);
  }
  std::vector<bool> awake(kRanks, true);
  awake[kSilent] = false;
  REQUIRE(run_until(world, awake, [&] {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (awake[rank] && !world.communicators[rank]->idle()) return false;
    }
    return true;
  }));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!awake[rank]) continue;
    INFO("rank " << rank);
    const coll::Failure* failure = world.communicators[rank]->failure();
    REQUIRE(failure != nullptr);
    INFO(failure->text);
    CHECK(failure->rank == kSilent);
    CHECK(is_peer_failure(failure->status));
    for (const Job& job : jobs) {
      CHECK(world.communicators[rank]->test(job.request(rank)) == failure->status);
      CHECK(world.communicators[rank]->released(job.request(rank)));
    }
  }
}

// The result of a rank may come with the very turn that posts its last message. No other turn of
// this rank follows, so the message must have left.
TEST_CASE("engine: a rank that stops polling at its result leaves no other rank waiting") {
  proto::Random random(5);
  for (std::uint32_t ranks = 2; ranks <= 9; ++ranks) {
    EngineWorld world({.ranks = ranks});
    std::vector<Job> jobs;
    jobs.emplace_back(JobShape{.kind = JobKind::all_gather, .ranks = ranks, .count = 10}, random);
    run(world, jobs);  // makes the sessions
    for (const JobKind kind : {JobKind::all_reduce, JobKind::barrier}) {
      for (std::uint32_t last = 0; last < ranks; ++last) {
        check_quiet(world);
        INFO(ranks << " ranks, rank " << last << " comes last");
        Job job({.kind = kind, .ranks = ranks, .count = 10}, random);
        std::vector<bool> awake(ranks, true);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          if (rank != last) REQUIRE(job.start(*world.communicators[rank]) == Status::ok);
        }
        for (int i = 0; i < 100; ++i) {
          for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            if (rank != last) world.routers[rank]->progress();
          }
        }
        REQUIRE(job.start(*world.communicators[last]) == Status::ok);
        REQUIRE(run_until(world, awake, [&] {
          for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            awake[rank] = world.communicators[rank]->test(job.request(rank)) == Status::again;
          }
          return std::none_of(awake.begin(), awake.end(), [](bool one) { return one; });
        }));
        for (std::uint32_t rank = 0; rank < ranks; ++rank) CHECK(job.wrong(rank) == "");
      }
    }
  }
}

// The receiver grants nothing of the long messages, and its endpoint would keep the short ones.
TEST_CASE("engine: sends to a destroyed communicator end and leave nothing at its endpoint") {
  for (const unsigned threads : {0u, 1u}) {
    for (const std::uint64_t count : {std::uint64_t{1000}, std::uint64_t{2'000'000}}) {
      proto::Random random(6);
      std::vector<Job> jobs;
      jobs.emplace_back(JobShape{.kind = JobKind::barrier, .ranks = 3}, random);
      Job job({.kind = JobKind::all_gather, .ranks = 3, .count = count}, random);
      EngineWorld world({.ranks = 3, .threads = threads});
      run(world, jobs);
      world.communicators[2]->abort(2, Status::cancelled);
      world.communicators[2].reset();
      REQUIRE(job.start(*world.communicators[1]) == Status::ok);  // it has not heard yet
      const std::vector<bool> awake(3, true);
      REQUIRE(run_until(world, awake, [&] {
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
          if (!world.communicators[rank]->idle()) return false;
        }
        return world.communicators[1]->released(job.request(1)) && world.routers[2]->quiet() &&
               world.endpoint(2).stats().unexpected_bytes_held == 0;
      }));
      CHECK(world.communicators[1]->failure()->rank == 2);
    }
  }
}

TEST_CASE("engine: ranks that disagree without a message fail with a typed error") {
  for (const unsigned threads : {0u, 1u}) {
    for (const bool empty : {false, true}) {
      INFO(threads << " engine threads, " << (empty ? "count 0" : "other root"));
      std::array<float, 8> data{};
      std::array<coll::Request, 2> requests;
      EngineWorld world({.ranks = 2, .threads = threads});
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        const std::uint64_t count = empty && rank == 1 ? 0 : data.size();
        const std::uint32_t root = empty ? 0 : rank;
        REQUIRE(world.communicators[rank]->reduce(data.data(), data.data(), count,
                                                  coll::DataType::f32, coll::ReduceOp::sum, root,
                                                  requests[rank]) == Status::ok);
      }
      REQUIRE(run_until(world, {true, true}, [&] {
        return world.communicators[0]->failure() != nullptr &&
               world.communicators[1]->failure() != nullptr;
      }));
      CHECK(world.communicators[0]->test(requests[0]) == Status::invalid_argument);
    }
  }
}

// Each rank runs in a thread of its own and blocks in wait, as a process would.
void run_threads(unsigned engine_threads) {
  constexpr std::uint32_t kRanks = 4;
  proto::Random random(4);
  std::vector<Job> jobs = draw_jobs(random, kRanks, 12, 300'000);
  Tunables tunables;
  tunables.longest_absence_ms = kStandstillMs;
  EngineWorld world({.ranks = kRanks, .threads = engine_threads, .tunables = tunables});
  std::vector<std::string> wrong(kRanks);
  std::atomic<std::uint32_t> finished{0};
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      coll::Communicator& communicator = *world.communicators[rank];
      for (Job& job : jobs) {
        if (job.start(communicator) != Status::ok) wrong[rank] = "not started";
        if (communicator.wait(job.request(rank)) != Status::ok) wrong[rank] = "failed";
      }
      coll::Request barrier;
      if (communicator.barrier(barrier) != Status::ok) wrong[rank] = "not started";
      if (communicator.wait(barrier) != Status::ok) wrong[rank] = "failed";
      // Other ranks may still wait for an acknowledgement from this one.
      ++finished;
      while (finished < kRanks) world.routers[rank]->wait(1'000'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    CHECK(wrong[rank] == "");
    for (const Job& job : jobs) CHECK(job.wrong(rank) == "");
  }
}

TEST_CASE("engine: bandwidths that change between collectives change no sum") {
  EngineWorld world({.ranks = 5});
  proto::Random random(3);
  for (const std::vector<std::uint8_t>& bandwidths : std::vector<std::vector<std::uint8_t>>{
           {8, 8, 4, 8, 8}, {8, 8, 8, 8, 8}, {1, 16, 2, 16, 16}, {3, 4, 5, 6, 7}}) {
    for (auto& communicator : world.communicators) {
      REQUIRE(communicator->set_bandwidths(bandwidths) == Status::ok);
    }
    std::vector<Job> jobs;
    for (const std::uint64_t count : {100'000, 700'001}) {
      jobs.emplace_back(JobShape{.kind = JobKind::all_reduce,
                                 .op = coll::ReduceOp::average,
                                 .ranks = 5,
                                 .count = count,
                                 .in_place = count % 2 == 0},
                        random);
    }
    run(world, jobs);
  }
  check_quiet(world);
}

TEST_CASE("engine: a thread a rank with inline progress") { run_threads(0); }

TEST_CASE("engine: a thread a rank and one an engine") { run_threads(1); }

// Calls `run` for each rank, in a thread of its own. Each then makes progress until all are done,
// as other ranks may still wait for an acknowledgement from it.
void run_each(EngineWorld& world, const std::function<void(std::uint32_t rank)>& run) {
  std::atomic<std::uint32_t> finished{0};
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      run(rank);
      ++finished;
      while (finished < world.ranks()) world.routers[rank]->wait(1'000'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("engine: a split makes communicators by colour, in the order of keys") {
  constexpr std::uint32_t kRanks = 5;
  EngineWorld world({.ranks = kRanks});
  struct Seen {
    Status status = Status::again;
    bool none = false;
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;
    std::uint64_t sum = 0;
  };
  std::vector<std::array<Seen, 3>> seen(kRanks);
  run_each(world, [&](std::uint32_t rank) {
    coll::Communicator& all = *world.communicators[rank];
    std::vector<std::unique_ptr<coll::Communicator>> made(3);
    // Odd and even ranks, backwards; then all but rank 2; then one of the first ones again.
    const std::uint32_t colours[] = {rank % 2, rank == 2 ? coll::Communicator::kNoColour : 7, 0};
    for (std::size_t i = 0; i < made.size(); ++i) {
      coll::Communicator& from = i == 2 ? *made[0] : all;
      seen[rank][i].status = from.split(colours[i], i == 1 ? 0 : kRanks - rank, made[i]);
      seen[rank][i].none = made[i] == nullptr;
    }
    // Each has its own messages, so their sums may run at the same time.
    std::array<std::uint64_t, 3> own{};
    std::array<std::uint64_t, 3> sums{};
    std::array<coll::Request, 3> requests;
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i] == nullptr) continue;
      own[i] = std::uint64_t{1} << (8 * i) << rank;
      seen[rank][i].rank = made[i]->rank();
      seen[rank][i].ranks = made[i]->ranks();
      if (made[i]->all_reduce(&own[i], &sums[i], 1, coll::DataType::i64, coll::ReduceOp::bit_or,
                              requests[i]) != Status::ok) {
        seen[rank][i].status = Status::unsupported;
      }
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (made[i] == nullptr) continue;
      if (made[i]->wait(requests[i]) != Status::ok) seen[rank][i].status = Status::unsupported;
      seen[rank][i].sum = sums[i];
    }
    coll::Request barrier;
    if (all.barrier(barrier) == Status::ok) (void)all.wait(barrier);
  });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    INFO("rank " << rank);
    const std::uint64_t parity = rank % 2 == 0 ? 0b10101 : 0b01010;
    for (const Seen& one : seen[rank]) CHECK(one.status == Status::ok);
    CHECK(seen[rank][0].ranks == (rank % 2 == 0 ? 3 : 2));
    CHECK(seen[rank][0].rank == (rank % 2 == 0 ? (4 - rank) / 2 : (3 - rank) / 2));
    CHECK(seen[rank][0].sum == parity);
    CHECK(seen[rank][1].none == (rank == 2));
    if (rank != 2) {
      CHECK(seen[rank][1].ranks == 4);
      CHECK(seen[rank][1].rank == (rank < 2 ? rank : rank - 1));
      CHECK(seen[rank][1].sum == 0b11011u << 8);
    }
    CHECK(seen[rank][2].sum == parity << 16);
  }
}

TEST_CASE("engine: a split ends when a rank gives up") {
  EngineWorld world({.ranks = 3});
  std::vector<Status> seen(3, Status::again);
  run_each(world, [&](std::uint32_t rank) {
    std::unique_ptr<coll::Communicator> made;
    if (rank == 1) {
      world.communicators[rank]->abort(rank, Status::cancelled);
      seen[rank] = Status::cancelled;
    } else {
      seen[rank] = world.communicators[rank]->split(0, 0, made);
      if (made != nullptr) seen[rank] = Status::ok;
    }
  });
  for (const Status status : seen) CHECK(status == Status::cancelled);
}

TEST_CASE("engine: a split that failed may be tried again, in vain, and leaves its memory alone") {
  EngineWorld world({.ranks = 3});
  std::vector<Status> seen(3, Status::again);
  bool is_made = false;
  run_each(world, [&](std::uint32_t rank) {
    if (rank == 2) world.communicators[rank]->abort(rank, Status::cancelled);
    if (rank != 0) return;
    std::unique_ptr<coll::Communicator> made;
    for (Status& status : seen) status = world.communicators[rank]->split(0, 0, made);
    is_made = made != nullptr;
  });
  for (const Status status : seen) CHECK(status == Status::cancelled);
  CHECK_FALSE(is_made);
}

TEST_CASE("engine: a split may replace the communicator that it is called of") {
  EngineWorld world({.ranks = 2});
  std::vector<Status> seen(2, Status::again);
  run_each(world, [&](std::uint32_t rank) {
    std::unique_ptr<coll::Communicator>& own = world.communicators[rank];
    if (own->split(0, rank, own) != Status::ok || own->id() <= 3) return;
    coll::Request barrier;
    if (own->barrier(barrier) == Status::ok) seen[rank] = own->wait(barrier);
  });
  for (const Status status : seen) CHECK(status == Status::ok);
}

// Whether a sum over all ranks of `made` comes out right.
Status sum_of_ranks(coll::Communicator& made) {
  std::uint64_t own = made.rank() + 1;
  std::uint64_t sum = 0;
  coll::Request request;
  Status status = made.all_reduce(&own, &sum, 1, coll::DataType::i64, coll::ReduceOp::sum, request);
  if (status == Status::ok) status = made.wait(request);
  const std::uint64_t expected = std::uint64_t{made.ranks()} * (made.ranks() + 1) / 2;
  return status == Status::ok && sum != expected ? Status::truncated : status;
}

TEST_CASE("engine: the ranks that are left when two have died go on in a smaller communicator") {
  constexpr std::uint32_t kRanks = 6;
  Tunables tunables;
  tunables.peer_timeout_ms = 300;
  EngineWorld world({.ranks = kRanks, .tunables = tunables});
  std::vector<Status> seen(kRanks, Status::again);
  std::vector<std::uint32_t> ids(kRanks, 0);
  std::vector<std::uint32_t> ranks(kRanks, 0);
  run_each(world, [&](std::uint32_t rank) {
    if (rank == 1 || rank == 4) {
      world.endpoint(rank).close();
      seen[rank] = Status::ok;
      return;
    }
    std::unique_ptr<coll::Communicator>& own = world.communicators[rank];
    while (own->failure() == nullptr) (void)sum_of_ranks(*own);
    const std::uint32_t former = own->id();
    seen[rank] = own->shrink(own);  // it may replace the communicator that it is called of
    if (seen[rank] != Status::ok) return;
    ids[rank] = own->id() - former;
    ranks[rank] = own->ranks() * 10 + own->rank();
    for (int i = 0; i < 20 && seen[rank] == Status::ok; ++i) seen[rank] = sum_of_ranks(*own);
  });
  for (const Status status : seen) CHECK(status == Status::ok);
  CHECK(ids == std::vector<std::uint32_t>{1, 0, 1, 1, 0, 1});
  CHECK(ranks == std::vector<std::uint32_t>{40, 0, 41, 42, 0, 43});
}

// Gives the rank a session with every other one.
void talk_to_all(coll::Communicator& own) {
  std::vector<std::uint8_t> in(own.ranks());
  std::vector<std::uint8_t> out(own.ranks());
  coll::Request request;
  if (own.all_to_all(in.data(), out.data(), 1, request) == Status::ok) (void)own.wait(request);
}

TEST_CASE("engine: a rank whose session with another is broken is left out, and told so") {
  constexpr std::uint32_t kRanks = 5;
  EngineWorld world({.ranks = kRanks});
  std::vector<Status> seen(kRanks, Status::again);
  std::vector<std::uint32_t> sizes(kRanks, 0);
  run_each(world, [&](std::uint32_t rank) {
    coll::Communicator& own = *world.communicators[rank];
    talk_to_all(own);
    if (rank == 0) {
      PeerId third = kAnyPeer;
      (void)world.endpoint(0).connect(world.endpoint(3).address(), third);
      (void)world.endpoint(0).disconnect(third);
      own.abort(3, Status::peer_timeout);
    }
    while (own.failure() == nullptr) (void)sum_of_ranks(own);
    std::unique_ptr<coll::Communicator> made;
    seen[rank] = own.shrink(made);
    if (seen[rank] != Status::ok) return;
    sizes[rank] = made->ranks();
    for (int i = 0; i < 20 && seen[rank] == Status::ok; ++i) seen[rank] = sum_of_ranks(*made);
  });
  const auto ok = Status::ok;
  CHECK(seen == std::vector<Status>{ok, ok, ok, Status::cancelled, ok});
  CHECK(sizes == std::vector<std::uint32_t>{4, 4, 4, 0, 4});
}

TEST_CASE("engine: a rank that slept while the others went on doesn't go on alone") {
  constexpr std::uint32_t kRanks = 5;
  constexpr std::uint32_t kSleeper = 2;
  Tunables tunables;
  tunables.peer_timeout_ms = 1000;
  EngineWorld world({.ranks = kRanks, .tunables = tunables});
  std::vector<Status> seen(kRanks, Status::again);
  std::vector<std::uint32_t> sizes(kRanks, 0);
  std::atomic<std::uint32_t> went_on{0};
  run_each(world, [&](std::uint32_t rank) {
    coll::Communicator& own = *world.communicators[rank];
    talk_to_all(own);
    // Its engine has no thread: nobody polls it meanwhile.
    while (rank == kSleeper && went_on < kRanks - 1) std::this_thread::yield();
    while (own.failure() == nullptr) (void)sum_of_ranks(own);
    std::unique_ptr<coll::Communicator> made;
    seen[rank] = own.shrink(made);
    if (made != nullptr) sizes[rank] = made->ranks();
    for (int i = 0; i < 20 && seen[rank] == Status::ok; ++i) seen[rank] = sum_of_ranks(*made);
    ++went_on;
  });
  const auto ok = Status::ok;
  CHECK(seen == std::vector<Status>{ok, ok, Status::cancelled, ok, ok});
  CHECK(sizes == std::vector<std::uint32_t>{4, 4, 0, 4, 4});
}

TEST_CASE("engine: ranks that disagreed go on together, and without whom all leave out") {
  constexpr std::uint32_t kRanks = 4;
  EngineWorld world({.ranks = kRanks});
  std::vector<std::array<Status, 3>> seen(kRanks);
  std::vector<std::uint32_t> sizes(kRanks, 0);
  run_each(world, [&](std::uint32_t rank) {
    coll::Communicator& own = *world.communicators[rank];
    std::unique_ptr<coll::Communicator> all;
    std::unique_ptr<coll::Communicator> three;
    seen[rank][0] = own.shrink(all);  // not revoked yet
    if (rank == 0) own.abort(rank, Status::invalid_argument);
    while (own.failure() == nullptr) (void)sum_of_ranks(own);
    seen[rank][1] = own.shrink(all);
    if (seen[rank][1] != Status::ok) return;
    sizes[rank] = 10 * all->ranks();
    const coll::Rank without[] = {2};
    all->abort(2, Status::cancelled);
    seen[rank][2] = all->shrink(without, three);
    if (seen[rank][2] != Status::ok) return;
    sizes[rank] += three->ranks();
    seen[rank][2] = sum_of_ranks(*three);
  });
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    INFO("rank " << rank);
    CHECK(seen[rank][0] == Status::invalid_argument);
    CHECK(seen[rank][1] == Status::ok);
    CHECK(seen[rank][2] == (rank == 2 ? Status::cancelled : Status::ok));
    CHECK(sizes[rank] == (rank == 2 ? 40 : 43));
  }
}

TEST_CASE("engine: a shrink with wrong arguments, or a second time, is refused") {
  EngineWorld world({.ranks = 2});
  std::vector<Status> seen(6, Status::again);
  run_each(world, [&](std::uint32_t rank) {
    coll::Communicator& own = *world.communicators[rank];
    std::unique_ptr<coll::Communicator> made;
    own.abort(1, Status::cancelled);
    const coll::Rank none[] = {2};
    seen[rank] = own.shrink(none, made);
    seen[2 + rank] = own.shrink(made);
    const coll::Communicator* const first = made.get();
    seen[4 + rank] = own.shrink(made);
    if (made.get() != first) seen[4 + rank] = Status::ok;
  });
  const auto no = Status::invalid_argument;
  CHECK(seen == std::vector<Status>{no, no, Status::ok, Status::ok, no, no});
}

TEST_CASE("engine: an abort of a stranger ends nothing") {
  EngineWorld world({.ranks = 3});
  const auto make = [&](std::uint32_t rank, std::uint32_t ranks) {
    std::vector<PeerId> peers(ranks);
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if (other != rank)
        (void)world.endpoint(rank).connect(world.endpoint(other).address(), peers[other]);
    }
    return std::make_unique<coll::Communicator>(
        *world.routers[rank],
        coll::CommunicatorConfig{.id = 7, .rank = rank, .peers = std::move(peers)});
  };
  std::vector<Status> seen(2, Status::again);
  std::atomic<bool> has_told{false};
  run_each(world, [&](std::uint32_t rank) {
    const auto own = make(rank, rank == 2 ? 3 : 2);
    if (rank == 2) {
      own->abort(1, Status::peer_timeout);
      while (!own->idle()) world.routers[rank]->wait(1'000'000);
      has_told = true;
      return;
    }
    while (!has_told) world.routers[rank]->wait(1'000'000);
    for (int i = 0; i < 20; ++i) seen[rank] = sum_of_ranks(*own);
  });
  CHECK(seen == std::vector<Status>{Status::ok, Status::ok});
}

TEST_CASE("engine: an id that a router has, or had lately, is refused") {
  EngineWorld world({.ranks = 2});
  const coll::CommunicatorConfig config{
      .id = 3, .rank = 0, .peers = {PeerId{1}, PeerId{2}}, .options = {}};
  CHECK_THROWS_AS(coll::Communicator(*world.routers[0], config), Error);
  world.communicators[0].reset();
  CHECK_THROWS_AS(coll::Communicator(*world.routers[0], config), Error);
}

}  // namespace
}  // namespace hawser::test
