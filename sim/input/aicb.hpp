// SPDX-License-Identifier: Apache-2.0
// Workloads as AICB writes them down call by call (.csv):
//
//   [rank0 ~ rank127]                                  whose calls follow: all ranks, or a stage's,
//                                                      "[ pp_stage1: [rank16, rank17] ]"
//   comm_type,comm_group,comm_group_size,msg_size,...  what the columns are
//   CommType.all_reduce,CommGroup.dp_group,16,8,...    a call
//   CommType.epoch_end,None,None,0,...                 an iteration is over
//
// Calls are blocking, except that an isend and an irecv next to each other go on together. The part
// before the first of several epoch_ends is set-up or warm-up. `count` says how often a call is
// made; if it is missing (None, nan, -1 or nothing), once. The reader ignores columns of measured
// times and calls of computation: such a file doesn't say how long computing takes. AICB separates
// the fields by commas and quotes none, not even the nested lists in msg_size of a computation.
//
// Spreadsheet programs and pandas quote fields, separate them by semicolons or tabs, reorder the
// columns, add a first one without a name, and fill up rows with separators. The reader accepts all
// of that. Lines that begin with '#' are comments.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/traffic/workload.hpp"

namespace hawser::fabric {

struct AicbCall {
  Operation operation;
  std::uint32_t count = 1;  // this many calls one after the other
};

struct AicbWorkload {
  std::uint32_t ranks = 0;  // 0: the file doesn't say, as in the next two
  std::uint32_t tensor = 0;
  std::uint32_t expert = 0;
  std::map<Axis, std::uint32_t> sizes;  // of the groups whose size the file says
  // For each stage its iterations, and for each iteration its calls.
  std::vector<std::vector<std::vector<AicbCall>>> stages;
  // The values of the column `stage`, by Operation::line.
  std::unordered_map<std::uint32_t, std::string> names;
  std::vector<std::string> warnings;  // "FILE:LINE: ..."
};

// Whether the file is of this kind: its first line with content names ranks or columns. Throws
// InputError if it has none.
[[nodiscard]] bool is_aicb(const std::string& name, std::string_view content);

// Throws InputError with file, line, field and what to do; also if the sizes of one group
// contradict each other. A size that does not fit the ranks is a warning.
[[nodiscard]] AicbWorkload read_aicb(const std::string& name, std::string_view content);

// The iterations after the set-up, if there are any, and of each the first `cut.layers` calls. If
// `cut` asks for more iterations than the file has, they repeat.
[[nodiscard]] Workload workload_of(const AicbWorkload& aicb, const Cut& cut);

}  // namespace hawser::fabric
