// SPDX-License-Identifier: Apache-2.0
#include "sim/input/text_workload.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sim/input/text.hpp"

namespace hawser::fabric {

namespace {

constexpr std::uint64_t kMostRanks = 1 << 20;
constexpr std::uint64_t kMostLayers = 1'000'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostOperations = 8'000'000;   // of a program
constexpr std::uint64_t kLongest = 1'000'000'000'000;  // ns
constexpr std::size_t kFields = 12;
constexpr std::size_t kLongestName = 100;
constexpr std::string_view kCustomized = "HYBRID_CUSTOMIZED";
using Words = std::vector<std::string_view>;
using Pass = Operation::Pass;

// The groups of the collectives of passes and of weight gradients, unless a collective names one,
// as in ASTRA-sim's decode_involved_dimensions. Empty: there are none, whatever a layer says.
struct Parallelism {
  std::string_view name;
  std::optional<Axis> passes;  // forward and input gradient
  std::optional<Axis> weights;
  // DLRM: its first layer, the embedding tables, is spread over all ranks. The number behind the
  // name, the last layer of the bottom half, has no meaning here.
  bool is_dlrm = false;
};
constexpr Parallelism kEverywhere{"", Axis::all, Axis::all};
constexpr std::array<Parallelism, 11> kParallelisms{
    {{"MICRO", std::nullopt, Axis::all},
     {"DATA", std::nullopt, Axis::all},
     {"MODEL", Axis::all, std::nullopt},
     {"DISTRIBUTED_INFERENCE", Axis::all, std::nullopt},
     {"HYBRID_DATA_MODEL", Axis::tensor, Axis::data},
     {"HYBRID_MODEL_DATA", Axis::tensor, Axis::data},
     {"HYBRID_TRANSFORMER", Axis::tensor, Axis::data},
     {"HYBRID_TRANSFORMER_FWD_IN_BCKWD", Axis::tensor, Axis::data},
     {"HYBRID_DLRM", std::nullopt, Axis::all, true},
     {"HYBRID_DLRM_ENHANCED", std::nullopt, Axis::all, true},
     {kCustomized, Axis::tensor, Axis::data}}};

// The parallelism that a word names: the first word of a file or the last of a layer. Null if it
// names none.
const Parallelism* parallelism_of(std::string_view word) {
  const auto found = std::ranges::find(kParallelisms, word, &Parallelism::name);
  return found == kParallelisms.end() ? nullptr : &*found;
}

constexpr std::array<std::pair<std::string_view, Collective>, 6> kTypes{
    {{"NONE", Collective::none},
     {"ALLREDUCE", Collective::all_reduce},
     {"ALLGATHER", Collective::all_gather},
     {"REDUCESCATTER", Collective::reduce_scatter},
     {"ALLTOALL", Collective::all_to_all},
     {"BROADCAST", Collective::broadcast}}};

// The operations of an iteration over the first layers. Layers that are computed forward again make
// them grow with the square of the layers.
std::uint64_t operations_of(const TextWorkload& text, std::size_t layers) {
  constexpr std::uint64_t kBetweenStages = 4;
  const auto sends = [](const LayerWork& work) -> std::uint64_t {
    return work.collective == Collective::none ? 0 : 1;
  };
  std::uint64_t all = kBetweenStages + 1;  // and the join
  std::uint64_t since_checkpoint = 0;      // of the forward pass, up to the layer
  for (std::size_t i = 0; i < layers; ++i) {
    const Layer& layer = text.layers[i];
    const std::uint64_t forward = 1 + sends(layer.forward);
    const std::uint64_t backward = 3 + sends(layer.input_gradient) + sends(layer.weight_gradient);
    if (layer.is_checkpoint) since_checkpoint = 0;
    all += forward + backward + (layer.begins_again ? since_checkpoint : 0);
    since_checkpoint += forward;
  }
  return all;
}

class TextWorkloadReader {
 public:
  TextWorkloadReader(const std::string& name, std::string_view content) : text_(name, content) {}

