// SPDX-License-Identifier: Apache-2.0
// Feeds the readers of text that people and launchers write. The first byte selects the reader, and
// the rest is its text. There are readers of fault specifications, of the faults of a run, of rates
// and moments, of NICs and lists of them, and of the environment (NAME=VALUE lines). An accepted
// text is within its documented range. A refused text gives a sentence that names the mistake, and
// changes nothing.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "engine/bootstrap/job_environment.hpp"
#include "engine/driver/fault/fault_spec.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/host/nic_spec.hpp"
#include "engine/settings.hpp"
#include "hawser/engine.hpp"
#include "hawser/faults.hpp"
#include "hawser/nics.hpp"
#include "proto/base/assert.hpp"
#include "tool/error.hpp"
#include "tool/run/fault_plan.hpp"

namespace hawser::test {
namespace {

constexpr std::int64_t kHourNs = 3'600'000'000'000;

bool is_probability(double value) { return value >= 0 && value <= 1; }
bool is_up_to_an_hour(proto::Duration time) { return time.ns >= 0 && time.ns <= kHourNs; }

void check_direction(const engine::DirectionFaults& faults) {
  for (const double value : {faults.loss, faults.burst_enter, faults.burst_leave, faults.burst_loss,
                             faults.duplicate, faults.reorder, faults.corrupt, faults.truncate}) {
    HAWSER_ASSERT(is_probability(value), "no probability");
  }
  HAWSER_ASSERT(faults.reorder_depth >= 1 && faults.reorder_depth <= 4096);
  HAWSER_ASSERT(is_up_to_an_hour(faults.delay) && is_up_to_an_hour(faults.jitter));
  HAWSER_ASSERT(faults.rate_bytes_per_s <= 1'000'000'000'000);
}

bool is_same(const engine::DirectionFaults& a, const engine::DirectionFaults& b) {
  return a.loss == b.loss && a.burst_enter == b.burst_enter && a.burst_leave == b.burst_leave &&
         a.burst_loss == b.burst_loss && a.duplicate == b.duplicate && a.reorder == b.reorder &&
         a.reorder_depth == b.reorder_depth && a.delay.ns == b.delay.ns &&
         a.jitter.ns == b.jitter.ns && a.corrupt == b.corrupt && a.truncate == b.truncate &&
         a.blackhole == b.blackhole && a.rate_bytes_per_s == b.rate_bytes_per_s;
}

bool is_same(const engine::FaultSettings& a, const engine::FaultSettings& b) {
  return is_same(a.tx, b.tx) && is_same(a.rx, b.rx) && a.late_reap.ns == b.late_reap.ns &&
         a.partial_burst == b.partial_burst && a.dead == b.dead;
}

void fault_spec(std::string_view text) {
  engine::FaultSettings settings;
  engine::FaultActions actions;
  HAWSER_ASSERT(!engine::parse_fault_spec("loss=0.5,rx.delay=1ms/2ms", settings, actions));
  const engine::FaultSettings before = settings;
  const auto error = engine::parse_fault_spec(text, settings, actions);
  if (error) {
    HAWSER_ASSERT(is_same(settings, before) && !actions.seed && !actions.event, "half applied");
    HAWSER_ASSERT(!error->reason.empty());
    const char* const word = error->word.data();
    HAWSER_ASSERT(error->word.empty() || (word >= text.data() &&
                                          word + error->word.size() <= text.data() + text.size()),
                  "a word that nobody wrote");
    return;
  }
  check_direction(settings.tx);
  check_direction(settings.rx);
  HAWSER_ASSERT(is_up_to_an_hour(settings.late_reap) && is_probability(settings.partial_burst));
  engine::FaultSettings again = before;
  HAWSER_ASSERT(!engine::parse_fault_spec(text, again, actions) && is_same(again, settings));
}

void run_fault(std::uint8_t mode, std::string_view text) {
  using Kind = tool::TimedFault::Kind;
  constexpr std::array kKinds{Kind::kill_nic,      Kind::revive_nic, Kind::degrade_nic,
                              Kind::blackhole_nic, Kind::kill_rank,  Kind::restart_rank};
  const Kind kind = kKinds[mode % kKinds.size()];
  const bool of_rank = kind == Kind::kill_rank || kind == Kind::restart_rank;
  try {
    const tool::TimedFault fault = of_rank ? tool::parse_rank_fault(kind, "--option", text)
                                           : tool::parse_nic_fault(kind, "--option", text);
    HAWSER_ASSERT(fault.kind == kind && fault.when >= 0 && fault.when < 1 && fault.nic <= 65535);
    HAWSER_ASSERT(!of_rank || fault.rank);
    HAWSER_ASSERT(!fault.rank || *fault.rank <= 65535);
    HAWSER_ASSERT((fault.bytes_per_s > 0) == (kind == Kind::degrade_nic));
    HAWSER_ASSERT(fault.bytes_per_s <= 1'000'000'000'000);
    const tool::FaultWindow window = tool::fault_window({fault});
    HAWSER_ASSERT(window.exists() == fault.of_nic() && !tool::describe(fault).empty());
    // The word that the NICs get follows the grammar of faults.
    const std::string word = tool::fault_word(fault);
    HAWSER_ASSERT(word.empty() == of_rank && complaint_about_faults(word).empty());
  } catch (const tool::InputError& error) {
    HAWSER_ASSERT(std::string_view(error.what()).starts_with("--option "), "of what?");
  }
}

void number(std::string_view text) {
  if (const auto rate = tool::parse_rate(text)) {
    HAWSER_ASSERT(*rate >= 1 && *rate <= 1'000'000'000'000);
  }
  if (const auto fraction = tool::parse_fraction(text)) {
    HAWSER_ASSERT(*fraction >= 0 && *fraction < 1);
  }
}

void nic(std::string_view text) {
  using Driver = engine::NicSpec::Driver;
  try {
    const engine::NicSpec spec = engine::parse_nic_spec(text);
    HAWSER_ASSERT(!spec.where.empty() && text.ends_with(spec.where));
    if (spec.driver != Driver::verbs) return;
    const engine::VerbsPortName port = engine::parse_verbs_port(spec.where);
    const std::string name = engine::to_string(port);
    const engine::VerbsPortName again = engine::parse_verbs_port(name);
    HAWSER_ASSERT(again.device == port.device && again.port == port.port &&
                      again.gid_index == port.gid_index && engine::to_string(again) == name,
                  "a port whose name is another's");
  } catch (const Error& error) {
    const std::string_view what = error.what();
    HAWSER_ASSERT(what.starts_with("NIC \"") || what.starts_with("verbs:"), "of what?");
  }
}

void nic_list(std::string_view text) {
  const std::vector<HostNic> host = host_nics();
  const auto check = [&](const std::vector<NicCandidate>& candidates) {
    HAWSER_ASSERT(candidates.size() == host.size());
    for (std::size_t i = 0; i < host.size(); ++i) {
      HAWSER_ASSERT(candidates[i].nic.name == host[i].name && !candidates[i].reason.empty());
    }
  };
  try {
    const NicChoice choice = choose_nics(text);
    check(choice.candidates);
    HAWSER_ASSERT(!choice.nics.empty());
    for (const NicCandidate& one : choice.candidates) {
      HAWSER_ASSERT(one.chosen || std::ranges::count(choice.nics, one.nic.name) == 0,
                    "a NIC that wasn't chosen");
    }
  } catch (const NicChoiceError& error) {
    if (error.candidates().empty()) return;  // the list is malformed
    check(error.candidates());
    for (const NicCandidate& one : error.candidates()) HAWSER_ASSERT(!one.chosen);
  }
}

// Sets the variables that the readers know, and no others of the process.
class Environment {
 public:
  explicit Environment(std::string_view lines) {
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      set(lines.substr(0, end));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  }
  ~Environment() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(std::string_view line) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) return;
    const std::string name(line.substr(0, equals));
    constexpr std::array<std::string_view, 15> kLaunchers{"RANK",
                                                          "WORLD_SIZE",
                                                          "MASTER_ADDR",
                                                          "MASTER_PORT",
                                                          "LOCAL_RANK",
                                                          "LOCAL_WORLD_SIZE",
                                                          "TORCHELASTIC_USE_AGENT_STORE",
                                                          "PMIX_RANK",
                                                          "PMIX_NAMESPACE",
                                                          "PMI_RANK",
                                                          "PMI_SIZE",
                                                          "SLURM_PROCID",
                                                          "SLURM_NTASKS",
                                                          "SLURM_STEP_NUM_TASKS",
                                                          "SLURM_STEP_NODELIST"};
    bool known = name.starts_with("HAWSER_") && name.find('\0') == std::string::npos;
    for (const std::string_view other : kLaunchers) known |= name == other;
    if (!known) return;
    setenv(name.c_str(), std::string(line.substr(equals + 1)).c_str(), 1);
    names_.push_back(name);
  }
  std::vector<std::string> names_;
};

