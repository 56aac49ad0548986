// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/fault_spec.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace hawser::engine {
namespace {

using proto::Duration;
using proto::NicEvent;

constexpr double kLongestNs = 3.6e12;  // an hour
constexpr std::uint64_t kHighestRate = 1'000'000'000'000;
constexpr std::uint32_t kDeepestReorder = 4096;

// Each of these parses `text` into the output and returns null, or returns the complaint.
using Reason = const char*;

Reason read_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return "is not a number";
  return nullptr;
}

template <typename Integer>
Reason read_integer(std::string_view text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return "is not a whole number";
  return nullptr;
}

Reason read_probability(std::string_view text, double& probability) {
  double value = 0;
  if (const Reason reason = read_number(text, value)) return reason;
  if (!(value >= 0 && value <= 1)) return "is not a probability from 0 to 1";
  probability = value;
  return nullptr;
}

Reason read_duration(std::string_view text, Duration& duration) {
  constexpr Reason kBad = "is not a duration of up to an hour, such as 100us (ns, us, ms, s)";
  if (text == "0") {
    duration = {};
    return nullptr;
  }
  struct Unit {
    std::string_view name;
    double ns;
  };
  for (const Unit& unit : {Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}}) {
    if (!text.ends_with(unit.name)) continue;
    double value = 0;
    if (read_number(text.substr(0, text.size() - unit.name.size()), value)) continue;
    if (!(value >= 0 && value * unit.ns <= kLongestNs)) return kBad;
    duration = {std::llround(value * unit.ns)};
    return nullptr;
  }
  return kBad;
}

// Cuts the part before the first '/' off `rest`. `more` tells whether another part follows.
std::string_view take_part(std::string_view& rest, bool& more) {
  const std::size_t slash = rest.find('/');
  more = slash != std::string_view::npos;
  const std::string_view part = rest.substr(0, slash);
  rest = more ? rest.substr(slash + 1) : std::string_view{};
  return part;
}

Reason read_burst_loss(std::string_view text, DirectionFaults& faults) {
  bool more = false;
  if (const Reason reason = read_probability(take_part(text, more), faults.burst_enter)) {
    return reason;
  }
  if (!more) return "needs two probabilities, P/R: into the bad state and out of it";
  if (const Reason reason = read_probability(take_part(text, more), faults.burst_leave)) {
    return reason;
  }
  faults.burst_loss = 1;
  return more ? read_probability(text, faults.burst_loss) : nullptr;
}

Reason read_reorder(std::string_view text, DirectionFaults& faults) {
  bool more = false;
  if (const Reason reason = read_probability(take_part(text, more), faults.reorder)) return reason;
  faults.reorder_depth = DirectionFaults{}.reorder_depth;
  if (!more) return nullptr;
  if (const Reason reason = read_integer(text, faults.reorder_depth)) return reason;
  if (faults.reorder_depth < 1 || faults.reorder_depth > kDeepestReorder) {
    return "has a depth that is not from 1 to 4096";
  }
  return nullptr;
}

Reason read_delay(std::string_view text, DirectionFaults& faults) {
  bool more = false;
  if (const Reason reason = read_duration(take_part(text, more), faults.delay)) return reason;
  faults.jitter = {};
  return more ? read_duration(text, faults.jitter) : nullptr;
}

Reason read_rate(std::string_view text, DirectionFaults& faults) {
  if (text == "none") {
    faults.rate_bytes_per_s = 0;
    return nullptr;
  }
  if (const Reason reason = read_integer(text, faults.rate_bytes_per_s)) return reason;
  if (faults.rate_bytes_per_s < 1 || faults.rate_bytes_per_s > kHighestRate) {
    return "is not a rate from 1 to 10^12 bytes a second";
  }
  return nullptr;
}

