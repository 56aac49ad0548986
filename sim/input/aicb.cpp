// SPDX-License-Identifier: Apache-2.0
#include "sim/input/aicb.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sim/input/characters.hpp"
#include "sim/input/text.hpp"

namespace hawser::fabric {

namespace {

constexpr std::uint64_t kMostRanks = 1 << 20;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostCalls = 4'000'000;
constexpr std::size_t kLongestName = 100;
using Words = std::vector<std::string_view>;
using What = Operation::What;

constexpr std::array<std::string_view, 12> kColumns{
    "comm_type", "comm_group", "comm_group_size", "msg_size", "stage", "dst",
    "src",       "additional", "_elapsed_time",   "algbw",    "busbw", "count"};

struct Type {
  std::string_view name;
  Collective collective;
  bool to_root = false;
};
constexpr std::array<Type, 9> kTypes{{{"all_reduce", Collective::all_reduce},
                                      {"all_gather", Collective::all_gather},
                                      {"all_gather_into_tensor", Collective::all_gather},
                                      {"reduce_scatter", Collective::reduce_scatter},
                                      {"reduce_scatter_tensor", Collective::reduce_scatter},
                                      {"all_to_all", Collective::all_to_all},
                                      {"broadcast", Collective::broadcast},
                                      {"reduce", Collective::all_reduce, true},
                                      {"barrier", Collective::barrier}}};

constexpr std::array<std::pair<std::string_view, Axis>, 9> kGroups{
    {{"tp_group", Axis::tensor},
     {"dp_group", Axis::data},
     {"ep_group", Axis::expert},
     {"ep_dp_group", Axis::data_of_expert},
     {"ep_tp_group", Axis::expert_tensor},
     {"pp_group", Axis::pipeline},
     {"embedding_group", Axis::embedding},
     {"all", Axis::all},
     {"all_nodes", Axis::all}}};

constexpr std::string_view kGroupClass = "CommGroup.";
constexpr std::string_view kSeparators = ",;\t";

// Fields without a value, as pandas, spreadsheets and AICB write them. AICB replaces what is
// missing by -1, which is -1.0 in a column that pandas holds as floats.
constexpr std::array<std::string_view, 7> kMissing{"", "None", "nan", "NaN", "<NA>", "-1", "-1.0"};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Names are those of Python's enumerations. Some versions of Python write the class before them.
std::string_view without_class(std::string_view name, std::string_view of) {
  if (name.starts_with(of)) name.remove_prefix(of.size());
  return name;
}

bool is_missing(std::string_view field) {
  return std::ranges::find(kMissing, field) != kMissing.end();
}

Words split(std::string_view text) {
  Words fields;
  for (;;) {
    const std::size_t end = std::min(text.find_first_of(kSeparators), text.size());
    fields.push_back(trimmed(text.substr(0, end)));
    if (end == text.size()) return fields;
    text.remove_prefix(end + 1);
  }
}

// A line from its first character that is neither a blank nor a quote.
std::string_view bare(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with('"')) line = trimmed(line.substr(1));
  return line;
}

// Whether the line has no content. Spreadsheets quote a comment that has commas, and fill up short
// rows, even empty ones, with separators.
bool is_skipped(const Text& text, std::size_t line) {
  return text.says_nothing(line) || bare(text.line(line)).starts_with('#') ||
         text.line(line).find_first_not_of(" \f\v\",;\t") == std::string_view::npos;
}

// Whether the line names the columns, which may come in any order.
bool names_columns(std::string_view line) {
  if (bare(line).starts_with(kColumns[0])) return true;
  return std::ranges::any_of(split(line), [](std::string_view field) {
    field = bare(field);
    if (field.ends_with('"')) field.remove_suffix(1);
    return trimmed(field) == kColumns[0];
  });
}

class AicbReader {
 public:
  AicbReader(const std::string& name, std::string_view content) : text_(name, content) {}

  AicbWorkload read() {
    for (std::size_t line = 1; line <= text_.lines(); ++line) {
      if (is_skipped(text_, line)) continue;
      // Not trimmed: a tab at either end is the separator of an empty field.
      const std::string_view whole = text_.line(line);
      const std::string_view begin = bare(whole);
      if (begin.starts_with('[')) {
        stage(line, begin.substr(0, begin.find('"')));
      } else if (columns_.empty() && names_columns(whole)) {
        columns(line, whole);
      } else {
        call(line, fields_of(line, whole));
      }
    }
    check();
    return std::move(workload_);
  }

 private:
  struct Size {
    std::uint32_t ranks = 0;
    std::size_t line = 0;
  };

