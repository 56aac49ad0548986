#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "tool/workload/files.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kMaxGroup = 1'000'000;
constexpr std::size_t kNoColumn = ~std::size_t{0};

// Where the header line puts the columns that matter here.
struct Columns {
  std::size_t count = 0;  // 0: no header line yet
  std::size_t type = kNoColumn;
  std::size_t group = kNoColumn;
  std::size_t group_size = kNoColumn;  // older files have none
  std::size_t bytes = kNoColumn;
  std::size_t stage = kNoColumn;
  std::size_t additional = kNoColumn;
};

struct GroupName {
  std::string_view name;
  GroupKind kind;
};
constexpr auto kGroups = std::to_array<GroupName>({
    {"CommGroup.tp_group", GroupKind::tensor},
    {"CommGroup.dp_group", GroupKind::data},
    {"CommGroup.ep_group", GroupKind::expert},
    {"CommGroup.ep_tp_group", GroupKind::expert},
    {"CommGroup.ep_dp_group", GroupKind::expert_data},
    {"CommGroup.pp_group", GroupKind::pipeline},
    {"CommGroup.embedding_group", GroupKind::pipeline_ends},
    {"CommGroup.all", GroupKind::world},
});

struct CallName {
  std::string_view name;
  Operation operation;
};
constexpr auto kCalls = std::to_array<CallName>({
    {"CommType.all_reduce", Operation::all_reduce},
    {"CommType.all_gather", Operation::all_gather},
    {"CommType.all_gather_into_tensor", Operation::all_gather},
    {"CommType.reduce_scatter", Operation::reduce_scatter},
    {"CommType.reduce_scatter_tensor", Operation::reduce_scatter},
    {"CommType.all_to_all", Operation::all_to_all},
    {"CommType.broadcast", Operation::broadcast},
    {"CommType.barrier", Operation::barrier},
});

// Transfers between stages, as the first stage sees them: what it sends on goes to the next stage,
// what it receives from the next was sent to the previous. The other ends of the same transfers
// (send_prev, recv_prev) are in the sections of later stages.
struct TransferName {
  std::string_view call;
  std::string_view additional;
  std::optional<Operation> operation;
};
constexpr auto kTransfers = std::to_array<TransferName>({
    {"CommType.isend", "send_next", Operation::shift_next},
    {"CommType.irecv", "recv_next", Operation::shift_prev},
    {"CommType.isend", "send_prev", std::nullopt},
    {"CommType.irecv", "recv_prev", std::nullopt},
});

bool is_header(std::string_view line) { return line.starts_with("comm_type,"); }
bool is_section(std::string_view line) { return line.starts_with('['); }

Columns parse_header(const Source& source, std::size_t line) {
  const std::vector<std::string_view> names = fields_of(source.line(line));
  Columns columns;
  columns.count = names.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "comm_type") columns.type = i;
    if (names[i] == "comm_group") columns.group = i;
    if (names[i] == "comm_group_size") columns.group_size = i;
    if (names[i] == "msg_size") columns.bytes = i;
    if (names[i] == "stage") columns.stage = i;
    if (names[i] == "additional") columns.additional = i;
  }
  const auto need = [&](std::size_t column, std::string_view name) {
    if (column == kNoColumn) source.fail(line, fmt::format("the header has no column '{}'", name));
  };
  need(columns.type, "comm_type");
  need(columns.group, "comm_group");
  need(columns.bytes, "msg_size");
  need(columns.stage, "stage");
  need(columns.additional, "additional");
  return columns;
}

// One line of the file: a phase, the end of an epoch, or nothing to replay.
struct Call {
  bool epoch_end = false;
  std::optional<Phase> phase;
  std::uint64_t group_size = 0;
};

GroupKind parse_group(const Source& source, std::size_t line, std::string_view word) {
  for (const GroupName& known : kGroups) {
    if (known.name == word) return known.kind;
  }
  source.fail(line, fmt::format("comm_group {} is unknown", quoted(word)));
}

