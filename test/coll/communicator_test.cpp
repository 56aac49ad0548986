// SPDX-License-Identifier: Apache-2.0
#include "hawser/collectives.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "coll/layout.hpp"
#include "test/coll/job.hpp"
#include "test/coll/world.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Communicator;
using coll::CommunicatorOptions;
using coll::DataType;
using coll::ReduceOp;
using coll::Request;

// Starts `job` at every rank and runs until it has ended at all of them.
void run(World& world, Job& job, proto::Random& random) {
  for (auto& communicator : world.communicators) REQUIRE(job.start(*communicator) == Status::ok);
  REQUIRE(world.run_until(random, [&] {
    for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
      if (world.communicators[rank]->test(job.request(rank)) != Status::ok) return false;
    }
    return true;
  }));
  for (std::uint32_t rank = 0; rank < world.ranks(); ++rank) {
    INFO(job.shape().text() << ", rank " << rank);
    CHECK(job.wrong(rank) == "");
  }
}

TEST_CASE("communicator: every operation on 1 to 9 ranks with 0 to 20 elements") {
  proto::Random random(1);
  for (std::uint32_t ranks = 1; ranks <= 9; ++ranks) {
    World world(ranks, {}, {.small_bytes = 0});
    World doubling(ranks, {});
    for (std::uint64_t count = 0; count <= 20; ++count) {
      for (std::uint64_t kind = 0; kind < kJobKinds; ++kind) {
        for (const bool in_place : {false, true}) {
          const JobShape shape{.kind = static_cast<JobKind>(kind),
                               .type = DataType::f64,
                               .ranks = ranks,
                               .count = count,
                               .root = static_cast<std::uint32_t>(count % ranks),
                               .in_place = in_place && kind != 4};
          Job job(shape, random);
          run(world, job, random);
          Job again(shape, random);
          run(doubling, again, random);
        }
      }
    }
    CHECK(world.network.complaints().empty());
    CHECK(doubling.network.complaints().empty());
  }
}

TEST_CASE("communicator: all ranks get the same bits although sums are rounded") {
  proto::Random random(3);
  for (const std::uint32_t ranks : {2u, 3u, 6u, 8u, 13u}) {
    for (const std::uint32_t small_bytes : {0u, 1u << 20}) {
      World world(ranks, {.seed = ranks, .max_delay = 30}, {.small_bytes = small_bytes});
      std::vector<std::vector<float>> in(ranks);
      std::vector<std::vector<float>> out(ranks, std::vector<float>(5000));
      std::vector<Request> requests(ranks);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (int i = 0; i < 5000; ++i) {
          in[rank].push_back(static_cast<float>(random.below(1'000'000)) * 1e-3f + 1e-9f);
        }
        REQUIRE(world.communicators[rank]->all_reduce(in[rank].data(), out[rank].data(), 5000,
                                                      DataType::f32, ReduceOp::sum,
                                                      requests[rank]) == Status::ok);
      }
      REQUIRE(world.settle(random));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        CHECK(std::memcmp(out[rank].data(), out[0].data(), 5000 * sizeof(float)) == 0);
      }
      double exact = 0;
      for (const auto& one : in) exact += static_cast<double>(one[77]);
      CHECK(static_cast<double>(out[0][77]) == Approx(exact).epsilon(1e-5));
    }
  }
}

TEST_CASE("communicator: reductions of one's own need no message") {
  World world(1, {});
  std::array<float, 3> in{1, 2, 3};
  std::array<float, 3> out{};
  Request request{0, 99};
  CHECK(world.communicators[0]->all_reduce(in.data(), out.data(), 3, DataType::f32, ReduceOp::sum,
                                           request) == Status::ok);
  CHECK(world.communicators[0]->test(request) == Status::ok);
  CHECK(out == in);
}