  TextWorkload read() {
    std::size_t lines = 0;  // lines with content
    for (std::size_t line = 1; line <= text_.lines(); ++line) {
      const Words words = text_.words(line);
      if (words.empty()) continue;
      if (++lines == 1) {
        head(line, words);
      } else if (lines == 2) {
        if (words.size() != 1) text_.fail(line, "the second line is the count of layers, alone");
        layers_ = text_.number(line, words[0], "the count of layers", 1, kMostLayers);
        count_line_ = line;
      } else {
        layer(line, words);
      }
    }
    if (lines < 2) text_.fail(1, "a workload begins with its parallelism and its count of layers");
    if (workload_.layers.empty()) text_.fail(count_line_, "no layer follows");
    if (workload_.layers.size() < layers_) {
      // One of AICB's own samples is like that: it gives repeated layers in another field.
      warn(count_line_, std::to_string(layers_) + " layers are announced, but " +
                            std::to_string(workload_.layers.size()) +
                            " follow: is the file whole?");
    }
    if (dependency_line_ > 0) {
      warn(dependency_line_,
           "the second field, a layer's dependency, is ignored: layers run in order");
    }
    if (left_out_ > 0) {
      warn(left_out_line_, std::to_string(left_out_) + " collective" + (left_out_ > 1 ? "s" : "") +
                               " are left out, as their parallelism has no group for them");
    }
    mark(checkpoints_, &Layer::is_checkpoint, "checkpoints");
    mark(initiates_, &Layer::begins_again, "checkpoint_initiates");
    check_checkpoints();
    if (operations_of(workload_, workload_.layers.size()) > kMostOperations) {
      text_.fail(head_line_, "an iteration is more than " + std::to_string(kMostOperations) +
                                 " operations, with the layers that checkpoint_initiates computes "
                                 "again");
    }
    return std::move(workload_);
  }

 private:
  std::uint32_t small(std::size_t line, std::string_view word, const std::string& what,
                      std::uint64_t least) const {
    return static_cast<std::uint32_t>(text_.number(line, word, what, least, kMostRanks));
  }

  void warn(std::size_t line, const std::string& what) {
    workload_.warnings.push_back(text_.note(line, what));
  }

