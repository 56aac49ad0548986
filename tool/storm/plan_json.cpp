// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/plan_json.hpp"

#include <functional>
#include <set>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/storm/plan_check.hpp"
#include "tool/error.hpp"
#include "tool/input_file.hpp"
#include "tool/output_file.hpp"
#include "tool/storm/commit.hpp"
#include "tool/strict_json.hpp"
#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

using Json = nlohmann::json;

// Older plans lack these fields. Then all NICs are in one network, and all hosts exist from the
// beginning. They lack younger tunables, too, which then have their defaults.
constexpr std::string_view kNetwork = "network";
constexpr std::string_view kStarts = "starts_ns";
constexpr std::string_view kTakesOver = "takes_over";
constexpr std::string_view kOneSided = "one_sided";
constexpr std::string_view kPieces = "pieces";
constexpr bool may_lack(std::string_view name) {
  return name == kNetwork || name == kStarts || name == kTakesOver || name == kOneSided ||
         name == kPieces;
}

// The name that a field has in older files.
constexpr std::string_view earlier_name(std::string_view name) {
  return name == "channel" ? "context" : name;
}

// ---- the fields of each part of a plan, in their order. The bindings stop compiling when one is
// added that is not written here.

template <class Visit>
void fields(sim::LinkConfig& link, Visit&& visit) {
  auto& [bytes_per_s, latency, queue_bytes, mark_bytes] = link;
  visit("bytes_per_s", bytes_per_s);
  visit("latency_ns", latency);
  visit("queue_bytes", queue_bytes);
  visit("mark_bytes", mark_bytes);
}
template <class Visit>
void fields(sim::PortPlan& port, Visit&& visit) {
  auto& [at_switch, cable, network] = port;
  visit("switch", at_switch);
  visit("cable", cable);
  visit(kNetwork, network);
}
template <class Visit>
void fields(sim::NicConfig& nic, Visit&& visit) {
  auto& [max_datagram_bytes, burst, entropies, send_slots, data_slots, control_slots,
         needs_checksum] = nic;
  visit("max_datagram_bytes", max_datagram_bytes);
  visit("burst", burst);
  visit("entropies", entropies);
  visit("send_slots", send_slots);
  visit("data_slots", data_slots);
  visit("control_slots", control_slots);
  visit("needs_checksum", needs_checksum);
}
template <class Visit>
void fields(sim::HostPlan& host, Visit&& visit) {
  auto& [nics, nic, turn, wake_up, clock, starts, takes_over] = host;
  visit("nics", nics);
  visit("nic", nic);
  visit("turn_ns", turn);
  visit("wake_up_ns", wake_up);
  visit("clock_ns", clock);
  visit(kStarts, starts);
  visit(kTakesOver, takes_over);
}
template <class Visit>
void fields(sim::CablePlan& cable, Visit&& visit) {
  auto& [a, b, link] = cable;
  visit("a", a);
  visit("b", b);
  visit("link", link);
}
template <class Visit>
void fields(Hint& hint, Visit&& visit) {
  auto& [group, members, step, steps, collective, priority] = hint;
  visit("group", group);
  visit("members", members);
  visit("step", step);
  visit("steps", steps);
  visit("collective", collective);
  visit("priority", priority);
}
template <class Visit>
void fields(sim::MessagePlan& message, Visit&& visit) {
  auto& [at, from, to, channel, tag, bytes, level, hint, cancelled_after, pieces] = message;
  visit("at_ns", at);
  visit("from", from);
  visit("to", to);
  visit("channel", channel);
  visit("tag", tag);
  visit("bytes", bytes);
  visit("level", level);
  visit("hint", hint);
  visit("cancelled_after_ns", cancelled_after);
  visit(kPieces, pieces);
}
template <class Visit>
void fields(sim::ReceivePlan& receive, Visit&& visit) {
  auto& [at, host, from, channel, tag, mask, bytes, cancelled_after, held, claims, puts_back,
         pieces] = receive;
  visit("at_ns", at);
  visit("host", host);
  visit("from", from);
  visit("channel", channel);
  visit("tag", tag);
  visit("mask", mask);
  visit("bytes", bytes);
  visit("cancelled_after_ns", cancelled_after);
  visit("held_ns", held);
  visit("claims", claims);
  visit("puts_back", puts_back);
  visit(kPieces, pieces);
}
template <class Visit>
void fields(sim::OneSidedPlan& operation, Visit&& visit) {
  auto& [kind, at, from, to, channel, bytes, word, key, strong, signals, notifies] = operation;
  visit("kind", kind);
  visit("at_ns", at);
  visit("from", from);
  visit("to", to);
  visit("channel", channel);
  visit("bytes", bytes);
  visit("word", word);
  visit("key", key);
  visit("strong", strong);
  visit("signals", signals);
  visit("notifies", notifies);
}
template <class Visit>
void fields(sim::FaultPlan& fault, Visit&& visit) {
  auto& [kind, at, lasts, host, nic, other_host, other_nic, amount, delay] = fault;
  visit("kind", kind);
  visit("at_ns", at);
  visit("lasts_ns", lasts);
  visit("host", host);
  visit("nic", nic);
  visit("other_host", other_host);
  visit("other_nic", other_nic);
  visit("amount", amount);
  visit("delay_ns", delay);
}
template <class Visit>
void fields(sim::ClosingPlan& closing, Visit&& visit) {
  auto& [at, host, other] = closing;
  visit("at_ns", at);
  visit("host", host);
  visit("other", other);
}
template <class Visit>
void fields(sim::CallPlan& call, Visit&& visit) {
  auto& [kind, at, host, other, dice] = call;
  visit("kind", kind);
  visit("at_ns", at);
  visit("host", host);
  visit("other", other);
  visit("dice", dice);
}
template <class T>
constexpr bool has_defaults = std::is_same_v<T, proto::AllTunables>;
template <class Visit>
void fields(proto::AllTunables& tunables, Visit&& visit) {
  proto::for_each_tunable(tunables, [&](std::string_view name, std::uint64_t& value, std::uint64_t,
                                        std::uint64_t) { visit(name, value); });
}
template <class Visit>
void fields(sim::Plan& plan, Visit&& visit) {
  auto& [seed, tunables, has_secret, switches, cables, hosts, messages, receives, one_sided, faults,
         closings, calls, traced, closes_at_end, heals_at] = plan;
  visit("seed", seed);
  visit("tunables", tunables);
  visit("has_secret", has_secret);
  visit("switches", switches);
  visit("cables", cables);
  visit("hosts", hosts);
  visit("messages", messages);
  visit("receives", receives);
  visit("one_sided", one_sided);
  visit("faults", faults);
  visit("closings", closings);
  visit("calls", calls);
  visit("traced", traced);
  visit("closes_at_end", closes_at_end);
  visit("heals_at_ns", heals_at);
}

