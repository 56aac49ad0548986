// SPDX-License-Identifier: Apache-2.0
// A training run as each of its ranks sees it: computing, collectives within groups of ranks, and
// messages between the stages of a pipeline. Readers of workload files make it (sim/input/), and
// training() makes a connection matrix of it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

// The ranks that form a group: they differ in these coordinates, and agree in the others.
enum class Axis : std::uint8_t {
  tensor,          // of a layer's parts
  data,            // ranks that have the same part of the model
  expert,          // neighbours along data, which have experts of a layer each
  data_of_expert,  // ranks along data that have the same experts
  expert_tensor,   // tensor and expert
  pipeline,        // all stages
  embedding,       // the first stage and the last
  all,
};

struct Operation {
  enum class What : std::uint8_t {
    compute,     // for `span`
    collective,  // of `axis`
    send,        // to the same rank of the next stage, or of the one before
    receive,     // likewise; sends and receives that follow each other go on together
    join,        // waits until all that was begun `beside` is over
  };
  // The pass of a layer that the operation belongs to, if the file lists layers.
  enum class Pass : std::uint8_t { none, forward, input_gradient, weight_gradient };
  What what = What::compute;
  Pass pass = Pass::none;
  Axis axis = Axis::all;
  Collective collective = Collective::none;
  bool beside = false;   // what follows doesn't wait, except others of its axis beside
  bool next = true;      // of send and receive
  bool to_root = false;  // for an all-reduce: only `root` gets the result
  Span span{};
  std::uint64_t bytes = 0;  // of the whole at each rank (sim/traffic/collectives.hpp)
  std::uint32_t root = 0;   // of a broadcast, or of a collective towards a root, within its group
  std::uint32_t line = 0;   // of the file
};

struct Workload {
  std::uint32_t ranks = 0;   // 0: the file doesn't say, as in the next two
  std::uint32_t tensor = 0;  // group sizes
  std::uint32_t expert = 0;
  std::vector<std::vector<Operation>> stages;  // of the pipeline; at least one
};

// The part of a file that is carried out.
struct Cut {
  std::uint32_t layers = 0;      // only this many layers, or operations of an iteration; 0: all
  std::uint32_t iterations = 1;  // at least 1
};

}  // namespace hawser::fabric
