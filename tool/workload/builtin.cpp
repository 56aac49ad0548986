// SPDX-License-Identifier: Apache-2.0
#include "tool/workload/builtin.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), table 2, and
// github.com/openai/gpt-2 src/model.py: 12 layers, width 768, context 1024, 50257 tokens.
constexpr std::uint64_t kGpt2Layers = 12;
constexpr std::uint64_t kGpt2Width = 768;
constexpr std::uint64_t kGpt2Context = 1024;
constexpr std::uint64_t kGpt2Vocabulary = 50257;

// torch/nn/parallel/distributed.py: bucket_cap_mb = 25, _DEFAULT_FIRST_BUCKET_BYTES = 1 MiB.
constexpr std::uint64_t kFirstBucketBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kBucketBytes = std::uint64_t{25} << 20;

// Touvron et al., "Llama 2" (arXiv 2307.09288), table 1, and the model's config.json: 32 layers,
// width 4096, context 4096; activations in bf16, micro-batch of one sequence.
constexpr std::uint64_t kLlamaLayers = 32;
constexpr std::uint64_t kLlamaWidth = 4096;
constexpr std::uint64_t kLlamaContext = 4096;

// Jiang et al., "Mixtral of Experts" (arXiv 2401.04088), table 1: 32 layers, width 4096, 8 experts
// of which each token takes 2. One sequence of 4096 tokens a rank.
constexpr std::uint64_t kMixtralLayers = 32;
constexpr std::uint64_t kMixtralWidth = 4096;
constexpr std::uint64_t kMixtralTokens = 4096;
constexpr std::uint64_t kMixtralExperts = 8;
constexpr std::uint64_t kMixtralExpertsPerToken = 2;

// One operation moves a block: from what many share a packet, to what takes a hundred packets.
struct BlockPhase {
  std::uint64_t block_bytes;
  std::uint64_t bytes;  // of a rank
};
constexpr std::uint64_t kKiB = 1024;
constexpr std::array<BlockPhase, 4> kBlockPhases{{
    {64, 512 * kKiB},
    {4 * kKiB, 16 * 1024 * kKiB},
    {64 * kKiB, 64 * 1024 * kKiB},
    {1024 * kKiB, 64 * 1024 * kKiB},
}};

// The counts of a word's history have 20 bits (word_history.hpp).
constexpr std::uint64_t kAtomicsOfRank = 16'384;
constexpr std::uint32_t kManyWords = 1024;

Phase phase(Operation operation, GroupKind group, DataType type, std::uint64_t bytes,
            std::string stage) {
  Phase made;
  made.operation = operation;
  made.group = group;
  made.type = type;
  made.bytes = bytes;
  made.stage = std::move(stage);
  return made;
}

Workload in_blocks(Operation operation) {
  Workload workload;
  workload.name = to_string(operation);
  for (const BlockPhase& one : kBlockPhases) {
    Phase made = phase(operation, GroupKind::world, DataType::f32, one.bytes,
                       fmt::format("blocks of {} bytes", one.block_bytes));
    made.block_bytes = one.block_bytes;
    workload.step.push_back(std::move(made));
  }
  return workload;
}

}  // namespace

TensorBytes gpt2_tensors() {
  constexpr std::uint64_t w = kGpt2Width;
  TensorBytes elements{kGpt2Vocabulary * w, kGpt2Context * w};  // wte, wpe
  for (std::uint64_t layer = 0; layer < kGpt2Layers; ++layer) {
    elements.insert(elements.end(), {w, w});              // ln_1 weight, bias
    elements.insert(elements.end(), {w * 3 * w, 3 * w});  // attn.c_attn
    elements.insert(elements.end(), {w * w, w});          // attn.c_proj
    elements.insert(elements.end(), {w, w});              // ln_2
    elements.insert(elements.end(), {w * 4 * w, 4 * w});  // mlp.c_fc
    elements.insert(elements.end(), {4 * w * w, w});      // mlp.c_proj
  }
  elements.insert(elements.end(), {w, w});  // ln_f
  for (std::uint64_t& size : elements) size *= bytes_of(DataType::f32);
  return elements;
}

std::vector<std::uint64_t> ddp_buckets(std::span<const std::uint64_t> tensors) {
  std::vector<std::uint64_t> buckets;
  std::uint64_t filled = 0;
  for (std::size_t i = tensors.size(); i-- > 0;) {
    filled += tensors[i];
    // The tensor that reaches the limit still belongs to the bucket
    // (compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp), so buckets
    // are larger than their limit.
    if (filled < (buckets.empty() ? kFirstBucketBytes : kBucketBytes)) continue;
    buckets.push_back(filled);
    filled = 0;
  }
  if (filled > 0) buckets.push_back(filled);
  return buckets;
}

