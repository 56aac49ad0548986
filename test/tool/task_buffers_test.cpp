// SPDX-License-Identifier: Apache-2.0
// The checker against collectives done by hand: all ranks' buffers lie in one process, moved and
// added with plain loops. Then the same with one mistake, which the checker must find.
#include "tool/check/task_buffers.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

namespace hawser::tool {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint64_t kSeed = 9;
constexpr std::uint32_t kStep = 1;

struct World {
  Schedule schedule;
  std::vector<std::unique_ptr<BufferArena>> arenas;
  std::vector<TaskBuffers> ranks;

  World(Operation operation, std::uint64_t bytes, Split split = Split::even) {
    Workload workload;
    Phase phase;
    phase.operation = operation;
    phase.bytes = bytes;
    phase.split = split;
    phase.experts = 8;
    phase.words = 3;
    workload.step.push_back(phase);
    schedule = make_schedule(workload, kRanks, 1);
    const Task& task = schedule.step[0];
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      arenas.push_back(
          std::make_unique<BufferArena>(TaskBuffers::footprint(task, schedule.layout)));
      ranks.emplace_back(task, schedule.layout, rank, kSeed, kStep, *arenas[rank]);
      ranks[rank].fill();
    }
  }
  std::byte* out(std::uint32_t rank) { return ranks[rank].out().data(); }
  std::byte* in(std::uint32_t rank) { return ranks[rank].in().data(); }
  std::uint64_t bytes() { return ranks[0].in().size(); }

  void check_right() {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      INFO("rank " << rank);
      CHECK_FALSE(ranks[rank].verify().mismatch);
      CHECK(arenas[rank]->damaged_guard_bytes() == 0);
    }
  }
  bool wrong(std::uint32_t rank) { return ranks[rank].verify().mismatch.has_value(); }
};

std::vector<float> sum_of(World& world) {
  std::vector<float> sum(world.bytes() / 4);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      float x;
      std::memcpy(&x, world.in(rank) + i * 4, 4);
      sum[i] += x;
    }
  }
  return sum;
}

