#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kMaxGroup = 1'000'000;
constexpr std::uint64_t kMaxNanoseconds = ~std::uint64_t{0} >> 1;
// name, dependency, three times (compute time, type, bytes), update time
constexpr std::size_t kLayerWords = 12;
constexpr std::string_view kCustomized = "HYBRID_CUSTOMIZED";

// Which groups communicate in a pass, as ASTRA-sim's decode_involved_dimensions has it; nullopt:
// the pass has no communication under this parallelism, whatever the layer says.
struct Policy {
  std::string_view name;
  std::optional<GroupKind> activations;  // forward and input gradient
  std::optional<GroupKind> weights;      // weight gradient
};
constexpr auto kPolicies = std::to_array<Policy>({
    {"DATA", std::nullopt, GroupKind::world},
    {"MODEL", GroupKind::world, std::nullopt},
    {"MICRO", std::nullopt, GroupKind::world},
    {"DISTRIBUTED_INFERENCE", GroupKind::world, std::nullopt},
    {"HYBRID_TRANSFORMER", GroupKind::tensor, GroupKind::data},
    {"HYBRID_TRANSFORMER_FWD_IN_BCKWD", GroupKind::tensor, GroupKind::data},
    {"HYBRID_DATA_MODEL", GroupKind::tensor, GroupKind::data},
    {"HYBRID_MODEL_DATA", GroupKind::tensor, GroupKind::data},
    {"HYBRID_DLRM", std::nullopt, GroupKind::world},
    {"HYBRID_DLRM_ENHANCED", std::nullopt, GroupKind::world},
    {kCustomized, GroupKind::tensor, GroupKind::data},
});
// DLRM's embedding tables, its first layer, are spread over all ranks.
constexpr Policy kEverywhere{"ALL", GroupKind::world, GroupKind::world};

struct OperationName {
  std::string_view name;
  Operation operation;
};
constexpr auto kOperations = std::to_array<OperationName>({
    {"ALLREDUCE", Operation::all_reduce},
    {"ALLGATHER", Operation::all_gather},
    {"REDUCESCATTER", Operation::reduce_scatter},
    {"ALLTOALL", Operation::all_to_all},
    {"BROADCAST", Operation::broadcast},
});

struct Layer {
  std::string name;
  std::optional<Phase> forward;
  std::optional<Phase> input_gradient;
  std::optional<Phase> weight_gradient;
};

const Policy& find_policy(const Source& source, std::size_t line, std::string_view word) {
  for (const Policy& policy : kPolicies) {
    if (policy.name == word) return policy;
  }
  std::string known;
  for (const Policy& policy : kPolicies) known += fmt::format(" {}", policy.name);
  source.fail(line, fmt::format("{} is no parallelism; known are{}", quoted(word), known));
}

// "model_parallel_NPU_group: 8 ep: 16 pp: 12 ... checkpoints: 2 2 11": each key but checkpoints has
// one number. Keys that say nothing about communication are checked and left.
GroupSizes parse_sizes(const Source& source, std::span<const std::string_view> words) {
  GroupSizes sizes;
  std::uint64_t all = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string_view key = words[i];
    if (key.find_first_not_of("0123456789") == std::string_view::npos)
      continue;  // a list, see above
    if (!key.ends_with(':') && key != "pp_comm") {
      source.fail(1, fmt::format("expected a key such as 'ep:', not {}", quoted(key)));
    }
    if (i + 1 == words.size()) {
      if (key == "pp_comm" || key == "pp_comm:") break;  // AICB writes it bare where there is none
      source.fail(1, fmt::format("{} has no number", quoted(key)));
    }
    const std::uint64_t value = source.number(1, words[i + 1], quoted(key), kMaxPhaseBytes);
    const auto group = [&] {
      if (value == 0 || value > kMaxGroup) {
        source.fail(1, fmt::format("{} {}: a group has 1 to {} ranks", key, value, kMaxGroup));
      }
      return value;
    };
    if (key == "model_parallel_NPU_group:") sizes[GroupKind::tensor] = group();
    if (key == "ep:") sizes[GroupKind::expert] = group();
    if (key == "pp:") sizes[GroupKind::pipeline] = group();
    if (key == "all_gpus:") all = group();
  }
  const std::uint64_t model =
      sizes[GroupKind::tensor] * std::max<std::uint64_t>(sizes[GroupKind::pipeline], 1);
  if (all > 0 && model > 0 && all % model == 0) sizes[GroupKind::data] = all / model;
  return sizes;
}