  std::uint32_t small(std::size_t line, std::string_view word, const std::string& what,
                      std::uint64_t least = 0) const {
    return static_cast<std::uint32_t>(text_.number(line, word, what, least, kMostRanks));
  }

  // The fields of a line, as in RFC 4180: a field in quotes may contain separators.
  Words fields_of(std::size_t line, std::string_view text) const {
    Words fields;
    for (;;) {
      while (!text.empty() && text[0] != between_ && kBlanks.find(text[0]) != kBlanks.npos) {
        text.remove_prefix(1);
      }
      std::size_t end = 0;
      if (text.starts_with('"')) {
        end = text.find('"', 1);
        while (end != std::string_view::npos && text.substr(end + 1).starts_with('"')) {
          end = text.find('"', end + 2);  // two quotes stand for one in the field
        }
        if (end == std::string_view::npos) text_.fail(line, "a quote is opened and not closed");
        fields.push_back(trimmed(text.substr(1, end - 1)));
        const std::size_t next = std::min(text.find(between_, end), text.size());
        if (!trimmed(text.substr(end + 1, next - end - 1)).empty()) {
          text_.fail(line, "a field continues after its closing quote");
        }
        end = next;
      } else {
        end = std::min(text.find(between_), text.size());
        fields.push_back(trimmed(text.substr(0, end)));
      }
      if (end == text.size()) return fields;
      text.remove_prefix(end + 1);
    }
  }

  // "rank17" -> 17
  std::uint32_t rank(std::size_t line, std::string_view word) const {
    word = trimmed(word);
    if (!word.starts_with("rank")) {
      text_.fail(line, "a rank is written rank0, rank1 ..., not " + quoted(word));
    }
    word.remove_prefix(4);
    return small(line, word, "a rank");
  }

  void stage(std::size_t line, std::string_view whole) {
    if (!columns_.empty() && workload_.stages.empty()) {
      text_.fail(line, "the line that names the ranks must come before all calls");
    }
    whole = whole.substr(0, whole.find_last_not_of(" \f\v,;\t") + 1);
    if (!whole.ends_with(']')) text_.fail(line, "']' is missing at the end");
    std::string_view inside = trimmed(whole.substr(1, whole.size() - 2));
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    if (inside.starts_with("pp_stage")) {
      const std::size_t colon = std::min(inside.find(':'), inside.size());
      const std::uint32_t number = small(line, inside.substr(8, colon - 8), "a stage");
      if (number != workload_.stages.size()) {
        text_.fail(line, "stage " + std::to_string(number) + " follows here, but stage " +
                             std::to_string(workload_.stages.size()) + " is next");
      }
      inside = trimmed(inside.substr(std::min(colon + 1, inside.size())));
      if (!inside.starts_with('[') || !inside.ends_with(']') || inside.size() < 2) {
        text_.fail(line, "a stage's ranks are written [rank0, rank1 ...]");
      }
      const Words ranks = split(inside.substr(1, inside.size() - 2));
      first = rank(line, ranks[0]);
      last = first;
      for (std::size_t i = 1; i < ranks.size(); ++i) {
        if (rank(line, ranks[i]) != ++last) {
          text_.fail(line, quoted(ranks[i]) + " doesn't follow the rank before it");
        }
      }
    } else {
      const std::size_t dash = inside.find('~');
      if (dash == std::string_view::npos || !workload_.stages.empty()) {
        text_.fail(line,
                   "the line that names the ranks is [rank0 ~ rank127], once, or [ pp_stage0: "
                   "[rank0, rank1] ]");
      }
      first = rank(line, inside.substr(0, dash));
      last = rank(line, inside.substr(dash + 1));
    }
    begin_stage(line, first, last);
  }

  void begin_stage(std::size_t line, std::uint32_t first, std::uint32_t last) {
    if (first != workload_.ranks || last < first) {
      text_.fail(line, "ranks " + std::to_string(first) + " to " + std::to_string(last) +
                           " are named, but " + std::to_string(workload_.ranks) + " is next");
    }
    const std::uint32_t count = last - first + 1;
    if (!workload_.stages.empty() && count != per_stage_) {
      text_.fail(line, "a stage of " + std::to_string(count) + " ranks, but the first has " +
                           std::to_string(per_stage_));
    }
    per_stage_ = count;
    workload_.ranks = last + 1;
    workload_.stages.emplace_back(1);
    columns_.clear();
  }

