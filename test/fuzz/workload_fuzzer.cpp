// SPDX-License-Identifier: Apache-2.0
// Feeds text to the readers of workloads. The first byte gives the number of ranks and the scale at
// which the workload is laid out; the rest is the file. A refusal names the file and one of its
// lines. An accepted workload is within the limits: phases, bytes, groups, buffers. Its tasks can
// be batched for any budget, and it reads the same twice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/assert.hpp"
#include "sim/input/text.hpp"
#include "tool/error.hpp"
#include "tool/run/schedule.hpp"
#include "tool/workload/builtin.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint32_t kMostRanks = 64;

// Lines end with LF, CR LF or CR.
std::size_t lines_of(std::string_view text) {
  return 1 +
         static_cast<std::size_t>(std::ranges::count(text, '\n') + std::ranges::count(text, '\r'));
}

void check_refusal(std::string_view what, std::string_view text) {
  HAWSER_ASSERT(what.starts_with("job:"), "a refusal that doesn't name the file");
  what.remove_prefix(4);
  std::size_t line = 0;
  std::size_t digits = 0;
  while (digits < what.size() && what[digits] >= '0' && what[digits] <= '9') {
    line = line * 10 + static_cast<std::size_t>(what[digits++] - '0');
  }
  HAWSER_ASSERT(digits > 0 && what.substr(digits).starts_with(": "), "or not the line");
  HAWSER_ASSERT(line >= 1 && line <= lines_of(text) + 1, "or one that is not there");
  for (const char c : what) HAWSER_ASSERT(c >= ' ' && c <= '~', "or prints what it was given");
}

void check_phases(const Workload& workload) {
  HAWSER_ASSERT(!workload.step.empty());
  for (const auto* phases : {&workload.init, &workload.step}) {
    for (const Phase& phase : *phases) {
      HAWSER_ASSERT(phase.bytes <= kMaxPhaseBytes && phase.stage.size() <= 130);
    }
  }
}

void check_schedule(const Workload& workload, std::uint32_t ranks, std::uint64_t scale) {
  const Schedule schedule = make_schedule(workload, ranks, scale);
  std::uint64_t largest = 0;
  for (const auto* tasks : {&schedule.init, &schedule.step}) {
    for (const Task& task : *tasks) {
      const GroupShape& shape = schedule.layout[task.group];
      HAWSER_ASSERT(shape.size >= 1 && ranks % shape.size == 0, "a group that doesn't fit");
      const std::uint64_t bytes = buffer_bytes(task, schedule.layout);
      HAWSER_ASSERT(task.operation == Operation::barrier || bytes >= task.bytes(),
                    "a buffer's size that has overflowed");
      largest = bytes > largest ? bytes : largest;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        HAWSER_ASSERT(schedule.layout.index_in_group(task.group, rank) < shape.size);
      }
    }
    std::size_t batched = 0;
    for (const auto& batch : make_batches(*tasks, schedule.layout, std::uint64_t{1} << 20)) {
      HAWSER_ASSERT(!batch.empty());
      batched += batch.size();
    }
    HAWSER_ASSERT(batched == tasks->size(), "a task in no batch, or in two");
  }
  HAWSER_ASSERT(largest_buffer_bytes(schedule) == largest);
}

bool is_same(const std::vector<Phase>& a, const std::vector<Phase>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].operation != b[i].operation || a[i].group != b[i].group || a[i].bytes != b[i].bytes ||
        a[i].stage != b[i].stage) {
      return false;
    }
  }
  return true;
}

void check(std::uint8_t mode, std::string_view text) {
  Workload workload;
  try {
    workload = parse_workload("job", text);
  } catch (const InputError& error) {
    return check_refusal(error.what(), text);
  }
  check_phases(workload);
  // Other line endings and blank lines at the end change nothing.
  const fabric::Text lines("job", text);
  std::string other;
  for (std::size_t line = 1; line <= lines.lines(); ++line) {
    other.append(lines.line(line)).append("\r\n");
  }
  const Workload again = parse_workload("job", other);
  HAWSER_ASSERT(is_same(workload.init, again.init) && is_same(workload.step, again.step),
                "it reads otherwise the second time");
  try {
    check_schedule(workload, 1 + mode % kMostRanks, std::uint64_t{1} << (mode >> 6) * 4);
  } catch (const InputError&) {  // too many ranks for its sums, or nothing left to do
  }
}

}  // namespace
}  // namespace hawser::tool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The copy is exactly as large as the text, so that a sanitizer notices a read beyond it.
  const std::string text(data + 1, data + size);
  hawser::tool::check(data[0], std::string_view(text.data(), text.size()));
  return 0;
}
