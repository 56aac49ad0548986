// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tool/check/task_buffers.hpp"
#include "tool/error.hpp"
#include "tool/run/schedule.hpp"
#include "tool/workload/builtin.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

Workload one_phase(Operation operation, std::uint64_t bytes, DataType type = DataType::bf16) {
  Workload workload;
  Phase phase;
  phase.operation = operation;
  phase.bytes = bytes;
  phase.type = type;
  workload.step.push_back(phase);
  return workload;
}

TEST_CASE("schedule: sizes round up to elements, and to the group where it is divided") {
  CHECK(make_schedule(one_phase(Operation::all_reduce, 7), 3, 1).step[0].elements == 4);
  CHECK(make_schedule(one_phase(Operation::all_gather, 7), 3, 1).step[0].elements == 6);
  CHECK(make_schedule(one_phase(Operation::reduce_scatter, 1), 3, 1).step[0].elements == 3);
  CHECK(make_schedule(one_phase(Operation::all_reduce, 1000), 3, 10).step[0].elements == 50);
  CHECK(make_schedule(one_phase(Operation::all_reduce, 1000), 3, 1 << 20).step[0].elements == 1);
  CHECK(make_schedule(one_phase(Operation::barrier, 0), 3, 1).step[0].elements == 0);
}

TEST_CASE("schedule: groups of one have nothing to do, unless they are the job") {
  Workload tensor = one_phase(Operation::all_reduce, 64);
  tensor.step[0].group = GroupKind::tensor;
  tensor.sizes[GroupKind::tensor] = 1;
  CHECK_THROWS_AS(make_schedule(tensor, 2, 1), InputError);
  CHECK(make_schedule(tensor, 1, 1).step.size() == 1);
  CHECK(make_schedule(gpt2_workload(), 1, 1).step.size() == 13);
}

TEST_CASE("schedule: a result out of place takes a buffer of its own") {
  const auto bytes_of_buffers = [](Operation operation, Place place) {
    Workload workload = one_phase(operation, 4000);
    workload.step[0].place = place;
    const Schedule schedule = make_schedule(workload, 4, 1);
    CHECK(schedule.step[0].is_in_place() == (place == Place::in_place));
    return buffer_bytes(schedule.step[0], schedule.layout);
  };
  for (const Operation operation :
       {Operation::all_reduce, Operation::reduce, Operation::all_to_all}) {
    CHECK(bytes_of_buffers(operation, Place::in_place) == 4000);
    CHECK(bytes_of_buffers(operation, Place::out_of_place) == 8000);
  }
  for (const Operation operation :
       {Operation::reduce_scatter, Operation::all_gather, Operation::gather, Operation::scatter}) {
    CHECK(bytes_of_buffers(operation, Place::in_place) == 4000);
    CHECK(bytes_of_buffers(operation, Place::out_of_place) == 5000);
  }
}

TEST_CASE("schedule: batches keep the order and the budget") {
  const Schedule schedule = make_schedule(gpt2_workload(), 8, 1);
  for (const std::uint64_t budget : {1ull, 30'000'000ull, 100'000'000ull, 1'000'000'000ull}) {
    std::uint32_t next = 0;
    for (const std::span<const Task> batch : make_batches(schedule.step, schedule.layout, budget)) {
      REQUIRE_FALSE(batch.empty());
      std::uint64_t bytes = 0;
      for (const Task& task : batch) {
        CHECK(task.index == next++);
        bytes += buffer_bytes(task, schedule.layout);
      }
      CHECK((bytes <= budget || batch.size() == 1));
    }
    CHECK(next == schedule.step.size());
  }
  CHECK(make_batches(schedule.step, schedule.layout, 1'000'000'000).size() == 1);
  // The guards of small buffers take more than the buffers.
  for (const Task& task : schedule.step) {
    CHECK(TaskBuffers::footprint(task, schedule.layout) <=
          buffer_bytes(task, schedule.layout) + kGuardsOfTask);
  }
  CHECK(largest_buffer_bytes(schedule) == 176'446'464);
}

TEST_CASE(
    "schedule: an expert's buffer has room for four times an even share, of the largest too") {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, kMaxPhaseBytes}) {
    Workload workload = one_phase(Operation::all_to_all, bytes);
    workload.step[0].split = Split::by_expert;
    for (const std::uint32_t ranks : {2u, 16u, 1024u, 65536u}) {
      INFO(bytes << " bytes, " << ranks << " ranks");
      const Schedule schedule = make_schedule(workload, ranks, 1);
      const Task& task = schedule.step[0];
      const auto even = static_cast<double>(task.bytes());
      const double rounding = 2.0 * ranks * ranks;
      // The most popular expert has weight 4 beside `ranks` - 1 of weight 1.
      CHECK(static_cast<double>(buffer_bytes(task, schedule.layout)) ==
            Approx(even + even * ranks * 4 / (ranks + 3) + rounding));
    }
  }
}

TEST_CASE("schedule: splits are whole, uneven, and answered by their transpose") {
  const Schedule schedule = make_schedule(mixtral_workload(), 8, 64);
  const Task& dispatch = schedule.step[0];
  const Task& combine = schedule.step[1];
  bool uneven = false;
  for (std::uint32_t step = 0; step < 20; ++step) {
    const SplitTable there(dispatch, 8, 1, step, 0);
    const SplitTable back(combine, 8, 1, step, 0);
    std::uint64_t received = 0;
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      CHECK(there.sent(rank) == dispatch.elements);
      CHECK(back.received(rank) == dispatch.elements);
      CHECK(there.received(rank) == back.sent(rank));
      CHECK((there.sent(rank) + there.received(rank)) * 2 <=
            buffer_bytes(dispatch, schedule.layout));
      received += there.received(rank);
      uneven = uneven || there.received(rank) > dispatch.elements * 3 / 2;
      for (std::uint32_t other = 0; other < 8; ++other) {
        CHECK(there.elements(rank, other) == back.elements(other, rank));
        CHECK(there.elements(rank, other) > 0);
      }
    }
    CHECK(received == 8 * dispatch.elements);
  }
  CHECK(uneven);
  CHECK(SplitTable(dispatch, 8, 1, 0, 0).elements(0, 0) !=
        SplitTable(dispatch, 8, 2, 0, 0).elements(0, 0));
}

}  // namespace
}  // namespace hawser::tool