  void columns(std::size_t line, std::string_view whole) {
    between_ = ',';
    for (const char each : {';', '\t'}) {
      if (whole.find(',') == std::string_view::npos && whole.find(each) != std::string_view::npos) {
        between_ = each;
      }
    }
    Words names = fields_of(line, whole);
    while (names.back().empty()) names.pop_back();
    has_columns_ = true;
    for (const std::string_view name : names) {
      columns_.emplace_back(name);
      if (name.empty()) continue;  // pandas' index
      if (std::ranges::count(kColumns, name) == 0) {
        workload_.warnings.push_back(
            text_.note(line, "the column " + quoted(name) + " is unknown, and is ignored"));
      }
      if (std::ranges::count(names, name) > 1) text_.fail(line, quoted(name) + " occurs twice");
    }
    for (const std::string_view needed : {"comm_type", "comm_group", "msg_size"}) {
      if (std::ranges::count(names, needed) == 0) {
        text_.fail(line, "the column " + std::string(needed) + " is missing");
      }
    }
    if (workload_.stages.empty()) workload_.stages.emplace_back(1);
  }

  std::string_view field(const Words& fields, std::string_view name) const {
    const auto found = std::ranges::find(columns_, name);
    if (found == columns_.end()) return "None";
    return fields[static_cast<std::size_t>(found - columns_.begin())];
  }

  // The type of a call; empty if the line is too short to have one.
  std::string_view type_of(const Words& fields) const {
    const auto place =
        static_cast<std::size_t>(std::ranges::find(columns_, kColumns[0]) - columns_.begin());
    return place < fields.size() ? without_class(fields[place], "CommType.") : "";
  }

  void call(std::size_t line, Words fields) {
    if (columns_.empty()) {
      text_.fail(line,
                 "the columns (comm_type,comm_group,...) must be named before the first call");
    }
    const std::string_view type = type_of(fields);
    if (type == kColumns[0]) text_.fail(line, "the columns are already named");
    // Its msg_size holds the shapes of matrices, whose commas AICB doesn't quote: the line has any
    // number of fields.
    if (type == "computation") return;
    while (fields.size() > columns_.size() && fields.back().empty()) fields.pop_back();
    if (fields.size() != columns_.size()) {
      text_.fail(line, "a call has " + std::to_string(columns_.size()) + " fields, not " +
                           std::to_string(fields.size()));
    }
    if (type == "epoch_end") {
      workload_.stages.back().emplace_back();
      return;
    }
    Operation one;
    one.line = static_cast<std::uint32_t>(line);
    if (type == "isend" || type == "irecv") {
      pass(line, fields, type, one);
    } else {
      collective(line, fields, type, one);
    }
    if (one.collective != Collective::barrier) {
      one.bytes = text_.number(line, field(fields, "msg_size"), "msg_size", 0, kMostBytes);
    }
    std::uint32_t count = 1;
    if (!is_missing(field(fields, "count"))) {
      count = static_cast<std::uint32_t>(
          text_.number(line, field(fields, "count"), "count", 1, kMostCalls));
    }
    calls_ += count;
    if (calls_ > kMostCalls) {
      text_.fail(line, "a workload has at most " + std::to_string(kMostCalls) + " calls");
    }
    workload_.stages.back().back().push_back({one, count});
    if (const std::string_view name = field(fields, "stage"); !is_missing(name)) {
      workload_.names.emplace(one.line, name.substr(0, kLongestName));
    }
  }

  void pass(std::size_t line, const Words& fields, std::string_view type, Operation& one) const {
    if (without_class(field(fields, "comm_group"), kGroupClass) != "pp_group") {
      text_.fail(line, "comm_group is " + quoted(field(fields, "comm_group")) +
                           ", but isend and irecv are of CommGroup.pp_group");
    }
    one.what = type == "isend" ? What::send : What::receive;
    const std::string verb = type == "isend" ? "send_" : "recv_";
    const std::string_view where = field(fields, "additional");
    if (where != verb + "next" && where != verb + "prev") {
      text_.fail(line, "additional is " + quoted(where) + ", but of " + std::string(type) +
                           " it is " + verb + "next or " + verb + "prev");
    }
    one.next = where.ends_with("next");
    one.axis = Axis::pipeline;
  }

