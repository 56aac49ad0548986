// SPDX-License-Identifier: Apache-2.0
#include "tool/run/fault_plan.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint32_t kMaxIndex = 65535;

std::optional<std::uint32_t> parse_index(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > kMaxIndex) {
    return std::nullopt;
  }
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void fail(std::string_view option, std::string_view text, std::string_view expected) {
  throw InputError(fmt::format("{} {}: expected {}", option, text, expected));
}

struct Moment {
  std::string_view what;  // before the @
  double when = 0;
  std::optional<std::string_view> suffix;  // after the :
};

Moment split(std::string_view option, std::string_view text, std::string_view expected) {
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) fail(option, text, expected);
  Moment moment;
  moment.what = text.substr(0, at);
  std::string_view when = text.substr(at + 1);
  if (const std::size_t colon = when.find(':'); colon != std::string_view::npos) {
    moment.suffix = when.substr(colon + 1);
    when = when.substr(0, colon);
  }
  const std::optional<double> fraction = parse_fraction(when);
  if (!fraction) fail(option, text, "a fraction from 0 to below 1 after the @, such as 1/3 or 0.4");
  moment.when = *fraction;
  return moment;
}

std::string_view form_of(TimedFault::Kind kind) {
  switch (kind) {
    case TimedFault::Kind::degrade_nic: return "[RANK.]NIC@WHEN[:BYTES_PER_S], such as 2@1/3:50M";
    case TimedFault::Kind::blackhole_nic: return "[RANK.]NIC@WHEN[:tx|:rx|:both], such as 2@1/3:tx";
    default: return "[RANK.]NIC@WHEN[:event], such as 2@1/3";
  }
}

// Reads the part behind the last colon; false if it makes no sense.
bool read_suffix(TimedFault& fault, std::string_view suffix) {
  switch (fault.kind) {
    case TimedFault::Kind::degrade_nic: {
      const std::optional<std::uint64_t> rate = parse_rate(suffix);
      fault.bytes_per_s = rate.value_or(0);
      return rate.has_value();
    }
    case TimedFault::Kind::blackhole_nic:
      for (const TimedFault::Way way :
           {TimedFault::Way::tx, TimedFault::Way::rx, TimedFault::Way::both}) {
        if (to_string(way) != suffix) continue;
        fault.way = way;
        return true;
      }
      return false;
    default: fault.event = suffix == "event"; return fault.event;
  }
}

std::string rate_text(std::uint64_t bytes_per_s) {
  const auto rate = static_cast<double>(bytes_per_s);
  if (rate < 1e3) return fmt::format("{:g} B/s", rate);
  if (rate < 1e6) return fmt::format("{:g} kB/s", rate / 1e3);
  return fmt::format("{:g} MB/s", rate / 1e6);
}

}  // namespace

std::string_view to_string(TimedFault::Way way) {
  switch (way) {
    case TimedFault::Way::tx: return "tx";
    case TimedFault::Way::rx: return "rx";
    case TimedFault::Way::both: return "both";
  }
  return "?";
}

std::optional<double> parse_fraction(std::string_view text) {
  std::optional<double> value;
  if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::optional<double> above = parse_number(text.substr(0, slash));
    const std::optional<double> below = parse_number(text.substr(slash + 1));
    if (!above || !below || !(*below > 0)) return std::nullopt;
    value = *above / *below;
  } else {
    value = parse_number(text);
  }
  if (!value || !(*value >= 0) || !(*value < 1)) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_rate(std::string_view text) {
  double factor = 1;
  if (text.ends_with('k')) factor = 1e3;
  if (text.ends_with('M')) factor = 1e6;
  if (text.ends_with('G')) factor = 1e9;
  if (factor > 1) text.remove_suffix(1);
  const std::optional<double> value = parse_number(text);
  if (!value || !(*value * factor >= 1) || !(*value * factor <= 1e12)) return std::nullopt;
  return static_cast<std::uint64_t>(*value * factor);
}

TimedFault parse_nic_fault(TimedFault::Kind kind, std::string_view option, std::string_view text) {
  const std::string_view form = form_of(kind);
  const Moment moment = split(option, text, form);
  TimedFault fault;
  fault.kind = kind;
  fault.when = moment.when;
  std::string_view nic = moment.what;
  if (const std::size_t dot = nic.find('.'); dot != std::string_view::npos) {
    fault.rank = parse_index(nic.substr(0, dot));
    if (!fault.rank) fail(option, text, form);
    nic = nic.substr(dot + 1);
  }
  const std::optional<std::uint32_t> index = parse_index(nic);
  if (!index) fail(option, text, form);
  fault.nic = *index;
  if (kind == TimedFault::Kind::degrade_nic) fault.bytes_per_s = kDegradedBytesPerS;
  if (moment.suffix && !read_suffix(fault, *moment.suffix)) fail(option, text, form);
  return fault;
}

