// SPDX-License-Identifier: Apache-2.0
// Workloads of ASTRA-sim 1.0 and SimAI, from their text files.
//
//   HYBRID_TRANSFORMER model_parallel_NPU_group: 8     how it is parallel, and sizes of groups
//   92                                                 layers; then, of each one:
//   name -1 FORWARD TYPE BYTES INPUT TYPE BYTES WEIGHT TYPE BYTES UPDATE
//
// FORWARD, INPUT (gradient), WEIGHT (gradient) and UPDATE are times in ns. TYPE is NONE, ALLREDUCE,
// ALLGATHER, REDUCESCATTER, ALLTOALL or BROADCAST of so many BYTES, with _EP or _DP_EP for expert
// groups. A layer of HYBRID_CUSTOMIZED names its own parallelism at its end. The second field, a
// dependency, means nothing: ASTRA-sim reads it and goes by the order, and so does this reader.
// BYTES of NONE mean nothing either. The reader warns about parts that it leaves out or reads
// differently.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/traffic/workload.hpp"

namespace hawser::fabric {

struct LayerWork {
  Span compute{};
  Axis axis = Axis::all;
  Collective collective = Collective::none;
  std::uint64_t bytes = 0;
};

struct Layer {
  std::string name;
  LayerWork forward, input_gradient, weight_gradient;
  Span update{};
  bool is_checkpoint = false;  // its input is kept
  bool begins_again = false;   // before its backward pass, the layers from the checkpoint on are
                               // computed forward again
  std::uint32_t line = 0;
};

struct TextWorkload {
  std::uint32_t ranks = 0;  // 0: the file doesn't say, as in the next two
  std::uint32_t tensor = 0;
  std::uint32_t expert = 0;
  std::uint32_t stages = 1;
  std::uint64_t stage_bytes = 0;  // between stages, in a pass
  std::vector<Layer> layers;
  std::vector<std::string> warnings;  // "FILE:LINE: ..."
};

// Throws InputError with file, line, field and what to do.
[[nodiscard]] TextWorkload read_text_workload(const std::string& name, std::string_view content);

// Iterations of a forward pass over the layers and a backward pass. The backward pass has input
// gradients and their collectives, then weight gradients, whose collectives go on in the background
// until the iteration's end. All stages do the same; a pass begins when that of the stage before is
// over (these files don't distinguish micro-batches). `stages` replaces the file's number unless it
// is 0.
[[nodiscard]] Workload workload_of(const TextWorkload& text, const Cut& cut,
                                   std::uint32_t stages = 0);

}  // namespace hawser::fabric