  void collective(std::size_t line, const Words& fields, std::string_view type, Operation& one) {
    const auto which = std::ranges::find(kTypes, type, &Type::name);
    if (which == kTypes.end()) {
      std::string known;
      for (const Type& each : kTypes) known += std::string(each.name) + ", ";
      text_.fail(line, "comm_type is " + quoted(field(fields, "comm_type")) +
                           ", which is unknown; known are " + known +
                           "isend, irecv, computation, epoch_end");
    }
    const std::string_view group = without_class(field(fields, "comm_group"), kGroupClass);
    const auto axis = std::ranges::find(kGroups, group, [](const auto& row) { return row.first; });
    if (axis == kGroups.end()) {
      text_.fail(line, "comm_group is " + quoted(field(fields, "comm_group")) +
                           ", which is not a known group");
    }
    one.what = What::collective;
    one.axis = axis->second;
    one.collective = which->collective;
    one.to_root = which->to_root;
    root(line, fields, one);
    if (is_missing(field(fields, "comm_group_size"))) return;
    const std::uint32_t size = small(line, field(fields, "comm_group_size"), "comm_group_size", 1);
    Size& said = sizes_[one.axis];
    if (said.line > 0 && said.ranks != size) {
      text_.fail(line, "comm_group_size is " + std::to_string(size) + ", but " +
                           std::to_string(said.ranks) + " for the same group in line " +
                           std::to_string(said.line));
    }
    said = {size, line};
    workload_.sizes[one.axis] = size;
  }

  // The root: a broadcast names in `src` the rank that it comes from, a reduce in `dst` the one it
  // goes to.
  void root(std::size_t line, const Words& fields, Operation& one) const {
    const char* const column = one.to_root ? "dst" : "src";
    if (!one.to_root && one.collective != Collective::broadcast) return;
    if (is_missing(field(fields, column))) return;
    one.root = small(line, field(fields, column), column);
  }

  // Derives group sizes from the ranks and stages, and warns about a size that contradicts them. A
  // group that doesn't occur may have any size.
  void check() {
    if (!has_columns_) {
      text_.fail(1, "no line names the columns (comm_type,comm_group,...): is this an AICB file?");
    }
    if (calls_ == 0) text_.fail(1, "there are no calls");
    workload_.tensor = sizes_[Axis::tensor].ranks;
    workload_.expert = sizes_[Axis::expert].ranks;
    if (workload_.ranks == 0) return;
    const auto stages = static_cast<std::uint32_t>(workload_.stages.size());
    need(Axis::all, workload_.ranks, "all ranks");
    need(Axis::pipeline, stages, "the stages");
    need(Axis::embedding, std::min(stages, 2u), "the first stage and the last");
    if (workload_.tensor > 0) {
      need(Axis::data, per_stage_ / workload_.tensor, "a stage's ranks by tensor groups");
    }
  }

  void need(Axis axis, std::uint32_t ranks, const std::string& what) {
    const Size& said = sizes_[axis];
    if (said.line == 0 || said.ranks == ranks) return;
    workload_.warnings.push_back(text_.note(said.line, "comm_group_size is " +
                                                           std::to_string(said.ranks) + ", but " +
                                                           what + " are " + std::to_string(ranks)));
  }

  Text text_;
  AicbWorkload workload_;
  std::vector<std::string> columns_;  // of the section that is being read
  bool has_columns_ = false;          // any section
  std::map<Axis, Size> sizes_;
  std::uint32_t per_stage_ = 0;
  char between_ = ',';  // separates fields
  std::uint64_t calls_ = 0;
};

}  // namespace

bool is_aicb(const std::string& name, std::string_view content) {
  const Text text(name, content);
  for (std::size_t line = 1; line <= text.lines(); ++line) {
    if (is_skipped(text, line)) continue;
    return bare(text.line(line)).starts_with('[') || names_columns(text.line(line));
  }
  text.fail(1, "the file is empty");
}

AicbWorkload read_aicb(const std::string& name, std::string_view content) {
  return AicbReader(name, content).read();
}

Workload workload_of(const AicbWorkload& aicb, const Cut& cut) {
  Workload workload{
      .ranks = aicb.ranks, .tensor = aicb.tensor, .expert = aicb.expert, .stages = {}};
  if (cut.iterations == 0) throw InputError("iterations are at least 1");
  std::uint64_t operations = 0;
  for (const auto& stage : aicb.stages) {
    std::vector<const std::vector<AicbCall>*> epochs;
    for (const auto& epoch : stage) {
      if (!epoch.empty()) epochs.push_back(&epoch);
    }
    if (epochs.size() > 1) epochs.erase(epochs.begin());
    std::vector<Operation>& program = workload.stages.emplace_back();
    for (std::uint32_t i = 0; i < cut.iterations && !epochs.empty(); ++i) {
      std::uint64_t left = cut.layers > 0 ? cut.layers : kMostCalls;
      for (const AicbCall& call : *epochs[i % epochs.size()]) {
        const std::uint64_t count = std::min<std::uint64_t>(call.count, left);
        left -= count;
        operations += count;
        if (operations > 2 * kMostCalls) {
          throw InputError("more than " + std::to_string(2 * kMostCalls) +
                           " calls in all: take fewer iterations");
        }
        program.insert(program.end(), count, call.operation);
      }
    }
  }
  return workload;
}

}  // namespace hawser::fabric