TimedFault parse_rank_fault(TimedFault::Kind kind, std::string_view option, std::string_view text) {
  constexpr std::string_view kForm = "RANK@WHEN, such as 3@1/2";
  const Moment moment = split(option, text, kForm);
  TimedFault fault;
  fault.kind = kind;
  fault.when = moment.when;
  fault.rank = parse_index(moment.what);
  if (!fault.rank || moment.suffix) fail(option, text, kForm);
  return fault;
}

FaultWindow fault_window(const std::vector<TimedFault>& faults) {
  constexpr double kNever = 2;
  FaultWindow window;
  // The last thing that happens to each NIC. "Every rank" counts as a rank of its own here. A NIC
  // killed on every rank and revived on one therefore stays dead on the others.
  std::map<std::pair<std::int64_t, std::uint32_t>, const TimedFault*> last;
  for (const TimedFault& fault : faults) {
    if (!fault.of_nic()) continue;
    if (!window.exists()) window.end = 0;
    window.begin = std::min(window.begin, fault.when);
    window.end = std::max(window.end, fault.when);
    const std::pair nic{fault.rank ? static_cast<std::int64_t>(*fault.rank) : -1, fault.nic};
    const TimedFault*& entry = last[nic];
    if (entry == nullptr || entry->when <= fault.when) entry = &fault;
  }
  const auto revived_on_all = [&](const TimedFault& after) {
    return std::any_of(faults.begin(), faults.end(), [&](const TimedFault& other) {
      return other.kind == TimedFault::Kind::revive_nic && !other.rank && other.nic == after.nic &&
             other.when >= after.when;
    });
  };
  for (const auto& entry : last) {
    const TimedFault& fault = *entry.second;
    if (fault.kind != TimedFault::Kind::revive_nic && !revived_on_all(fault)) window.end = kNever;
  }
  return window;
}

std::string_view to_string(When when) {
  switch (when) {
    case When::before: return "before";
    case When::during: return "during";
    case When::after: return "after";
  }
  return "?";
}

When classify(const FaultWindow& window, double begin, double end) {
  if (!window.exists() || end <= window.begin) return When::before;
  return begin >= window.end ? When::after : When::during;
}

std::string fault_word(const TimedFault& fault) {
  switch (fault.kind) {
    case TimedFault::Kind::kill_nic: return fault.event ? "kill:event" : "kill";
    // A revival also heals a degraded NIC and a black hole.
    case TimedFault::Kind::revive_nic:
      return fmt::format("revive{},tx.rate=none,rx.rate=none,blackhole=none",
                         fault.event ? ":event" : "");
    case TimedFault::Kind::blackhole_nic: return fmt::format("blackhole={}", to_string(fault.way));
    case TimedFault::Kind::degrade_nic:
      return fmt::format("tx.rate={0},rx.rate={0}", fault.bytes_per_s);
    case TimedFault::Kind::kill_rank:
    case TimedFault::Kind::restart_rank: break;
  }
  return {};
}

std::string describe(const TimedFault& fault) {
  switch (fault.kind) {
    case TimedFault::Kind::kill_nic:
      return fmt::format("NIC {} killed{}", fault.nic,
                         fault.event ? ", with an event" : ", silently");
    case TimedFault::Kind::revive_nic:
      return fmt::format("NIC {} revived{}", fault.nic, fault.event ? ", with an event" : "");
    case TimedFault::Kind::degrade_nic:
      return fmt::format("NIC {} degraded to {}", fault.nic, rate_text(fault.bytes_per_s));
    case TimedFault::Kind::blackhole_nic:
      switch (fault.way) {
        case TimedFault::Way::tx: return fmt::format("NIC {} loses all that it sends", fault.nic);
        case TimedFault::Way::rx:
          return fmt::format("NIC {} loses all that it receives", fault.nic);
        case TimedFault::Way::both: return fmt::format("NIC {} loses all packets", fault.nic);
      }
      break;
    case TimedFault::Kind::kill_rank: return "kills itself";
    case TimedFault::Kind::restart_rank: return "kills itself, to be restarted";
  }
  return {};
}

}  // namespace hawser::tool