template <class T>
concept Part = requires(T& part) {
  fields(part, [](std::string_view, auto&) {});
};

// ---- to JSON

template <class T>
Json written(const T& value) {
  if constexpr (std::is_same_v<T, proto::Duration>) {
    return value.ns;
  } else if constexpr (std::is_same_v<T, sim::FaultKind>) {
    return sim::kFaultNames[static_cast<std::size_t>(value)];
  } else if constexpr (std::is_same_v<T, sim::OneSidedKind>) {
    return sim::kOneSidedNames[static_cast<std::size_t>(value)];
  } else if constexpr (std::is_same_v<T, sim::KeyKind>) {
    return sim::kKeyNames[static_cast<std::size_t>(value)];
  } else if constexpr (std::is_same_v<T, sim::CallKind>) {
    return sim::kCallNames[static_cast<std::size_t>(value)];
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<unsigned>(value);
  } else if constexpr (Part<T>) {
    Json json = Json::object();
    fields(const_cast<T&>(value),  // NOLINT: the visitor only reads
           [&](std::string_view name, const auto& field) {
             json[std::string(name)] = written(field);
           });
    return json;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(written(one));
    return list;
  }
}

// ---- from JSON

template <class T>
constexpr unsigned kMostEnum = 0;
template <>
constexpr unsigned kMostEnum<Level> = static_cast<unsigned>(Level::delivered);
template <>
constexpr unsigned kMostEnum<Collective> = static_cast<unsigned>(Collective::barrier);

