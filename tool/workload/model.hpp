// SPDX-License-Identifier: Apache-2.0
// A workload: the collectives that a training job issues, in order, without their computation.
//
// `init` runs once, then `step` runs as often as the user asks. Every rank runs the same list (the
// program is SPMD). A phase names a kind of group, and every rank takes part in its own group of
// that kind. The code in groups.hpp decides which groups the kinds mean for N ranks.
//
// The bytes of a phase, per rank, before `--scale`:
//   `all_reduce`, `reduce`, `broadcast`   the tensor;
//   `all_gather`, `gather`                the gathered result;
//   `reduce_scatter`, `scatter`           the input that is divided;
//   `all_to_all`, `dispatch`, `combine`   all that one rank sends;
//   `put`, `get`                          all that one rank writes, or reads;
//   `atomics`                             8 for each operation of a rank;
//   `shift_*`                             the message;
//   `barrier`                             0.
// This is the meaning of msg_size in AICB's files (its own replayer divides by the group in the
// same places).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/collectives.hpp"

namespace hawser::tool {

using coll::DataType;

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,  // from the first rank of the group
  reduce,     // to the first rank of the group
  gather,     // to the first rank of the group
  scatter,    // from the first rank of the group
  barrier,
  shift_next,  // every rank sends to the next of its group; the ends have no neighbour beyond
  shift_prev,
  // On the memory of peers (hawser/one_sided.hpp).
  put,       // writes with a signal each, to every rank of the group
  get,       // reads from every rank of the group
  atomics,   // sums and swaps on words of every rank of the group
  dispatch,  // tokens to the ranks of their experts: a write with a signal for each expert
  combine,   // the answers to a dispatch of the same `pair`, back to the ranks of the tokens
};
[[nodiscard]] constexpr bool is_one_sided(Operation operation) {
  return operation >= Operation::put;
}

[[nodiscard]] constexpr bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::reduce;
}
// Whether the group divides the buffer among its members, so that its size is a multiple of theirs.
[[nodiscard]] constexpr bool is_divided(Operation operation) {
  switch (operation) {
    case Operation::reduce_scatter:
    case Operation::all_gather:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter:
    case Operation::put:
    case Operation::get: return true;
    default: return false;
  }
}

enum class GroupKind : std::uint8_t {
  world,          // all ranks
  tensor,         // tensor parallel: neighbours, as inside a host
  data,           // data parallel: same place in different replicas
  expert,         // expert parallel
  expert_data,    // data parallel among replicas of the same experts
  expert_tensor,  // all ranks of an expert group's tensor groups
  pipeline,       // pipeline stages
  pipeline_ends,  // first and last stage, which share an embedding
};
inline constexpr std::size_t kGroupKinds = 8;

// How the bytes of an all_to_all are split among the ranks of a group.
enum class Split : std::uint8_t {
  even,
  by_expert,    // some ranks hold popular experts: uneven, drawn from the seed for each step
  from_expert,  // the answers to a by_expert phase of the same `pair`: its transpose
};

// Where the result of a collective goes.
enum class Place : std::uint8_t {
  as_usual,  // all_to_all and shift_*: to another buffer; all others: in place
  in_place,
  out_of_place,
};

struct Phase {
  Operation operation = Operation::all_reduce;
  GroupKind group = GroupKind::world;
  DataType type = DataType::f32;
  Split split = Split::even;
  Place place = Place::as_usual;
  std::uint32_t pair = 0;  // by_expert and from_expert phases of one pair have one split, and so
                           // have dispatch and combine
  std::uint64_t bytes = 0;
  std::uint64_t block_bytes = 0;  // put, get: the most that one operation moves
  std::uint32_t words = 0;        // atomics: of each rank
  std::uint32_t experts = 0;      // dispatch, combine: of the whole group
  std::string stage;              // for people: "layer 3 attention", "bucket 0"
};

// Sizes of the groups as the workload states them; 0 means that it does not say.
struct GroupSizes {
  std::array<std::uint64_t, kGroupKinds> of{};
  [[nodiscard]] std::uint64_t& operator[](GroupKind kind) {
    return of[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::uint64_t operator[](GroupKind kind) const {
    return of[static_cast<std::size_t>(kind)];
  }
};

struct Workload {
  std::string name;
  GroupSizes sizes{};
  std::vector<Phase> init;
  std::vector<Phase> step;
  std::vector<std::string> warnings;  // where the file may have meant something else
};

[[nodiscard]] constexpr std::uint64_t bytes_of(DataType type) { return coll::size_of(type); }

[[nodiscard]] constexpr std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::all_reduce: return "all_reduce";
    case Operation::reduce_scatter: return "reduce_scatter";
    case Operation::all_gather: return "all_gather";
    case Operation::all_to_all: return "all_to_all";
    case Operation::broadcast: return "broadcast";
    case Operation::reduce: return "reduce";
    case Operation::gather: return "gather";
    case Operation::scatter: return "scatter";
    case Operation::barrier: return "barrier";
    case Operation::shift_next: return "shift_next";
    case Operation::shift_prev: return "shift_prev";
    case Operation::put: return "put";
    case Operation::get: return "get";
    case Operation::atomics: return "atomics";
    case Operation::dispatch: return "dispatch";
    case Operation::combine: return "combine";
  }
  return "?";
}

[[nodiscard]] constexpr std::string_view to_string(GroupKind kind) {
  switch (kind) {
    case GroupKind::world: return "world";
    case GroupKind::tensor: return "tensor";
    case GroupKind::data: return "data";
    case GroupKind::expert: return "expert";
    case GroupKind::expert_data: return "expert_data";
    case GroupKind::expert_tensor: return "expert_tensor";
    case GroupKind::pipeline: return "pipeline";
    case GroupKind::pipeline_ends: return "pipeline_ends";
  }
  return "?";
}

}  // namespace hawser::tool