TEST_CASE("task_buffers: all_reduce") {
  World world(Operation::all_reduce, 40'000);
  CHECK(world.wrong(0));  // not done yet
  const std::vector<float> sum = sum_of(world);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    std::memcpy(world.out(rank), sum.data(), world.bytes());
  }
  world.check_right();
  CHECK(world.ranks[0].verify().bytes == 40'000);
  world.out(2)[39'999] ^= std::byte{1};
  CHECK(world.wrong(2));
  CHECK_FALSE(world.wrong(1));
}

TEST_CASE("task_buffers: reduce_scatter") {
  World world(Operation::reduce_scatter, 40'000);
  const std::vector<float> sum = sum_of(world);
  const std::uint64_t block = world.bytes() / kRanks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    CHECK(world.wrong(rank));
    std::memcpy(world.out(rank) + rank * block, sum.data() + rank * block / 4, block);
  }
  world.check_right();
  CHECK(world.ranks[0].verify().bytes == block);
  world.out(2)[2 * block] ^= std::byte{1};
  CHECK(world.wrong(2));
}

TEST_CASE("task_buffers: all_gather") {
  World world(Operation::all_gather, 40'000);
  const std::uint64_t block = world.bytes() / kRanks;
  for (std::uint32_t from = 0; from < kRanks; ++from) {
    for (std::uint32_t to = 0; to < kRanks; ++to) {
      if (from == to) continue;
      std::memcpy(world.out(to) + from * block, world.in(from) + from * block, block);
    }
  }
  world.check_right();
  std::swap(world.out(1)[0], world.out(1)[block]);
  CHECK(world.wrong(1));
}

TEST_CASE("task_buffers: all_to_all, even and not") {
  for (const Split split : {Split::even, Split::by_expert, Split::from_expert}) {
    World world(Operation::all_to_all, 40'000, split);
    for (std::uint32_t from = 0; from < kRanks; ++from) {
      for (std::uint32_t to = 0; to < kRanks; ++to) {
        const Block& source = world.ranks[from].to()[to];
        const Block& target = world.ranks[to].from()[from];
        REQUIRE(source.bytes == target.bytes);
        std::memcpy(world.out(to) + target.offset, world.in(from) + source.offset, source.bytes);
      }
    }
    world.check_right();
    // A changed input is wrong too.
    world.in(3)[17] ^= std::byte{1};
    CHECK(world.wrong(3));
  }
}

TEST_CASE("task_buffers: broadcast") {
  World world(Operation::broadcast, 40'000);
  CHECK_FALSE(world.wrong(0));
  CHECK(world.wrong(1));
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
    std::memcpy(world.out(rank), world.in(0), world.bytes());
  }
  world.check_right();
}

TEST_CASE("task_buffers: shifts have no neighbour beyond the ends") {
  World next(Operation::shift_next, 40'000);
  CHECK_FALSE(next.ranks[0].origin());
  CHECK_FALSE(next.ranks[kRanks - 1].target());
  for (std::uint32_t rank = 1; rank < kRanks; ++rank) {
    REQUIRE(next.ranks[rank].origin() == rank - 1);
    std::memcpy(next.out(rank), next.in(rank - 1), next.bytes());
  }
  next.check_right();
  World prev(Operation::shift_prev, 40'000);
  CHECK_FALSE(prev.ranks[0].target());
  for (std::uint32_t rank = 0; rank + 1 < kRanks; ++rank) {
    REQUIRE(prev.ranks[rank].origin() == rank + 1);
    std::memcpy(prev.out(rank), prev.in(rank + 1), prev.bytes());
  }
  prev.check_right();
  std::memcpy(prev.out(0), prev.in(2), prev.bytes());  // one rank too far
  CHECK(prev.wrong(0));
}

// Copies what a perfect engine would, and nothing into `unserved`.
void move_transfers(World& world, std::uint32_t unserved) {
  for (std::uint32_t from = 0; from < kRanks; ++from) {
    for (const Transfer& transfer : world.ranks[from].transfers().outgoing) {
      if (transfer.member == unserved) continue;
      std::memcpy(world.out(transfer.member) + transfer.remote_offset,
                  world.in(from) + transfer.own_offset, transfer.bytes);
    }
  }
}

TEST_CASE("task_buffers: puts, gets, dispatch and combine") {
  for (const Operation operation :
       {Operation::put, Operation::get, Operation::dispatch, Operation::combine}) {
    INFO(to_string(operation));
    World world(operation, 40'000);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const auto window = world.ranks[rank].window();
      CHECK(window.data() == world.arenas[rank]->first_buffer());
      CHECK(window.data() == (operation == Operation::get ? world.in(rank) : world.out(rank)));
    }
    move_transfers(world, kRanks - 1);
    CHECK(world.wrong(kRanks - 1));
    CHECK_FALSE(world.wrong(0));
    move_transfers(world, kRanks);
    world.check_right();
    world.in(3)[17] ^= std::byte{1};  // a changed source is wrong too
    CHECK(world.wrong(3));
    // Filled for a repetition of the step: the right results of the first time are gone.
    world.ranks[0].fill();
    CHECK(world.wrong(0));
  }
}

TEST_CASE("task_buffers: the words of atomics") {
  World world(Operation::atomics, 40'000);
  const TaskBuffers& owner = world.ranks[1];
  const std::uint64_t count = atomics_to_each(owner.task(), kRanks);
  CHECK(world.wrong(1));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const auto records = world.ranks[rank].fetched_from(1);
    const auto steps = draw_steps(owner.key(), rank, 1, owner.task().words, count);
    REQUIRE(records.size() == count);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t& word = owner.words()[steps[i].word];
      records[i] = {word, word};  // each swap is right about the word
      if (steps[i].action == WordAction::plain_add) records[i] = {};
      word += unit_of(steps[i].action);
    }
    std::memcpy(world.out(1) + rank * records.size_bytes(), records.data(), records.size_bytes());
  }
  CHECK_FALSE(world.wrong(1));
  owner.words()[0] += unit_of(WordAction::plain_add);
  CHECK(world.wrong(1));
}

TEST_CASE("task_buffers: the next step's contents differ") {
  World world(Operation::all_gather, 40'000);
  const Task& task = world.schedule.step[0];
  BufferArena arena(TaskBuffers::footprint(task, world.schedule.layout));
  TaskBuffers next(task, world.schedule.layout, 0, kSeed, kStep + 1, arena);
  next.fill();
  CHECK(std::memcmp(next.in().data(), world.in(0), world.bytes() / kRanks) != 0);
}

}  // namespace
}  // namespace hawser::tool
