// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "sim/fabric/input_error.hpp"
#include "sim/input/aicb.hpp"
#include "sim/input/text_workload.hpp"
#include "tool/error.hpp"
#include "tool/input_file.hpp"
#include "tool/workload/builtin.hpp"
#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

using Pass = fabric::Operation::Pass;
using What = fabric::Operation::What;

std::string content_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    std::string known;
    for (const BuiltinWorkload& workload : builtin_workloads()) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", workload.name);
    }
    throw InputError(fmt::format("workload '{}' is neither a file nor built in ({})", path, known));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(fmt::format("workload '{}' is not a regular file", path));
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMaxFileBytes) {
    throw InputError(fmt::format("workload '{}' is larger than {} MiB", path, kMaxFileBytes >> 20));
  }
  return read_file(path, "the workload");
}

GroupKind group_of(fabric::Axis axis) {
  switch (axis) {
    case fabric::Axis::tensor: return GroupKind::tensor;
    case fabric::Axis::data: return GroupKind::data;
    case fabric::Axis::expert: return GroupKind::expert;
    case fabric::Axis::expert_tensor: return GroupKind::expert_tensor;
    case fabric::Axis::data_of_expert: return GroupKind::expert_data;
    case fabric::Axis::pipeline: return GroupKind::pipeline;
    case fabric::Axis::embedding: return GroupKind::pipeline_ends;
    case fabric::Axis::all: break;
  }
  return GroupKind::world;
}

Operation operation_of(const fabric::Operation& one) {
  switch (one.collective) {
    case Collective::all_reduce: return one.to_root ? Operation::reduce : Operation::all_reduce;
    case Collective::reduce_scatter: return Operation::reduce_scatter;
    case Collective::all_gather: return Operation::all_gather;
    case Collective::all_to_all: return Operation::all_to_all;
    case Collective::broadcast: return Operation::broadcast;
    case Collective::barrier:
    case Collective::none: break;
  }
  return Operation::barrier;
}

// This rank's part in an operation; returns false if it takes no message.
bool to_phase(const fabric::Operation& one, Phase& phase) {
  phase.type = DataType::bf16;
  phase.bytes = one.bytes;
  if (one.what == What::send || one.what == What::receive) {
    if (!one.next) return false;  // the stage before has the other end of the transfer
    phase.group = GroupKind::pipeline;
    phase.operation = one.what == What::send ? Operation::shift_next : Operation::shift_prev;
    return one.bytes > 0;
  }
  if (one.what != What::collective) return false;
  phase.group = group_of(one.axis);
  phase.operation = operation_of(one);
  if (phase.operation == Operation::barrier) phase.bytes = 0;
  return phase.operation == Operation::barrier || one.bytes > 0;
}

std::string_view word_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward";
    case Pass::input_gradient: return "input gradient";
    case Pass::weight_gradient: return "weight gradient";
    case Pass::none: break;
  }
  return "pipeline";
}

[[noreturn]] void refuse_phases(const std::string& name, std::uint32_t line) {
  throw fabric::InputError(
      fmt::format("{}:{}: more than {} calls in one iteration", name, line, kMaxPhases));
}

Workload phases_of(const std::string& name, const fabric::TextWorkload& text) {
  Workload workload;
  workload.warnings = text.warnings;
  workload.sizes[GroupKind::tensor] = text.tensor;
  workload.sizes[GroupKind::expert] = text.expert;
  workload.sizes[GroupKind::pipeline] = text.stages > 1 ? text.stages : 0;
  const std::uint64_t model = std::uint64_t{text.tensor} * text.stages;
  if (model > 0 && text.ranks % model == 0) workload.sizes[GroupKind::data] = text.ranks / model;
  // All stages have the same layers: two of them show the traffic between stages.
  const fabric::Workload stages = fabric::workload_of(text, {}, text.stages > 1 ? 2 : 1);
  std::map<std::uint32_t, std::string_view> names;
  for (const fabric::Layer& layer : text.layers) names[layer.line] = layer.name;
  for (const fabric::Operation& one : stages.stages.front()) {
    Phase phase;
    if (!to_phase(one, phase)) continue;
    if (workload.step.size() == kMaxPhases) refuse_phases(name, one.line);
    phase.stage = one.pass == Pass::none ? std::string("pipeline")
                                         : fmt::format("{} {}", word_of(one.pass), names[one.line]);
    workload.step.push_back(std::move(phase));
  }
  return workload;
}

std::vector<Phase> phases_of(const std::string& name, const std::vector<fabric::AicbCall>& calls,
                             const fabric::AicbWorkload& aicb) {
  std::vector<Phase> phases;
  for (const fabric::AicbCall& call : calls) {
    Phase phase;
    if (!to_phase(call.operation, phase)) continue;
    const auto stage = aicb.names.find(call.operation.line);
    if (stage != aicb.names.end()) phase.stage = stage->second;
    if (call.count > kMaxPhases - phases.size()) refuse_phases(name, call.operation.line);
    phases.insert(phases.end(), call.count, phase);
  }
  return phases;
}

Workload phases_of(const std::string& name, const fabric::AicbWorkload& aicb) {
  Workload workload;
  workload.warnings = aicb.warnings;
  for (const auto& [axis, ranks] : aicb.sizes) workload.sizes[group_of(axis)] = ranks;
  const std::size_t stages = aicb.stages.size();
  if (stages > 1) {
    workload.sizes[GroupKind::pipeline] =
        std::max<std::uint64_t>(stages, workload.sizes[GroupKind::pipeline]);
    workload.warnings.push_back(fmt::format(
        "{}: has {} pipeline stages; all ranks replay the first one's calls", name, stages));
  }
  std::vector<std::vector<Phase>> epochs;
  for (const auto& calls : aicb.stages.front()) {
    epochs.push_back(phases_of(name, calls, aicb));
    if (epochs.back().empty()) epochs.pop_back();
  }
  if (epochs.size() > 1) {
    workload.init = std::move(epochs.front());
    epochs.erase(epochs.begin());
  }
  for (std::vector<Phase>& epoch : epochs) {
    std::move(epoch.begin(), epoch.end(), std::back_inserter(workload.step));
  }
  return workload;
}

}  // namespace

Workload parse_workload(const std::string& name, std::string_view text) {
  try {
    Workload workload = fabric::is_aicb(name, text)
                            ? phases_of(name, fabric::read_aicb(name, text))
                            : phases_of(name, fabric::read_text_workload(name, text));
    if (workload.step.empty()) {
      throw InputError(fmt::format("{}:1: nothing in the file communicates", name));
    }
    workload.name = name;
    return workload;
  } catch (const fabric::InputError& error) {
    throw InputError(error.what());
  }
}

Workload load_workload(const std::string& name_or_path) {
  for (const BuiltinWorkload& workload : builtin_workloads()) {
    if (workload.name == name_or_path) return workload.make();
  }
  return parse_workload(name_or_path, content_of(name_or_path));
}

}  // namespace hawser::tool