Workload gpt2_workload() {
  Workload workload;
  workload.name = "gpt2";
  const TensorBytes tensors = gpt2_tensors();
  const std::vector<std::uint64_t> buckets = ddp_buckets(tensors);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    workload.step.push_back(phase(Operation::all_reduce, GroupKind::world, DataType::f32,
                                  buckets[i], fmt::format("gradient bucket {}", i)));
  }
  return workload;
}

Workload llama_workload() {
  // Megatron's tensor parallelism (Shoeybi et al., arXiv 1909.08053, section 3). Per layer there is
  // one all-reduce after attention and one after the MLP, forward, and the same two backward. The
  // embedding's output adds one forward, and the head's input gradient one backward.
  constexpr std::uint64_t bytes = kLlamaContext * kLlamaWidth * bytes_of(DataType::bf16);
  Workload workload;
  workload.name = "llama";
  const auto add = [&](std::string stage) {
    workload.step.push_back(
        phase(Operation::all_reduce, GroupKind::world, DataType::bf16, bytes, std::move(stage)));
  };
  add("forward embedding");
  for (std::uint64_t layer = 0; layer < kLlamaLayers; ++layer) {
    add(fmt::format("forward layer {} attention", layer));
    add(fmt::format("forward layer {} mlp", layer));
  }
  add("backward head");
  for (std::uint64_t layer = kLlamaLayers; layer-- > 0;) {
    add(fmt::format("backward layer {} mlp", layer));
    add(fmt::format("backward layer {} attention", layer));
  }
  return workload;
}

Workload mixtral_workload() {
  constexpr std::uint64_t bytes =
      kMixtralTokens * kMixtralExpertsPerToken * kMixtralWidth * bytes_of(DataType::bf16);
  Workload workload;
  workload.name = "moe";
  workload.sizes[GroupKind::expert] = kMixtralExperts;
  const auto add = [&](std::uint64_t layer, Split split, std::string stage) {
    Phase made =
        phase(Operation::all_to_all, GroupKind::expert, DataType::bf16, bytes, std::move(stage));
    made.split = split;
    made.pair = static_cast<std::uint32_t>(layer);
    workload.step.push_back(std::move(made));
  };
  for (std::uint64_t layer = 0; layer < kMixtralLayers; ++layer) {
    add(layer, Split::by_expert, fmt::format("forward layer {} dispatch", layer));
    add(layer, Split::from_expert, fmt::format("forward layer {} combine", layer));
  }
  // Gradients retrace the tokens: those of combine go to the experts, those of dispatch come back.
  for (std::uint64_t layer = kMixtralLayers; layer-- > 0;) {
    add(layer, Split::by_expert, fmt::format("backward layer {} combine", layer));
    add(layer, Split::from_expert, fmt::format("backward layer {} dispatch", layer));
  }
  return workload;
}

Workload put_workload() { return in_blocks(Operation::put); }
Workload get_workload() { return in_blocks(Operation::get); }

Workload atomics_workload() {
  Workload workload;
  workload.name = "atomics";
  for (const std::uint32_t words : {1u, kManyWords}) {
    Phase made = phase(Operation::atomics, GroupKind::world, DataType::f32,
                       kAtomicsOfRank * sizeof(std::uint64_t),
                       fmt::format("{} word{} of each rank", words, words == 1 ? "" : "s"));
    made.words = words;
    workload.step.push_back(std::move(made));
  }
  return workload;
}

Workload dispatch_workload() {
  Workload workload = mixtral_workload();
  workload.name = "moe-dispatch";
  for (Phase& phase : workload.step) {
    phase.operation = phase.split == Split::by_expert ? Operation::dispatch : Operation::combine;
    phase.split = Split::even;
    phase.experts = kMixtralExperts;
  }
  return workload;
}

std::span<const BuiltinWorkload> builtin_workloads() {
  static constexpr std::array<BuiltinWorkload, 7> kWorkloads{{
      {"gpt2", "GPT-2 124M, data parallel: 13 gradient buckets, 498 MB in f32 a step",
       gpt2_workload},
      {"llama", "Llama-2 7B, tensor parallel: 130 all-reduces of 32 MiB in bf16 a step",
       llama_workload},
      {"moe", "Mixtral 8x7B, expert parallel: 128 uneven all-to-alls of 64 MiB a rank a step",
       mixtral_workload},
      {"put", "writes with signals into every peer's memory, in blocks of 64 bytes to 1 MiB",
       put_workload},
      {"get", "reads from every peer's memory, in blocks of 64 bytes to 1 MiB", get_workload},
      {"atomics", "sums and swaps on words of every peer, few and many", atomics_workload},
      {"moe-dispatch", "as moe, by writes with a signal for each expert", dispatch_workload},
  }};
  return kWorkloads;
}

}  // namespace hawser::tool