template <class T>
void read(const Json& json, const std::string& where, T& value) {
  if constexpr (std::is_same_v<T, proto::Duration>) {
    read_number(json, where, value.ns);
  } else if constexpr (std::is_same_v<T, sim::FaultKind>) {
    if (!read_name(json, sim::kFaultNames, value)) refuse_name(where, sim::kFaultNames);
  } else if constexpr (std::is_same_v<T, sim::OneSidedKind>) {
    if (!read_name(json, sim::kOneSidedNames, value)) refuse_name(where, sim::kOneSidedNames);
  } else if constexpr (std::is_same_v<T, sim::KeyKind>) {
    if (!read_name(json, sim::kKeyNames, value)) refuse_name(where, sim::kKeyNames);
  } else if constexpr (std::is_same_v<T, sim::CallKind>) {
    if (!read_name(json, sim::kCallNames, value)) refuse_name(where, sim::kCallNames);
  } else if constexpr (std::is_enum_v<T>) {
    unsigned number = 0;
    read_number(json, where, number);
    refuse_above(where, number, kMostEnum<T>);
    value = static_cast<T>(number);
  } else if constexpr (Part<T>) {
    if (!json.is_object()) refuse(where, "an object is expected");
    std::set<std::string, std::less<>> unknown;
    for (const auto& [name, ignored] : json.items()) unknown.insert(name);
    fields(value, [&](std::string_view name, auto& field) {
      auto found = json.find(std::string(name));
      if (found == json.end()) found = json.find(std::string(earlier_name(name)));
      if (found == json.end() && (has_defaults<T> || may_lack(name))) return;
      if (found == json.end()) refuse(where, fmt::format("'{}' is missing", name));
      unknown.erase(unknown.find(found.key()));
      read(*found, fmt::format("{}{}{}", where, where.empty() ? "" : ".", name), field);
    });
    if (!unknown.empty()) refuse(where, fmt::format("there is no field '{}'", *unknown.begin()));
  } else if constexpr (std::is_arithmetic_v<T>) {
    read_number(json, where, value);
  } else {
    if (!json.is_array()) refuse(where, "a list is expected");
    for (std::size_t i = 0; i < json.size(); ++i) {
      read(json[i], fmt::format("{}[{}]", where, i), value.emplace_back());
    }
  }
}

}  // namespace

Json to_json(const sim::Plan& plan) { return written(plan); }

sim::Plan plan_from_json(const Json& json, const std::string& name) {
  try {
    sim::Plan plan;
    read(json, "", plan);
    const std::string complaint = sim::complaint_about(plan);
    if (!complaint.empty()) throw InputError(complaint);
    return plan;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", name, printable(error.what())));
  }
}

void write_plan(const std::string& file, const sim::Plan& plan, const std::string& note) {
  const Json json{{"note", note}, {"commit", commit()}, {"plan", to_json(plan)}};
  OutputFile(file, "the plan").write(json_text(json, 1) + "\n");
}

sim::Plan read_plan(const std::string& file) {
  const std::string text = read_file(file, "the plan");
  Json json;
  try {
    json = parse_strictly(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("'{}': {}", file, printable(error.what())));
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("'{}' is not a plan: {}", file, printable(error.what())));
  }
  if (!json.is_object() || !json.contains("plan")) {
    throw InputError(fmt::format("'{}' is not a plan: there is no field 'plan'", file));
  }
  for (const auto& [name, value] : json.items()) {
    if (name == "plan" || name == "note" || name == "commit") continue;
    throw InputError(fmt::format("'{}': there is no field '{}'", file, printable(name)));
  }
  return plan_from_json(json["plan"], fmt::format("'{}': plan", file));
}

}  // namespace hawser::tool