Reason read_blackhole(std::string_view text, FaultSettings& settings) {
  if (text != "tx" && text != "rx" && text != "both" && text != "none") {
    return "is not tx, rx, both or none";
  }
  settings.tx.blackhole = text == "tx" || text == "both";
  settings.rx.blackhole = text == "rx" || text == "both";
  return nullptr;
}

// Reads words that take the prefix "tx." or "rx." (tx if none).
Reason read_directed(std::string_view key, std::string_view value, DirectionFaults& faults,
                     bool& known) {
  known = true;
  if (key == "loss") return read_probability(value, faults.loss);
  if (key == "burst-loss") return read_burst_loss(value, faults);
  if (key == "duplicate") return read_probability(value, faults.duplicate);
  if (key == "reorder") return read_reorder(value, faults);
  if (key == "delay") return read_delay(value, faults);
  if (key == "corrupt") return read_probability(value, faults.corrupt);
  if (key == "truncate") return read_probability(value, faults.truncate);
  if (key == "rate") return read_rate(value, faults);
  known = false;
  return nullptr;
}

void set_dead(FaultSettings& settings, FaultActions& actions, bool dead, bool tell) {
  settings.dead = dead;
  if (tell) actions.event = dead ? NicEvent::Kind::down : NicEvent::Kind::up;
}

// Reads words without a value.
bool read_plain(std::string_view word, FaultSettings& settings, FaultActions& actions) {
  if (word == "kill" || word == "kill:event") {
    set_dead(settings, actions, true, word != "kill");
  } else if (word == "revive" || word == "revive:event") {
    set_dead(settings, actions, false, word != "revive");
  } else if (word == "revive:moved") {
    set_dead(settings, actions, false, true);
    actions.moves = true;
  } else if (word == "clear") {
    const bool dead = settings.dead;
    settings = {};
    settings.dead = dead;
  } else {
    return false;
  }
  return true;
}

Reason read_word(std::string_view word, FaultSettings& settings, FaultActions& actions) {
  constexpr Reason kUnknown = "is not a word of the fault grammar";
  if (word.empty()) return "is empty";
  if (read_plain(word, settings, actions)) return nullptr;
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return kUnknown;
  std::string_view key = word.substr(0, equals);
  const std::string_view value = word.substr(equals + 1);

  if (key == "blackhole") return read_blackhole(value, settings);
  if (key == "late-reap") return read_duration(value, settings.late_reap);
  if (key == "partial-burst") return read_probability(value, settings.partial_burst);
  if (key == "seed") return read_integer(value, actions.seed.emplace());

  const bool receiving = key.starts_with("rx.");
  if (receiving || key.starts_with("tx.")) key.remove_prefix(3);
  bool known = false;
  const Reason reason = read_directed(key, value, receiving ? settings.rx : settings.tx, known);
  return known ? reason : kUnknown;
}

}  // namespace

std::optional<FaultSpecError> parse_fault_spec(std::string_view spec, FaultSettings& settings,
                                               FaultActions& actions) {
  FaultSettings new_settings = settings;
  FaultActions new_actions = actions;
  while (!spec.empty()) {
    const std::size_t comma = spec.find(',');
    const std::string_view word = spec.substr(0, comma);
    if (const Reason reason = read_word(word, new_settings, new_actions)) {
      return FaultSpecError{word, reason};
    }
    if (comma == std::string_view::npos) break;
    spec.remove_prefix(comma + 1);
    if (spec.empty()) return FaultSpecError{spec, "is empty"};
  }
  settings = new_settings;
  actions = new_actions;
  return std::nullopt;
}

std::optional<FaultSpecError> find_unsupported(const FaultSettings& settings,
                                               const proto::NicCaps& caps) {
  if (!caps.needs_checksum && (settings.tx.corrupt > 0 || settings.rx.corrupt > 0)) {
    return FaultSpecError{"corrupt", "needs a NIC whose packets carry Hawser's checksum"};
  }
  return std::nullopt;
}

}  // namespace hawser::engine