  const Parallelism& parallelism(std::size_t line, std::string_view word) const {
    const Parallelism* const found = parallelism_of(word);
    if (found != nullptr) return *found;
    std::string known;
    for (const Parallelism& each : kParallelisms) {
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
    if (word == "Nodes") {
      text_.fail(line,
                 "this is a connection matrix (.cm), which an experiment of `hawser sim` "
                 "reads; a workload is ASTRA-sim text or AICB csv");
    }
    text_.fail(line, quoted(word) + " is not a known parallelism; known are " + known);
  }

  void head(std::size_t line, const Words& words) {
    head_line_ = line;
    parallelism_ = &parallelism(line, words[0]);
    std::size_t at = 1;
    if (parallelism_->is_dlrm && at < words.size() && !words[at].ends_with(':')) {
      static_cast<void>(small(line, words[at++], "the last layer of the bottom", 0));
    }
    Words seen;
    while (at < words.size()) {
      std::string_view key = words[at++];
      const bool is_key = key.ends_with(':') || key == "pp_comm";
      if (!is_key) {
        text_.fail(line, "a key such as 'ep:' is expected instead of " + quoted(key));
      }
      if (key.ends_with(':')) key.remove_suffix(1);
      if (std::ranges::count(seen, key) > 0) text_.fail(line, quoted(key) + " is given twice");
      seen.push_back(key);
      if (at == words.size()) {
        if (key == "pp_comm") break;  // AICB writes the key without a value if there is none
        text_.fail(line, quoted(key) + " has no value");
      }
      const std::string_view word = words[at++];
      if (key == "checkpoints" || key == "checkpoint_initiates") {
        std::vector<std::uint32_t>& into = key == "checkpoints" ? checkpoints_ : initiates_;
        const std::uint32_t count = small(line, word, std::string(key), 0);
        if (count > words.size() - at) {
          text_.fail(line, std::string(key) + " are " + std::to_string(count) + ", but " +
                               std::to_string(words.size() - at) + " words follow");
        }
        for (std::uint32_t i = 0; i < count; ++i) {
          into.push_back(small(line, words[at++], "a layer of " + std::string(key), 0));
        }
      } else {
        attribute(line, key, word);
      }
    }
  }

  void attribute(std::size_t line, std::string_view key, std::string_view word) {
    const std::string name(key);
    if (key == "model_parallel_NPU_group") {
      workload_.tensor = small(line, word, name, 1);
    } else if (key == "ep") {
      workload_.expert = small(line, word, name, 1);
    } else if (key == "pp") {
      workload_.stages = small(line, word, name, 1);
    } else if (key == "all_gpus") {
      workload_.ranks = small(line, word, name, 1);
    } else if (key == "vpp" || key == "ga") {
      // The layers are written out. SimAI's generator writes 0 for a batch smaller than the ranks.
      static_cast<void>(small(line, word, name, 0));
    } else if (key == "pp_comm") {
      if (word != "None") workload_.stage_bytes = text_.number(line, word, name, 0, kMostBytes);
    } else if (key != "mode" && key != "DLRM_LAST_BOTTOM_LAYER") {
      warn(line, quoted(key) +
                     " is ignored; the known keys are model_parallel_NPU_group, ep, pp, all_gpus, "
                     "checkpoints, checkpoint_initiates and pp_comm");
    }
  }

  // Nanoseconds, which some generators write with a fraction.
  Span time(std::size_t line, std::string_view word, const std::string& what) const {
    return {text_.thousandths(line, word, what, kLongest)};
  }

  // Reads three words: a time, a type, a length.
  LayerWork work(std::size_t line, const Words& words, std::size_t at, const std::string& what,
                 std::optional<Axis> axis) {
    LayerWork work{time(line, words[at], what + "'s time"), Axis::all, Collective::none, 0};
    std::string_view type = words[at + 1];
    if (type.ends_with("_DP_EP")) {
      axis = Axis::data_of_expert;
      type.remove_suffix(6);
    } else if (type.ends_with("_EP")) {
      axis = Axis::expert;
      type.remove_suffix(3);
    }
    const auto found = std::ranges::find(kTypes, type, [](const auto& row) { return row.first; });
    if (found == kTypes.end()) {
      text_.fail(line, what + "'s type is " + quoted(words[at + 1]) +
                           ", but must be NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL or "
                           "BROADCAST, with _EP or _DP_EP behind it or without");
    }
    const std::uint64_t bytes = text_.number(line, words[at + 2], what + "'s bytes", 0, kMostBytes);
    if (found->second == Collective::none || bytes == 0) return work;
    if (!axis) {
      if (left_out_++ == 0) left_out_line_ = line;
      return work;
    }
    work.axis = *axis;
    work.collective = found->second;
    work.bytes = bytes;
    return work;
  }

  void layer(std::size_t line, const Words& words) {
    if (workload_.layers.size() == layers_) {
      text_.fail(line, std::to_string(layers_) + " layers are announced in line " +
                           std::to_string(count_line_) + ", and this is one more");
    }
    const bool is_customized = parallelism_->name == kCustomized;
    const std::size_t fields = kFields + (is_customized ? 1 : 0);
    if (words.size() != fields) {
      text_.fail(line, "a layer has " + std::to_string(fields) + " fields, not " +
                           std::to_string(words.size()));
    }
    if (words[1] != "-1") {
      static_cast<void>(text_.number(line, words[1], "the dependency", 0, kMostLayers));
      if (dependency_line_ == 0) dependency_line_ = line;
    }
    const Parallelism& how = parallelism_->is_dlrm && workload_.layers.empty() ? kEverywhere
                             : is_customized ? parallelism(line, words[kFields])
                                             : *parallelism_;
    Layer layer;
    layer.name = words[0].substr(0, kLongestName);
    layer.line = static_cast<std::uint32_t>(line);
    layer.forward = work(line, words, 2, "the forward pass", how.passes);
    layer.input_gradient = work(line, words, 5, "the input gradient", how.passes);
    layer.weight_gradient = work(line, words, 8, "the weight gradient", how.weights);
    layer.update = time(line, words[11], "the update's time");
    workload_.layers.push_back(std::move(layer));
  }

  void mark(const std::vector<std::uint32_t>& which, bool Layer::*flag, const std::string& what) {
    for (const std::uint32_t one : which) {
      if (one >= workload_.layers.size()) {
        text_.fail(head_line_, what + " name layer " + std::to_string(one) + ", but there are " +
                                   std::to_string(workload_.layers.size()));
      }
      workload_.layers[one].*flag = true;
    }
  }

  void check_checkpoints() const {
    bool has_one = false;
    for (const Layer& layer : workload_.layers) {
      has_one = has_one || layer.is_checkpoint;
      if (!layer.begins_again || has_one) continue;
      text_.fail(head_line_, "checkpoint_initiates name the layer of line " +
                                 std::to_string(layer.line) + ", which no checkpoint precedes");
    }
  }

  Text text_;
  TextWorkload workload_;
  const Parallelism* parallelism_ = nullptr;
  std::uint64_t layers_ = 0;  // as the file says
  std::size_t head_line_ = 1;
  std::size_t count_line_ = 1;
  std::size_t dependency_line_ = 0;  // the first layer with a dependency; 0: none has one
  std::size_t left_out_ = 0;         // collectives
  std::size_t left_out_line_ = 0;    // of the first such collective
  std::vector<std::uint32_t> checkpoints_, initiates_;
};

class Programmer {
 public:
  Programmer(const TextWorkload& text, std::size_t layers, std::uint32_t stage,
             std::uint32_t stages)
      : text_(text),
        layers_(layers),
        has_before_(stage > 0 && text.stage_bytes > 0),
        has_after_(stage + 1 < stages && text.stage_bytes > 0) {}

