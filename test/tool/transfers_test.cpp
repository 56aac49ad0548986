// SPDX-License-Identifier: Apache-2.0
#include "tool/run/transfers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tool/workload/builtin.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kSeed = 3;

// All ranks' transfers of one task in one step.
struct World {
  std::vector<Transfers> ranks;

  World(const Task& task, std::uint32_t size, std::uint32_t step) {
    for (std::uint32_t index = 0; index < size; ++index) {
      ranks.push_back(make_transfers(task, size, index, kSeed, step, 0));
    }
  }
};

void check_no_overlap(std::vector<Transfer> transfers, std::uint64_t bytes) {
  std::ranges::sort(transfers, {}, &Transfer::own_offset);
  std::uint64_t end = 0;
  for (const Transfer& transfer : transfers) {
    CHECK(transfer.own_offset == end);
    end += transfer.bytes;
  }
  CHECK(end == bytes);
}

// Each transfer that one rank sends is one that another rank expects.
void check_agreement(const World& world) {
  const auto size = static_cast<std::uint32_t>(world.ranks.size());
  std::size_t outgoing = 0;
  std::size_t incoming = 0;
  for (std::uint32_t from = 0; from < size; ++from) {
    check_no_overlap(world.ranks[from].outgoing, world.ranks[from].source_bytes);
    check_no_overlap(world.ranks[from].incoming, world.ranks[from].result_bytes);
    outgoing += world.ranks[from].outgoing.size();
    incoming += world.ranks[from].incoming.size();
    for (const Transfer& sent : world.ranks[from].outgoing) {
      const auto& expected = world.ranks[sent.member].incoming;
      CHECK(std::ranges::count_if(expected, [&](const Transfer& one) {
              return one.member == from && one.own_offset == sent.remote_offset &&
                     one.remote_offset == sent.own_offset && one.bytes == sent.bytes &&
                     one.first == sent.first;
            }) == 1);
    }
  }
  CHECK(outgoing == incoming);
}

TEST_CASE("transfers: senders and receivers agree, in every workload and for any ranks") {
  for (const auto& make : {put_workload, get_workload, dispatch_workload}) {
    for (const std::uint32_t ranks : {1u, 2u, 3u, 5u, 8u, 12u}) {
      const Schedule schedule = make_schedule(make(), ranks, 300);
      for (const std::size_t number : {0u, 1u}) {
        const Task& task = schedule.step[number];
        const std::uint32_t size = schedule.layout[task.group].size;
        for (std::uint32_t step = 0; step < 3; ++step) {
          INFO(task.stage << ", " << ranks << " ranks, step " << step);
          const World world(task, size, step);
          check_agreement(world);
          for (const Transfers& one : world.ranks) {
            const bool reads = task.operation == Operation::get;
            CHECK((reads ? one.source_bytes : one.result_bytes) <=
                  window_bytes(task, schedule.layout));
            CHECK(one.source_bytes + one.result_bytes <= buffer_bytes(task, schedule.layout));
          }
        }
      }
    }
  }
}

TEST_CASE("transfers: tokens are whole, uneven, several blocks a rank, and come back") {
  const Schedule schedule = make_schedule(dispatch_workload(), 4, 64);
  const Task& dispatch = schedule.step[0];
  const Task& combine = schedule.step[1];
  REQUIRE(dispatch.operation == Operation::dispatch);
  REQUIRE(combine.operation == Operation::combine);
  bool is_uneven = false;
  for (std::uint32_t step = 0; step < 10; ++step) {
    const World there(dispatch, 4, step);
    const World back(combine, 4, step);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      CHECK(there.ranks[rank].source_bytes == dispatch.bytes());
      CHECK(there.ranks[rank].outgoing.size() == dispatch.experts);
      CHECK(there.ranks[rank].result_bytes == back.ranks[rank].source_bytes);
      CHECK(back.ranks[rank].result_bytes == dispatch.bytes());
      is_uneven = is_uneven || there.ranks[rank].result_bytes > dispatch.bytes() * 9 / 8;
    }
  }
  CHECK(is_uneven);
  const World first(dispatch, 4, 0);
  const World second(dispatch, 4, 1);
  CHECK(first.ranks[0].outgoing[0].bytes != second.ranks[0].outgoing[0].bytes);
}

TEST_CASE("transfers: every expert has an owner, and owners are in order") {
  Task task;
  task.experts = 8;
  for (const std::uint32_t size : {1u, 2u, 3u, 5u, 8u}) {
    std::uint32_t before = 0;
    for (std::uint32_t expert = 0; expert < task.experts; ++expert) {
      const std::uint32_t owner = member_of_expert(task, size, expert);
      CHECK(owner < size);
      CHECK(owner >= before);
      before = owner;
    }
    CHECK(before == size - 1);
  }
}

TEST_CASE("transfers: blocks of a put cover it") {
  Task task;
  task.block_bytes = 100;
  CHECK(operations_of(task, {0, 0, 0, 1, 0}) == 1);
  CHECK(operations_of(task, {0, 0, 0, 100, 0}) == 1);
  CHECK(operations_of(task, {0, 0, 0, 101, 0}) == 2);
  task.block_bytes = 0;
  CHECK(operations_of(task, {0, 0, 0, 101, 0}) == 1);
}

TEST_CASE("transfers: one-sided tasks stand alone in their batches") {
  Workload workload = put_workload();
  Phase other;
  other.bytes = 64;
  workload.step.insert(workload.step.begin() + 1, {other, other});
  const Schedule schedule = make_schedule(workload, 4, 1024);
  const auto batches = make_batches(schedule.step, schedule.layout, std::uint64_t{1} << 40);
  REQUIRE(batches.size() == 5);
  CHECK(batches[0].size() == 1);
  CHECK(batches[1].size() == 2);
  CHECK(largest_window_bytes(schedule) == schedule.step.back().bytes());
}

}  // namespace
}  // namespace hawser::tool