std::optional<Phase> parse_pass(const Source& source, std::size_t line, std::string_view type,
                                std::string_view bytes, std::optional<GroupKind> group,
                                std::string_view pass) {
  const std::uint64_t size =
      source.number(line, bytes, fmt::format("{} bytes", pass), kMaxPhaseBytes);
  if (type == "NONE") return std::nullopt;
  for (const OperationName& known : kOperations) {
    if (!type.starts_with(known.name)) continue;
    const std::string_view suffix = type.substr(known.name.size());
    Phase phase;
    if (suffix == "_EP") {
      group = GroupKind::expert;
    } else if (suffix == "_DP_EP") {
      group = GroupKind::expert_data;
    } else if (!suffix.empty()) {
      continue;  // "ALLREDUCEALLTOALL": no reader of this format gives it a meaning
    }
    if (!group || size == 0) return std::nullopt;
    phase.operation = known.operation;
    phase.group = *group;
    phase.type = DataType::bf16;
    phase.bytes = size;
    return phase;
  }
  source.fail(line, fmt::format("{} type {} is unknown; known are NONE, ALLREDUCE, ALLGATHER, "
                                "REDUCESCATTER, ALLTOALL and BROADCAST, with _EP or _DP_EP",
                                pass, quoted(type)));
}

Layer parse_layer(const Source& source, std::size_t line, const Policy& general, bool first) {
  const std::vector<std::string_view> words = words_of(source.line(line));
  const bool customized = general.name == kCustomized;
  const std::size_t expected = kLayerWords + (customized ? 1 : 0);
  if (words.size() != expected) {
    source.fail(line, fmt::format("a layer has {} fields, this line {}", expected, words.size()));
  }
  const bool everywhere = first && general.name.starts_with("HYBRID_DLRM");
  const Policy& policy = everywhere   ? kEverywhere
                         : customized ? find_policy(source, line, words[kLayerWords])
                                      : general;
  if (words[1] != "-1") {
    (void)source.number(line, words[1], "dependency", kMaxPhases);
  }
  for (const std::size_t i : {2, 5, 8, 11}) {
    (void)source.number(line, words[i], "time", kMaxNanoseconds);
  }
  Layer layer;
  layer.name = std::string(words[0].substr(0, 100));
  layer.forward = parse_pass(source, line, words[3], words[4], policy.activations, "forward");
  layer.input_gradient =
      parse_pass(source, line, words[6], words[7], policy.activations, "input gradient");
  layer.weight_gradient =
      parse_pass(source, line, words[9], words[10], policy.weights, "weight gradient");
  return layer;
}

}  // namespace

Workload parse_astra_text(const Source& source) {
  if (source.line_count() < 2)
    source.fail(1, "expected the parallelism, then the number of layers");
  const std::vector<std::string_view> header = words_of(source.line(1));
  if (header.empty()) source.fail(1, "expected the parallelism, found an empty line");
  const Policy& policy = find_policy(source, 1, header[0]);

  Workload workload;
  workload.name = source.name();
  workload.sizes = parse_sizes(source, header);

  const std::vector<std::string_view> counts = words_of(source.line(2));
  if (counts.empty()) source.fail(2, "expected the number of layers, found an empty line");
  const std::uint64_t announced = source.number(2, counts[0], "number of layers", kMaxPhases);

  std::vector<Layer> layers;
  for (std::size_t line = 3; line <= source.line_count(); ++line) {
    if (is_blank(source.line(line))) continue;
    if (layers.size() == announced) {
      source.fail(line, fmt::format("line 2 announces {} layers, here is one more", announced));
    }
    layers.push_back(parse_layer(source, line, policy, layers.empty()));
  }
  if (layers.empty()) source.fail(2, "no layer follows");
  if (layers.size() < announced) {
    // One of AICB's own samples is like that: it repeats its layers in another field.
    workload.warnings.push_back(fmt::format("{}:2: announces {} layers, the file has {}",
                                            source.name(), announced, layers.size()));
  }

  const auto add = [&](std::optional<Phase>& phase, std::string_view pass, const Layer& layer) {
    if (!phase) return;
    phase->stage = fmt::format("{} {}", pass, layer.name);
    workload.step.push_back(std::move(*phase));
  };
  for (Layer& layer : layers) add(layer.forward, "forward", layer);
  for (std::size_t i = layers.size(); i-- > 0;) {
    add(layers[i].input_gradient, "input gradient", layers[i]);
    add(layers[i].weight_gradient, "weight gradient", layers[i]);
  }
  if (workload.step.empty()) source.fail(2, "no layer communicates");
  return workload;
}

}  // namespace hawser::tool