// A complaint must name a variable of the environment, as NAME=VALUE or NAME. About one that is
// misspelt, it must name the nearest one.
void check_complaint(std::string_view what) {
  constexpr std::string_view kMisspelt = "There is no variable HAWSER_";
  if (what.starts_with(kMisspelt)) {
    HAWSER_ASSERT(what.find("; HAWSER_") != std::string_view::npos, "no advice");
    return;
  }
  const std::size_t end = what.find_first_of("= ");
  const std::string name(what.substr(0, end));
  HAWSER_ASSERT(!name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
                                     std::string::npos,
                "a complaint about nothing");
}

void environment(std::string_view text) {
  const Environment variables(text);
  Tunables tunables;
  try {
    engine::apply_environment(tunables);
    for (const TunableRow& row : kTunables) {
      const std::uint64_t value = tunables.*row.field;
      HAWSER_ASSERT(value >= row.minimum && value <= row.maximum, "a tunable out of its range");
    }
  } catch (const Error& error) {
    check_complaint(error.what());
  }
  try {
    const auto place = engine::job_place_from_environment();
    if (place) {
      HAWSER_ASSERT(place->rank < place->size && !place->rendezvous.empty());
    } else {
      static_cast<void>(engine::started_by_pmix());
    }
  } catch (const Error& error) {
    check_complaint(error.what());
  }
}

}  // namespace
}  // namespace hawser::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hawser::test;
  if (size == 0) return 0;
  // The copy is exactly as large as the text, so that a sanitizer notices a read beyond it.
  const std::string text(data + 1, data + size);
  const std::uint8_t mode = data[0];
  switch (mode % 5) {
    case 0: fault_spec(text); break;
    case 1: run_fault(mode / 5, text); break;
    case 2: number(text); break;
    case 3: mode / 5 % 2 == 0 ? nic(text) : nic_list(text); break;
    default: environment(text); break;
  }
  return 0;
}