  void iterate() {
    if (has_before_) pass(Operation::What::receive, false);
    for (std::size_t i = 0; i < layers_; ++i) forward(i);
    if (has_after_) {
      pass(Operation::What::send, true);
      pass(Operation::What::receive, true);
    }
    for (std::size_t i = layers_; i-- > 0;) backward(i);
    if (has_before_) pass(Operation::What::send, false);
    program_.push_back({.what = Operation::What::join});
  }

  std::vector<Operation> take() { return std::move(program_); }

 private:
  void pass(Operation::What what, bool next) {
    program_.push_back({.what = what, .next = next, .bytes = text_.stage_bytes});
  }
  void compute(Span span, std::uint32_t line, bool beside = false, Axis axis = Axis::all) {
    program_.push_back({.what = Operation::What::compute,
                        .axis = axis,
                        .beside = beside,
                        .span = span,
                        .line = line});
  }
  void collective(const LayerWork& work, std::uint32_t line, Pass pass, bool beside = false) {
    if (work.collective == Collective::none) return;
    program_.push_back({.what = Operation::What::collective,
                        .pass = pass,
                        .axis = work.axis,
                        .collective = work.collective,
                        .beside = beside,
                        .bytes = work.bytes,
                        .line = line});
  }
  void forward(std::size_t i) {
    const Layer& layer = text_.layers[i];
    compute(layer.forward.compute, layer.line);
    collective(layer.forward, layer.line, Pass::forward);
  }
  void backward(std::size_t i) {
    const Layer& layer = text_.layers[i];
    if (layer.begins_again) {
      std::size_t from = i;
      while (!text_.layers[from].is_checkpoint) --from;
      for (; from < i; ++from) forward(from);
    }
    compute(layer.input_gradient.compute, layer.line);
    collective(layer.input_gradient, layer.line, Pass::input_gradient);
    compute(layer.weight_gradient.compute, layer.line);
    collective(layer.weight_gradient, layer.line, Pass::weight_gradient, true);
    const bool is_beside = layer.weight_gradient.collective != Collective::none;
    compute(layer.update, layer.line, is_beside, layer.weight_gradient.axis);
  }

  const TextWorkload& text_;
  std::size_t layers_;
  bool has_before_;
  bool has_after_;
  std::vector<Operation> program_;
};

}  // namespace

TextWorkload read_text_workload(const std::string& name, std::string_view content) {
  return TextWorkloadReader(name, content).read();
}

Workload workload_of(const TextWorkload& text, const Cut& cut, std::uint32_t stages) {
  const std::size_t layers =
      cut.layers > 0 ? std::min<std::size_t>(cut.layers, text.layers.size()) : text.layers.size();
  const std::uint32_t count = stages > 0 ? stages : text.stages;
  if (layers == 0) throw InputError("a workload has at least one layer");
  if (cut.iterations == 0 ||
      std::uint64_t{cut.iterations} * count > kMostOperations / operations_of(text, layers)) {
    throw InputError(
        "iterations are at least 1, and the operations of all stages in all of them at most " +
        std::to_string(kMostOperations));
  }
  Workload workload{
      .ranks = text.ranks, .tensor = text.tensor, .expert = text.expert, .stages = {}};
  for (std::uint32_t stage = 0; stage < count; ++stage) {
    Programmer programmer(text, layers, stage, count);
    for (std::uint32_t i = 0; i < cut.iterations; ++i) programmer.iterate();
    workload.stages.push_back(programmer.take());
  }
  return workload;
}

}  // namespace hawser::fabric