TEST_CASE("communicator: takes kMaxStarted collectives and then says again") {
  World world(2, {});
  proto::Random random(1);
  std::vector<std::array<Request, 2>> requests(Communicator::kMaxStarted);
  for (std::uint32_t i = 0; i < Communicator::kMaxStarted; ++i) {
    REQUIRE(world.communicators[0]->barrier(requests[i][0]) == Status::ok);
  }
  Request more;
  CHECK(world.communicators[0]->barrier(more) == Status::again);
  CHECK(world.communicators[0]->test(requests[0][0]) == Status::again);
  CHECK_FALSE(world.communicators[0]->released(requests[0][0]));
  for (std::uint32_t i = 0; i < Communicator::kMaxStarted; ++i) {
    REQUIRE(world.communicators[1]->barrier(requests[i][1]) == Status::ok);
  }
  REQUIRE(world.settle(random));
  for (const auto& pair : requests) {
    CHECK(world.communicators[0]->test(pair[0]) == Status::ok);
    CHECK(world.communicators[0]->released(pair[0]));
    CHECK(world.communicators[1]->test(pair[1]) == Status::ok);
  }
  // A refused start takes no place in the order, so the ranks still agree.
  REQUIRE(world.communicators[0]->barrier(requests[0][0]) == Status::ok);
  REQUIRE(world.communicators[1]->barrier(requests[0][1]) == Status::ok);
  CHECK(world.settle(random));
}

TEST_CASE("communicator: a barrier holds everyone until the last has come") {
  for_each_seed(30, [](proto::Random& random) {
    const auto ranks = static_cast<std::uint32_t>(2 + random.below(12));
    const auto last = static_cast<std::uint32_t>(random.below(ranks));
    World world(ranks, {.seed = random.next(), .max_delay = 20});
    std::vector<Request> requests(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank != last) REQUIRE(world.communicators[rank]->barrier(requests[rank]) == Status::ok);
    }
    for (int i = 0; i < 5000; ++i) world.step(random);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (rank != last) CHECK(world.communicators[rank]->test(requests[rank]) == Status::again);
    }
    REQUIRE(world.communicators[last]->barrier(requests[last]) == Status::ok);
    CHECK(world.settle(random));
  });
}

