// SPDX-License-Identifier: Apache-2.0
// Workloads built in, computed from the published shapes of the models.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tool/workload/model.hpp"

namespace hawser::tool {

// A parameter tensor's bytes, in the order in which the module registers it.
using TensorBytes = std::vector<std::uint64_t>;

// The 148 parameter tensors of GPT-2 124M in f32 (the output head shares the token embedding).
[[nodiscard]] TensorBytes gpt2_tensors();

// The buckets of PyTorch's DistributedDataParallel. It adds tensors in the reverse of their order
// of registration to a bucket until that has reached its limit. The first bucket's limit is 1 MiB,
// so that the first all-reduce starts early; the others' is 25 MiB. Returns the bytes of each
// bucket, in the order in which they are issued.
[[nodiscard]] std::vector<std::uint64_t> ddp_buckets(std::span<const std::uint64_t> tensors);

// GPT-2 124M, data parallel over all ranks: one all-reduce per gradient bucket.
[[nodiscard]] Workload gpt2_workload();

// Llama-2 7B, tensor parallel over all ranks: the all-reduces of one micro-batch.
[[nodiscard]] Workload llama_workload();

// Mixtral 8x7B, expert parallel over 8 ranks: tokens to their experts and back, uneven.
[[nodiscard]] Workload mixtral_workload();

// One-sided operations on the memory of all other ranks, in blocks of several sizes.
[[nodiscard]] Workload put_workload();
[[nodiscard]] Workload get_workload();
// Atomics of all ranks on one word of each rank, and on many.
[[nodiscard]] Workload atomics_workload();
// Mixtral 8x7B as mixtral_workload(), by one-sided operations.
[[nodiscard]] Workload dispatch_workload();

struct BuiltinWorkload {
  std::string_view name;
  std::string_view text;
  Workload (*make)();
};
[[nodiscard]] std::span<const BuiltinWorkload> builtin_workloads();

}  // namespace hawser::tool