std::optional<Operation> parse_operation(const Source& source, std::size_t line,
                                         std::string_view call, std::string_view additional) {
  for (const CallName& known : kCalls) {
    if (known.name == call) return known.operation;
  }
  bool transfer = false;
  for (const TransferName& known : kTransfers) {
    if (known.call != call) continue;
    transfer = true;
    if (known.additional == additional) return known.operation;
  }
  if (transfer) {
    source.fail(line, fmt::format("{} needs send_next, send_prev, recv_next or recv_prev in "
                                  "'additional', not {}",
                                  call, quoted(additional)));
  }
  source.fail(line, fmt::format("comm_type {} is unknown", quoted(call)));
}

Call parse_call(const Source& source, std::size_t line, const Columns& columns) {
  const std::vector<std::string_view> fields = fields_of(source.line(line));
  if (fields.size() != columns.count) {
    source.fail(
        line, fmt::format("the header has {} columns, this line {}", columns.count, fields.size()));
  }
  Call call;
  const std::string_view type = fields[columns.type];
  if (type == "CommType.epoch_end") {
    call.epoch_end = true;
    return call;
  }
  if (type == "CommType.computation") return call;  // msg_size holds the shapes of matrices

  const std::optional<Operation> operation =
      parse_operation(source, line, type, fields[columns.additional]);
  Phase phase;
  phase.group = parse_group(source, line, fields[columns.group]);
  if (columns.group_size != kNoColumn) {
    call.group_size = source.number(line, fields[columns.group_size], "comm_group_size", kMaxGroup);
    if (call.group_size == 0) source.fail(line, "comm_group_size is 0");
  }
  phase.bytes = source.number(line, fields[columns.bytes], "msg_size", kMaxPhaseBytes);
  if (!operation) return call;
  phase.operation = *operation;
  phase.type = DataType::bf16;
  phase.stage = std::string(fields[columns.stage].substr(0, 100));
  if (phase.operation == Operation::barrier) {
    phase.bytes = 0;
  } else if (phase.bytes == 0) {
    return call;  // a collective of nothing
  }
  call.phase = std::move(phase);
  return call;
}

// Transfers name the group of the pair (size 1), not of the pipeline.
bool states_group_size(const Phase& phase) {
  return phase.operation != Operation::shift_next && phase.operation != Operation::shift_prev;
}

}  // namespace

Workload parse_aicb_csv(const Source& source) {
  Workload workload;
  workload.name = source.name();
  Columns columns;
  std::vector<std::vector<Phase>> epochs(1);  // of the first section
  std::size_t sections = 0;
  std::size_t phases = 0;
  for (std::size_t line = 1; line <= source.line_count(); ++line) {
    if (is_blank(source.line(line))) continue;
    if (is_section(source.line(line))) {
      ++sections;
      columns = {};
      continue;
    }
    if (is_header(source.line(line))) {
      columns = parse_header(source, line);
      continue;
    }
    if (columns.count == 0)
      source.fail(line, "expected the header line, 'comm_type,comm_group,...'");
    Call call = parse_call(source, line, columns);
    if (sections > 1) continue;
    if (call.epoch_end) epochs.emplace_back();
    if (!call.phase) continue;
    std::uint64_t& size = workload.sizes[call.phase->group];
    if (states_group_size(*call.phase)) size = std::max(size, call.group_size);
    if (++phases > kMaxPhases) source.fail(line, fmt::format("more than {} calls", kMaxPhases));
    epochs.back().push_back(std::move(*call.phase));
  }
  if (sections > 1) {
    workload.sizes[GroupKind::pipeline] =
        std::max<std::uint64_t>(sections, workload.sizes[GroupKind::pipeline]);
    workload.warnings.push_back(
        fmt::format("{}: has {} pipeline stages; all ranks replay the first one's calls",
                    source.name(), sections));
  }
  std::erase_if(epochs, [](const std::vector<Phase>& epoch) { return epoch.empty(); });
  if (epochs.empty())
    source.fail(std::max<std::size_t>(source.line_count(), 1), "no call to replay");
  if (epochs.size() > 1) {
    workload.init = std::move(epochs.front());
    epochs.erase(epochs.begin());
  }
  for (std::vector<Phase>& epoch : epochs) {
    std::move(epoch.begin(), epoch.end(), std::back_inserter(workload.step));
  }
  return workload;
}

}  // namespace hawser::tool
