// SPDX-License-Identifier: Apache-2.0
// The checker against collectives done by hand: all ranks' buffers lie in one process, moved and
// added with plain loops. Then the same with one mistake, which the checker must find.
#include "tool/check/task_buffers.hpp"

#include <algorithm>
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

  World(Operation operation, std::uint64_t bytes, Split split = Split::even,
        Place place = Place::as_usual) {
    Workload workload;
    Phase phase;
    phase.operation = operation;
    phase.bytes = bytes;
    phase.split = split;
    phase.place = place;
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

constexpr Place kPlaces[] = {Place::in_place, Place::out_of_place};

TEST_CASE("task_buffers: all_reduce") {
  for (const Place place : kPlaces) {
    World world(Operation::all_reduce, 40'000, Split::even, place);
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
    world.in(1)[7] ^= std::byte{1};
    CHECK(world.wrong(1));
  }
}

TEST_CASE("task_buffers: reduce, and the input of the ranks that get nothing") {
  for (const Place place : kPlaces) {
    World world(Operation::reduce, 40'000, Split::even, place);
    CHECK(world.wrong(0));
    const std::vector<float> sum = sum_of(world);
    std::memcpy(world.out(0), sum.data(), world.bytes());
    world.check_right();
    CHECK(world.ranks[1].out().empty() == (place == Place::out_of_place));
    world.in(1)[7] ^= std::byte{1};
    CHECK(world.wrong(1));
  }
}

TEST_CASE("task_buffers: reduce_scatter") {
  for (const Place place : kPlaces) {
    World world(Operation::reduce_scatter, 40'000, Split::even, place);
    const std::vector<float> sum = sum_of(world);
    const std::uint64_t block = world.bytes() / kRanks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      CHECK(world.wrong(rank));
      REQUIRE(world.ranks[rank].out().size() == block);
      CHECK((world.out(rank) == world.in(rank) + rank * block) == (place == Place::in_place));
      std::memcpy(world.out(rank), sum.data() + rank * block / 4, block);
    }
    world.check_right();
    CHECK(world.ranks[0].verify().bytes == block);
    world.out(2)[0] ^= std::byte{1};
    CHECK(world.wrong(2));
    // The other blocks of the input stay as they were.
    world.in(1)[block - 1] ^= std::byte{1};
    world.in(3)[3 * block - 1] ^= std::byte{1};
    CHECK(world.wrong(1));
    CHECK(world.wrong(3));
  }
}

TEST_CASE("task_buffers: all_gather and gather") {
  for (const Operation operation : {Operation::all_gather, Operation::gather}) {
    for (const Place place : kPlaces) {
      World world(operation, 40'000, Split::even, place);
      const std::uint64_t block = world.bytes();
      REQUIRE(block == 10'000);
      const std::uint32_t receivers = operation == Operation::gather ? 1 : kRanks;
      for (std::uint32_t to = 0; to < receivers; ++to) {
        CHECK(world.wrong(to));
        for (std::uint32_t from = 0; from < kRanks; ++from) {
          std::memmove(world.out(to) + from * block, world.in(from), block);
        }
      }
      world.check_right();
      world.in(3)[5] ^= std::byte{1};
      CHECK(world.wrong(3));
      std::swap(world.out(0)[0], world.out(0)[block]);
      CHECK(world.wrong(0));
      // Filled for a repetition of the step: the right results of the first time are gone.
      world.ranks[0].fill();
      CHECK(world.wrong(0));
    }
  }
}

TEST_CASE("task_buffers: scatter") {
  for (const Place place : kPlaces) {
    World world(Operation::scatter, 40'000, Split::even, place);
    constexpr std::uint64_t kBlock = 10'000;
    CHECK(world.ranks[1].in().empty());
    CHECK(world.wrong(1));
    for (std::uint32_t to = 0; to < kRanks; ++to) {
      REQUIRE(world.ranks[to].out().size() == kBlock);
      std::memmove(world.out(to), world.in(0) + to * kBlock, kBlock);
    }
    world.check_right();
    world.in(0)[2 * kBlock] ^= std::byte{1};
    CHECK(world.wrong(0));
    std::swap(world.out(3)[1], world.out(3)[2]);
    CHECK(world.wrong(3));
  }
}

TEST_CASE("task_buffers: all_to_all in place") {
  World world(Operation::all_to_all, 40'000, Split::even, Place::in_place);
  for (std::uint32_t low = 0; low < kRanks; ++low) {
    CHECK(world.out(low) == world.in(low));
    CHECK(world.wrong(low));
  }
  for (std::uint32_t low = 0; low < kRanks; ++low) {
    for (std::uint32_t high = low + 1; high < kRanks; ++high) {
      std::byte* const of_low = world.out(low) + high * 10'000;
      std::swap_ranges(of_low, of_low + 10'000, world.out(high) + low * 10'000);
    }
  }
  world.check_right();
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
  CHECK(std::memcmp(next.in().data(), world.in(0), world.bytes()) != 0);
}

}  // namespace
}  // namespace hawser::tool
