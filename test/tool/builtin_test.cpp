// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <numeric>

#include "tool/workload/builtin.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("builtin: GPT-2 124M has 148 tensors of 124,439,808 parameters") {
  const TensorBytes tensors = gpt2_tensors();
  CHECK(tensors.size() == 148);
  CHECK(std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0}) == 4 * 124'439'808ull);
  CHECK(tensors[0] == 154'389'504);  // the token embedding, shared with the output head
}

TEST_CASE("builtin: buckets are those that PyTorch makes") {
  // torch 1.13.1: torch.distributed._compute_bucket_assignment_by_size(reversed parameters,
  // [_DEFAULT_FIRST_BUCKET_BYTES, 25 MiB]) gives these, in MB: 9.45, eleven of 28.35, 176.45.
  const std::vector<std::uint64_t> buckets = ddp_buckets(gpt2_tensors());
  REQUIRE(buckets.size() == 13);
  CHECK(buckets.front() == 9'446'400);
  for (std::size_t i = 1; i < 12; ++i) CHECK(buckets[i] == 28'351'488);
  CHECK(buckets.back() == 176'446'464);
}

TEST_CASE("builtin: a bucket closes with the tensor that reaches its limit") {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  CHECK(ddp_buckets(std::vector<std::uint64_t>{}).empty());
  // The buckets take the reversed list: 1 | 24 + 1 | 40 | 3
  CHECK(ddp_buckets(std::vector<std::uint64_t>{3 * kMiB, 40 * kMiB, kMiB, 24 * kMiB, kMiB}) ==
        std::vector<std::uint64_t>{kMiB, 25 * kMiB, 40 * kMiB, 3 * kMiB});
}

TEST_CASE("builtin: Llama-2 7B has two all-reduces a layer and direction") {
  const Workload workload = llama_workload();
  CHECK(workload.step.size() == 32 * 4 + 2);
  for (const Phase& phase : workload.step) {
    CHECK(phase.operation == Operation::all_reduce);
    CHECK(phase.bytes == 4096ull * 4096 * 2);
  }
}

TEST_CASE("builtin: Mixtral dispatches and combines by the same split") {
  const Workload workload = mixtral_workload();
  REQUIRE(workload.step.size() == 32 * 4);
  CHECK(workload.sizes[GroupKind::expert] == 8);
  for (std::size_t i = 0; i < workload.step.size(); i += 2) {
    CHECK(workload.step[i].split == Split::by_expert);
    CHECK(workload.step[i + 1].split == Split::from_expert);
    CHECK(workload.step[i].pair == workload.step[i + 1].pair);
    CHECK(workload.step[i].bytes == 64ull << 20);
  }
}

TEST_CASE("builtin: tokens are dispatched and combined as those of Mixtral") {
  const Workload moe = mixtral_workload();
  const Workload workload = dispatch_workload();
  REQUIRE(workload.step.size() == moe.step.size());
  for (std::size_t i = 0; i < workload.step.size(); ++i) {
    const Phase& phase = workload.step[i];
    CHECK(phase.operation == (i % 2 == 0 ? Operation::dispatch : Operation::combine));
    CHECK(phase.pair == moe.step[i].pair);
    CHECK(phase.bytes == moe.step[i].bytes);
    CHECK(phase.experts == 8);
  }
}

TEST_CASE("builtin: the counts of a word have room for all atomics of a job") {
  // One word of each rank. All ranks' operations fall evenly on all ranks.
  for (const Phase& phase : atomics_workload().step) CHECK(phase.bytes / 8 < 1u << 20);
}

}  // namespace
}  // namespace hawser::tool