TEST_CASE("communicator: a rank that stops polling at its result leaves no other rank waiting") {
  for_each_seed(200, [](proto::Random& random) {
    const auto ranks = static_cast<std::uint32_t>(2 + random.below(16));
    const JobKind kind = random.below(2) == 0 ? JobKind::all_reduce : JobKind::barrier;
    Job job({.kind = kind, .ranks = ranks, .count = 10}, random);
    World world(ranks, {.seed = random.next(), .again = 0.2, .max_delay = 20});
    for (auto& communicator : world.communicators) {
      REQUIRE(job.start(*communicator) == Status::ok);
    }
    // These ranks stay alive: the network loses the messages of a killed one.
    std::vector<std::uint32_t> awake(ranks);
    std::iota(awake.begin(), awake.end(), 0u);
    for (int turns = 0; !awake.empty(); ++turns) {
      REQUIRE(turns < 100'000);
      const auto at = awake.begin() + static_cast<std::ptrdiff_t>(random.below(awake.size()));
      const std::uint32_t rank = *at;
      world.routers[rank]->progress();
      if (world.communicators[rank]->test(job.request(rank)) == Status::ok) awake.erase(at);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) CHECK(job.wrong(rank) == "");
  });
}

TEST_CASE("communicator: refuses arguments out of range and goes on") {
  proto::Random random(1);
  Job job({.kind = JobKind::all_gather, .ranks = 3, .count = 100}, random);
  World world(3, {});
  Communicator& one = *world.communicators[0];
  Request request;
  std::array<coll::Segment, 3> segments{};
  std::byte byte{};
  CHECK(one.all_reduce(&byte, &byte, ~std::uint64_t{0}, DataType::f32, ReduceOp::sum, request) ==
        Status::invalid_argument);
  CHECK(one.reduce_scatter(&byte, &byte, std::uint64_t{1} << 60, DataType::f32, ReduceOp::sum,
                           request) == Status::invalid_argument);
  CHECK(one.all_gather(&byte, &byte, std::uint64_t{1} << 62, request) == Status::invalid_argument);
  CHECK(one.all_to_all(&byte, &byte, kMaxMessageBytes + 1, request) == Status::invalid_argument);
  CHECK(one.broadcast(&byte, 1, 3, request) == Status::invalid_argument);
  CHECK(one.reduce(&byte, &byte, 1, DataType::f32, ReduceOp::sum, 3, request) ==
        Status::invalid_argument);
  CHECK(one.reduce(&byte, &byte, ~std::uint64_t{0}, DataType::f32, ReduceOp::sum, 0, request) ==
        Status::invalid_argument);
  segments[0].bytes = 1;
  CHECK(one.all_to_all_v(&byte, segments, &byte, segments, request) == Status::invalid_argument);
  segments[0].bytes = 0;
  CHECK(one.all_to_all_v(&byte, std::span(segments).first(2), nullptr, segments, request) ==
        Status::invalid_argument);
  CHECK(one.failure() == nullptr);
  run(world, job, random);
}

TEST_CASE("communicator: buffers that are missing and blocks that are wrong are refused") {
  World world(3, {});
  Communicator& one = *world.communicators[0];
  Request request;
  std::array<std::byte, 32> some{};
  void* const out = some.data();
  const ReduceOp sum = ReduceOp::sum;
  const DataType type = DataType::f32;
  const std::array<coll::Segment, 3> blocks{{{0, 4}, {4, 4}, {8, 4}}};
  const std::array<coll::Segment, 2> few{{{0, 4}, {4, 4}}};
  const std::array<coll::Segment, 3> odd{{{0, 4}, {4, 3}, {8, 4}}};
  const std::array<coll::Segment, 3> askew{{{0, 4}, {5, 4}, {12, 4}}};
  const std::array<coll::Segment, 3> far{{{0, 4}, {~std::uint64_t{0} - 3, 4}, {12, 4}}};
  const Status refused[] = {
      one.all_reduce(nullptr, out, 1, type, sum, request),
      one.all_reduce(out, nullptr, 1, type, sum, request),
      one.all_reduce(out, out, 1, type, ReduceOp::bit_and, request),
      one.all_reduce(out, out, 1, type, {nullptr, nullptr}, request),
      one.all_reduce(out, out, 1, static_cast<DataType>(coll::kDataTypes), sum, request),
      one.reduce(nullptr, out, 1, type, sum, 1, request),
      one.reduce(out, nullptr, 1, type, sum, 0, request),
      one.reduce_scatter(nullptr, out, 1, type, sum, request),
      one.reduce_scatter(out, nullptr, 1, type, sum, request),
      one.reduce_scatter_v(nullptr, blocks, out, type, sum, request),
      one.reduce_scatter_v(out, blocks, nullptr, type, sum, request),
      one.reduce_scatter_v(out, few, out, type, sum, request),
      one.reduce_scatter_v(out, odd, out, type, sum, request),
      one.reduce_scatter_v(out, askew, out, type, sum, request),
      one.reduce_scatter_v(out, far, out, type, sum, request),
      one.all_gather(nullptr, out, 1, request),
      one.all_gather(out, nullptr, 1, request),
      one.all_gather_v(nullptr, out, blocks, request),
      one.all_gather_v(out, nullptr, blocks, request),
      one.all_gather_v(out, out, few, request),
      one.all_to_all(nullptr, out, 1, request),
      one.all_to_all(out, nullptr, 1, request),
      one.all_to_all_v(nullptr, blocks, out, blocks, request),
      one.all_to_all_v(out, blocks, nullptr, blocks, request),
      one.broadcast(nullptr, 1, 0, request),
      one.gather(nullptr, out, 1, 1, request),
      one.gather(out, nullptr, 1, 0, request),
      one.gather_v(nullptr, 4, out, blocks, 0, request),
      one.gather_v(out, 4, nullptr, blocks, 0, request),
      one.gather_v(out, 3, out, blocks, 0, request),
      one.gather_v(out, 4, out, few, 0, request),
      one.gather_v(out, 4, out, {}, 3, request),
      one.scatter(nullptr, out, 1, 0, request),
      one.scatter(out, nullptr, 1, 1, request),
      one.scatter_v(nullptr, blocks, out, 4, 0, request),
      one.scatter_v(out, blocks, nullptr, 4, 0, request),
      one.scatter_v(out, blocks, out, 5, 0, request),
  };
  for (std::size_t i = 0; i < std::size(refused); ++i) {
    INFO(i);
    CHECK(refused[i] == Status::invalid_argument);
  }
  CHECK(one.failure() == nullptr);
  CHECK(one.idle());
}

TEST_CASE("communicator: bandwidths are one for each rank, from 1 to 16, and the same at all") {
  using Bandwidths = std::vector<std::uint8_t>;
  proto::Random random(1);
  Job job({.kind = JobKind::all_reduce, .ranks = 3, .count = 100'000}, random);
  std::vector<Job> jobs;
  World world(3, {});
  for (const Bandwidths& wrong : {Bandwidths{}, {8, 8}, {8, 8, 8, 8}, {8, 0, 8}, {8, 8, 17}}) {
    CHECK(world.communicators[0]->set_bandwidths(wrong) == Status::invalid_argument);
  }
  // They may change while all-reduces run that are divided by the former ones.
  for (int i = 0; i < 12; ++i) {
    jobs.emplace_back(JobShape{.kind = JobKind::all_reduce, .ranks = 3, .count = 20'000}, random);
  }
  for (int i = 0; i < 12; ++i) {
    for (auto& communicator : world.communicators) {
      const auto slow = static_cast<std::uint8_t>(1 + i);
      REQUIRE(communicator->set_bandwidths(Bandwidths{16, slow, 16}) == Status::ok);
      REQUIRE(jobs[static_cast<std::size_t>(i)].start(*communicator) == Status::ok);
    }
  }
  REQUIRE(world.settle(random));
  for (const Job& done : jobs) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) CHECK(done.wrong(rank) == "");
  }
  // A rank that was told something else is found by the first all-reduce that is divided.
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const Bandwidths bandwidths{8, 4, static_cast<std::uint8_t>(rank == 1 ? 7 : 8)};
    REQUIRE(world.communicators[rank]->set_bandwidths(bandwidths) == Status::ok);
    REQUIRE(job.start(*world.communicators[rank]) == Status::ok);
  }
  REQUIRE(world.run_until(random, [&] {
    return std::all_of(world.communicators.begin(), world.communicators.end(),
                       [](const auto& one) { return one->failure() != nullptr; });
  }));
  for (const auto& communicator : world.communicators) {
    CHECK(communicator->failure()->status == Status::invalid_argument);
  }
  World revoked(3, {});
  revoked.communicators[0]->abort(1, Status::peer_timeout);
  CHECK(revoked.communicators[0]->set_bandwidths(Bandwidths{8, 8, 8}) == Status::peer_timeout);
}

TEST_CASE("communicator: a configuration out of range is an error in words") {
  LoopbackNetwork network(3, {});
  coll::CompletionRouter router(network.endpoint(0));
  const coll::CommunicatorConfig good{
      .id = 1, .rank = 0, .peers = {PeerId{0}, network.peer(0, 1), network.peer(0, 2)}};
  const auto refused = [&](auto&& spoil) {
    coll::CommunicatorConfig config = good;
    spoil(config);
    CHECK_THROWS_AS(Communicator(router, config), Error);
  };
  refused([](auto& config) { config.id = coll::kMaxCommunicators; });
  refused([](auto& config) { config.rank = 3; });
  refused([](auto& config) { config.peers.clear(); });
  refused([](auto& config) { config.peers[2] = config.peers[1]; });
  refused([](auto& config) { config.options.chunk_bytes = 0; });
  refused([](auto& config) { config.options.chunk_bytes = 100; });
  refused([](auto& config) { config.options.pipeline = 0; });
  refused([](auto& config) { config.options.pipeline = 33; });
  refused([](auto& config) { config.options.pipeline = 0x80000001; });
  refused([](auto& config) { config.peers[1] = kAnyPeer; });
  refused([](auto& config) { config.bandwidths = {8, 8}; });
  refused([](auto& config) {
    config.options.follow_bandwidths = true;
    config.bandwidths = {8, 8, 4};
  });
  refused([](auto& config) { config.options.max_active = 0; });
  refused([](auto& config) { config.options.small_bytes = (1 << 20) + 1; });
  CHECK_NOTHROW(Communicator(router, good));
}

TEST_CASE("communicator: options within an endpoint's limits need no more than it has") {
  proto::Random random(5);
  for (int i = 0; i < 2000; ++i) {
    Tunables tunables;
    tunables.max_operations = 16 + random.below(1000);
    tunables.max_messages_per_peer = 4 + random.below(100);
    const auto communicators = static_cast<std::uint32_t>(1 + random.below(3));
    const CommunicatorOptions options = CommunicatorOptions::within(tunables, communicators);
    const std::uint64_t sends = std::uint64_t{2} * options.pipeline * options.max_active;
    if (communicators > 1 && tunables.max_operations < 40) continue;  // too few for a communicator
    CHECK(communicators * (2 * sends + 1) <= tunables.max_operations);
    if (communicators == 1) CHECK(sends <= tunables.max_messages_per_peer);
  }
  const CommunicatorOptions defaults = CommunicatorOptions::within({}, 0);  // as 1
  CHECK(defaults.pipeline == CommunicatorOptions{}.pipeline);
  CHECK(defaults.max_active == CommunicatorOptions{}.max_active);
}

TEST_CASE("communicator: hostile limits make it slow and not wrong") {
  for_each_seed(20, [](proto::Random& random) {
    Tunables tunables;
    tunables.max_operations = 32;
    tunables.max_messages_per_peer = 4;
    std::vector<Job> jobs;  // declared first: the world may use their buffers
    World world(5,
                {.seed = random.next(),
                 .max_delay = 5,
                 .max_operations = 32,
                 .max_messages_per_peer = 4,
                 .unexpected_bytes = 0},
                CommunicatorOptions::within(tunables));
    for (int i = 0; i < 10; ++i) jobs.emplace_back(draw_job(random, 5, 100'000), random);
    for (Job& job : jobs) {
      for (auto& communicator : world.communicators) {
        REQUIRE(job.start(*communicator) == Status::ok);
      }
    }
    REQUIRE(world.settle(random));
    for (const Job& job : jobs) {
      for (std::uint32_t rank = 0; rank < 5; ++rank) CHECK(job.wrong(rank) == "");
    }
    CHECK(world.network.complaints().empty());
  });
}

struct Disagreement {
  std::uint32_t ranks = 3;
  const char* named = "a different";  // words of the text of a rank that notices it
  bool seen_in_time = true;           // some rank notices it before its collective ends
};

// Every rank learns that the ranks disagree, instead of computing nonsense or hanging.
template <typename Start>
void disagree(Start&& start, const Disagreement& expected = {}) {
  World world(expected.ranks, {.max_delay = 3});
  proto::Random random(1);
  std::vector<Request> requests(expected.ranks);
  for (std::uint32_t rank = 0; rank < expected.ranks; ++rank) {
    REQUIRE(start(rank, *world.communicators[rank], requests[rank]) == Status::ok);
  }
  REQUIRE(world.run_until(random, [&] {
    return std::all_of(world.communicators.begin(), world.communicators.end(),
                       [](const auto& one) { return one->failure() != nullptr; });
  }));
  REQUIRE(world.settle(random));
  int failed = 0;
  int texts = 0;
  for (std::uint32_t rank = 0; rank < expected.ranks; ++rank) {
    // A rank that saw nothing wrong may have finished before it learned of the disagreement.
    failed += world.communicators[rank]->test(requests[rank]) == Status::invalid_argument ? 1 : 0;
    CHECK(world.communicators[rank]->test(requests[rank]) != Status::again);
    CHECK(world.communicators[rank]->released(requests[rank]));
    CHECK(world.communicators[rank]->failure()->status == Status::invalid_argument);
    const std::string& text = world.communicators[rank]->failure()->text;
    CHECK_FALSE(text.empty());
    texts += text.find(expected.named) != std::string::npos ? 1 : 0;
  }
  if (expected.seen_in_time) CHECK(failed > 0);
  CHECK(texts > 0);
}

TEST_CASE("communicator: ranks that disagree fail with a typed error") {
  std::array<std::byte, 4096> buffer{};
  SECTION("count") {
    disagree([&](std::uint32_t rank, Communicator& one, Request& request) {
      return one.all_reduce(buffer.data(), buffer.data(), 100 + rank, DataType::f32, ReduceOp::sum,
                            request);
    });
  }
  SECTION("operation") {
    disagree([&](std::uint32_t rank, Communicator& one, Request& request) {
      return one.all_reduce(buffer.data(), buffer.data(), 100, DataType::f32,
                            rank == 1 ? ReduceOp::max : ReduceOp::sum, request);
    });
  }
  SECTION("type of the same size") {
    disagree([&](std::uint32_t rank, Communicator& one, Request& request) {
      return one.all_reduce(buffer.data(), buffer.data(), 100,
                            rank == 2 ? DataType::i32 : DataType::f32, ReduceOp::sum, request);
    });
  }
  SECTION("collective") {
    disagree([&](std::uint32_t rank, Communicator& one, Request& request) {
      if (rank == 0) return one.barrier(request);
      return one.all_to_all(buffer.data(), buffer.data(), 10, request);
    });
  }
  SECTION("in place") {
    for (const std::uint64_t bytes : {std::uint64_t{10}, std::uint64_t{600'000}}) {
      std::vector<std::byte> in(3 * bytes);
      std::vector<std::vector<std::byte>> out(3, in);
      disagree(
          [&](std::uint32_t rank, Communicator& one, Request& request) {
            return one.all_to_all(rank == 1 ? out[rank].data() : in.data(), out[rank].data(), bytes,
                                  request);
          },
          {.named = "use in place"});
    }
  }
  SECTION("lengths") {
    static constexpr std::array<coll::Segment, 3> some{{{0, 10}, {10, 10}, {20, 10}}};
    static constexpr std::array<coll::Segment, 3> others{{{0, 11}, {11, 11}, {22, 10}}};
    std::array<std::byte, 64> out[3];
    disagree([&](std::uint32_t rank, Communicator& one, Request& request) {
      return one.all_to_all_v(buffer.data(), some, out[rank].data(), rank == 2 ? others : some,
                              request);
    });
  }
}

constexpr auto kSum = ReduceOp::sum;
constexpr auto kFloat = DataType::f32;

TEST_CASE("communicator: a root that differs is found although no receive shows it") {
  std::array<std::byte, 4096> buffer{};
  std::vector<std::byte> large(300'000);
  for (const std::uint32_t ranks : {2u, 3u, 5u}) {
    INFO(ranks << " ranks");
    const auto root = [](std::uint32_t rank) { return rank == 1 ? 1u : 0u; };
    // Small messages of a root are accepted before anybody looks at them.
    disagree(
        [&](std::uint32_t rank, Communicator& one, Request& request) {
          return one.broadcast(buffer.data(), 100, root(rank), request);
        },
        {.ranks = ranks, .seen_in_time = false});
    disagree(
        [&](std::uint32_t rank, Communicator& one, Request& request) {
          return one.broadcast(large.data(), large.size(), root(rank), request);
        },
        {.ranks = ranks, .seen_in_time = false});
    disagree(
        [&](std::uint32_t rank, Communicator& one, Request& request) {
          return one.reduce(buffer.data(), buffer.data(), 100, kFloat, kSum, root(rank), request);
        },
        {.ranks = ranks});
  }
  // Each of the two awaits a message of the other.
  disagree(
      [&](std::uint32_t rank, Communicator& one, Request& request) {
        if (rank == 0) return one.broadcast(buffer.data(), 100, 1, request);
        return one.reduce(buffer.data(), buffer.data(), 25, kFloat, kSum, 1, request);
      },
      {.ranks = 2});
}

TEST_CASE("communicator: a count of 0 at one rank only is found") {
  std::array<std::byte, 4096> buffer{};
  for (const std::uint32_t ranks : {2u, 3u, 5u}) {
    for (const std::uint64_t other : {std::uint64_t{0}, std::uint64_t{16}}) {
      INFO(ranks << " ranks, rank 1 has " << other);
      const auto count = [other](std::uint32_t rank) { return rank == 1 ? other : 16 - other; };
      const auto check = [&](auto&& start) {
        disagree([&](std::uint32_t rank, Communicator& one,
                     Request& request) { return start(one, count(rank), request); },
                 {.ranks = ranks, .seen_in_time = false});
      };
      void* const data = buffer.data();
      check([&](Communicator& one, std::uint64_t n, Request& request) {
        return one.all_reduce(data, data, n, kFloat, kSum, request);
      });
      check([&](Communicator& one, std::uint64_t n, Request& request) {
        return one.reduce(data, data, n, kFloat, kSum, 0, request);
      });
      check([&](Communicator& one, std::uint64_t n, Request& request) {
        return one.broadcast(data, n, 0, request);
      });
      check([&](Communicator& one, std::uint64_t n, Request& request) {
        return one.all_gather(buffer.data() + 1024, data, n, request);
      });
    }
  }
}

TEST_CASE("communicator: a segment that is empty at one end only is found at either end") {
  static constexpr std::array<coll::Segment, 3> full{{{0, 10}, {10, 10}, {20, 10}}};
  static constexpr std::array<coll::Segment, 3> less{{{0, 0}, {10, 10}, {20, 10}}};
  std::array<std::byte, 64> in{};
  std::array<std::byte, 64> out[3];
  for (const bool sends_less : {false, true}) {
    disagree(
        [&](std::uint32_t rank, Communicator& one, Request& request) {
          const bool differs = rank == 1;
          return one.all_to_all_v(in.data(), differs && sends_less ? less : full, out[rank].data(),
                                  differs && !sends_less ? less : full, request);
        },
        {.seen_in_time = false});
  }
}

TEST_CASE("communicator: ranks that come late are not taken for ranks that disagree") {
  for_each_seed(6, [](proto::Random& random) {
    constexpr std::uint32_t kRanks = 4;
    constexpr std::size_t kJobs = 6;
    std::vector<Job> jobs;
    World world(kRanks,
                {.seed = random.next(),
                 .again = 0.1,
                 .max_delay = 30,
                 .unexpected_bytes = random.below(2) * 5000},
                {.chunk_bytes = 512, .pipeline = 2, .max_active = 2});
    for (std::size_t i = 0; i < kJobs; ++i)
      jobs.emplace_back(draw_job(random, kRanks, 20'000), random);
    std::array<std::size_t, kRanks> started{};
    for (std::size_t i = 0; i < kJobs * kRanks; ++i) {
      auto rank = static_cast<std::uint32_t>(random.below(kRanks));
      while (started[rank] == kJobs) rank = (rank + 1) % kRanks;
      REQUIRE(jobs[started[rank]++].start(*world.communicators[rank]) == Status::ok);
      const std::uint64_t steps = random.below(kRanks * 20'000);
      for (std::uint64_t step = 0; step < steps; ++step) world.step(random);
    }
    REQUIRE(world.settle(random));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      CHECK(world.communicators[rank]->failure() == nullptr);
      for (const Job& job : jobs) CHECK(job.wrong(rank) == "");
    }
    CHECK(world.network.unmatched() == 0);
    CHECK(world.network.complaints().empty());
  });
}

}  // namespace
}  // namespace hawser::test
