// SPDX-License-Identifier: Apache-2.0
#include "tool/sim/plan_json.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <set>

#include "sim/experiment/ideal.hpp"
#include "sim/input/connections.hpp"
#include "sim/input/topology.hpp"
#include "tool/input_file.hpp"
#include "tool/sim/json_keys.hpp"
#include "tool/storm/options.hpp"
#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

using Json = nlohmann::json;
using experiment::FaultPlan;
using experiment::Plan;
using fabric::Shape;

constexpr std::uint32_t kMostHosts = 8192;
constexpr std::size_t kMostPoints = 10'000;
constexpr std::uint64_t kMostGbps = 10'000;
constexpr std::uint64_t kMostNs = 1'000'000'000;
constexpr double kMostUs = 1e9;
constexpr std::uint32_t kMostBytes = 1'000'000'000;
constexpr std::array<std::string_view, 3> kPlacements{"together", "rails", "planes"};
constexpr std::array<std::string_view, 3> kHints{"none", "receives", "all"};

fabric::Span microseconds_of(double us) {
  constexpr double kPs = 1e6;
  return {std::llround(us * kPs)};
}

// ---- the fabric

Shape made_shape(JsonKeys& keys, const std::string& kind, std::string& said) {
  const auto count = [&](const char* name) {
    return keys.number<std::uint32_t>(name, 1, kMostHosts);
  };
  const auto gbps = keys.number<std::uint64_t>("gbps", 1, kMostGbps);
  const auto cable_ns = keys.number<std::uint64_t>("cable_ns", 0, kMostNs);
  const std::uint64_t rate = gbps * fabric::kGigabit;
  const fabric::Span cable = fabric::nanoseconds(static_cast<std::int64_t>(cable_ns));
  if (kind == "one_switch") {
    said = "one switch";
    return fabric::one_switch(count("ports"), rate, cable);
  }
  if (kind == "leaf_spine") {
    const std::uint32_t leaves = count("leaves");
    const std::uint32_t spines = count("spines");
    said = fmt::format("leaf-spine, {} leaves and {} spines", leaves, spines);
    return fabric::leaf_spine(leaves, count("ports_per_leaf"), spines, rate, cable);
  }
  if (kind != "fat_tree") {
    refuse(keys.path("shape"), "one of these is expected: one_switch, leaf_spine, fat_tree");
  }
  const auto radix = keys.number<std::uint32_t>("radix", 2, 32);
  if (radix % 2 != 0)
    refuse(keys.path("radix"), "half of a switch's ports lead up, so their number is even");
  said = fmt::format("fat tree of switches with {} ports", radix);
  return fabric::fat_tree(radix, rate, cable);
}

Shape read_shape(JsonKeys& keys, PlanInputs& inputs, std::string& said) {
  if (keys.has("topology") == keys.has("shape")) {
    refuse(keys.where(), "either 'topology', a file, or 'shape' is expected");
  }
  const std::string get = keys.text_or("get", "");
  if (!keys.has("topology")) {
    Shape shape = made_shape(keys, keys.text("shape"), said);
    const auto switch_ns = keys.number_or<std::uint64_t>("switch_ns", 0, 0, kMostNs);
    for (fabric::Tier& tier : shape.tiers) {
      tier.switch_latency = fabric::nanoseconds(static_cast<std::int64_t>(switch_ns));
    }
    return shape;
  }
  said = keys.text("topology");
  return fabric::read_topology(said, inputs.content(said, get));
}

// Hosts have several NICs, which share the ports of a tree.
void place_nics(JsonKeys& keys, Shape& shape) {
  const std::uint32_t ports = shape.hosts;
  shape.nics = keys.number_or<std::uint32_t>("nics", 1, 1, 16);
  shape.placement = keys.name_or("placement", kPlacements, fabric::Placement::together);
  if (shape.placement == fabric::Placement::planes) return;
  if (ports % shape.nics != 0) {
    refuse(keys.path("nics"),
           fmt::format("{} ports can't be shared by hosts of {} NICs", ports, shape.nics));
  }
  shape.hosts = ports / shape.nics;
}

void read_queue(JsonKeys& keys, fabric::QueueSettings& queue) {
  const auto bytes = [&](const char* name, std::uint32_t usual) {
    return keys.number_or<std::uint32_t>(name, usual, 0, kMostBytes);
  };
  queue.capacity = bytes("queue_bytes", queue.capacity);
  if (keys.has("mark_min_bytes") != keys.has("mark_max_bytes")) {
    refuse(keys.where(), "mark_min_bytes and mark_max_bytes are given together, or not at all");
  }
  queue.mark_min = bytes("mark_min_bytes", fabric::kUnlimited);
  queue.mark_max = bytes("mark_max_bytes", fabric::kUnlimited);
  queue.trim_to = bytes("trim_to_bytes", 0);
}

void read_fabric(const Json& json, PlanInputs& inputs, experiment::FabricPlan& fabric) {
  JsonKeys keys(json, "fabric");
  fabric.shape = read_shape(keys, inputs, fabric.said);
  place_nics(keys, fabric.shape);
  read_queue(keys, fabric.shape.queue);
  fabric.shape.adaptive = keys.flag_or("adaptive", false);
  fabric.nic.overhead_bytes =
      keys.number_or<std::uint32_t>("overhead_bytes", fabric.nic.overhead_bytes, 0, 1024);
  fabric.nic.tells_rate = keys.flag_or("tells_rate", true);
  fabric.nic.entropies = keys.number_or<std::uint16_t>("entropies", fabric.nic.entropies, 1, 65535);
  keys.finish();
}

// ---- traffic, faults

// Reads a generator's numbers. The generator itself knows which ones it has.
void read_numbers(JsonKeys& keys, std::map<std::string, std::uint64_t, std::less<>>& numbers,
                  std::string& said) {
  for (const std::string& name : keys.rest()) {
    numbers[name] = keys.number<std::uint64_t>(name, 0, std::uint64_t{1} << 62);
    said += fmt::format(", {} {}", name, numbers[name]);
  }
}

void read_beside(JsonKeys& of_traffic, experiment::TrafficPlan& traffic) {
  const Json* const beside = of_traffic.find("beside");
  if (beside == nullptr) return;
  JsonKeys keys(*beside, of_traffic.path("beside"));
  traffic.said += "; with background";
  read_numbers(keys, traffic.beside, traffic.said);
  if (traffic.beside.empty()) refuse(keys.where(), "the numbers of a background are expected");
}

void read_traffic(const Json& json, PlanInputs& inputs, experiment::TrafficPlan& traffic) {
  JsonKeys keys(json, "traffic");
  traffic.priority = keys.number_or<std::uint8_t>("priority", 0, 0, 255);
  if (keys.has("matrix") == keys.has("generator")) {
    refuse("traffic", "either 'matrix', a file, or 'generator' is expected");
  }
  if (keys.has("matrix")) {
    traffic.said = traffic.file = keys.text("matrix");
    const std::string get = keys.text_or("get", "");
    traffic.matrix = fabric::read_connections(traffic.said, inputs.content(traffic.said, get));
    traffic.group = keys.flag_or("group", false);
    if (traffic.group) traffic.said += ", a group for each receiver";
    read_beside(keys, traffic);
    return keys.finish();
  }
  if (keys.has("group")) {
    refuse(keys.path("group"), "it belongs to a 'matrix'; a generator groups its messages itself");
  }
  traffic.generator = keys.text("generator");
  traffic.said = traffic.generator;
  static_cast<void>(keys.find("beside"));  // not a number of the generator
  read_numbers(keys, traffic.numbers, traffic.said);
  read_beside(keys, traffic);
}

// An empty name would strike nothing.
std::string name_in(JsonKeys& keys, const char* key) {
  std::string name = keys.text(key);
  if (name.empty()) refuse(keys.path(key), "a name is expected");
  return name;
}

// Reads which part of the fabric a fault strikes.
void read_target(JsonKeys& keys, FaultPlan& fault) {
  if (fault.kind == FaultPlan::Kind::switch_down) {
    fault.at_switch = name_in(keys, "switch");
    return;
  }
  if (int{keys.has("link")} + int{keys.has("drawn")} + int{keys.has("host")} != 1) {
    refuse(keys.where(),
           "one of these is expected: 'link', a name; 'drawn', a number of cables; 'host', a "
           "number, whose 'nics' are struck");
  }
  if (keys.has("link")) fault.link = name_in(keys, "link");
  fault.drawn = keys.number_or<std::uint32_t>("drawn", 0, 1, 1'000'000);
  if (keys.has("host")) {
    fault.host = keys.number<std::uint32_t>("host", 0, kMostHosts - 1);
    fault.nics = keys.number<std::uint32_t>("nics", 1, 16);
  }
  fault.ways = keys.name_or("ways", experiment::kWaysNames, FaultPlan::Ways::both);
}

// A fault comes once, or again and again.
void read_times(JsonKeys& keys, FaultPlan& fault) {
  fault.at = microseconds_of(keys.number<double>("at_us", 0, kMostUs));
  fault.lasts = microseconds_of(keys.number_or<double>("lasts_us", 0, 0, kMostUs));
  if (keys.has("times") != keys.has("every_us")) {
    refuse(keys.where(), "times and every_us are given together, or not at all");
  }
  fault.times = keys.number_or<std::uint32_t>("times", 1, 1, 10'000);
  fault.every = microseconds_of(keys.number_or<double>("every_us", 0, 0, kMostUs));
  if (fault.times == 1) return;
  if (fault.lasts == fabric::Span{} || fault.lasts >= fault.every) {
    refuse(keys.path("every_us"),
           "a fault must end before it repeats, so every_us must exceed lasts_us");
  }
}

FaultPlan read_fault(const Json& json, const std::string& where) {
  JsonKeys keys(json, where);
  FaultPlan fault;
  fault.kind = keys.name<FaultPlan::Kind>("kind", experiment::kFaultKindNames);
  read_times(keys, fault);
  read_target(keys, fault);
  const bool goes_down =
      fault.kind == FaultPlan::Kind::link_down || fault.kind == FaultPlan::Kind::switch_down;
  if (goes_down) fault.silent = keys.flag_or("silent", false);
  if (fault.kind == FaultPlan::Kind::link_rate) {
    fault.bits_per_s = static_cast<std::uint64_t>(
        std::llround(keys.number<double>("gbps", 0.01, static_cast<double>(kMostGbps)) *
                     static_cast<double>(fabric::kGigabit)));
  }
  if (fault.kind == FaultPlan::Kind::link_loss) {
    fault.probability = keys.number<double>("probability", 0, 1);
  }
  keys.finish();
  return fault;
}

const Json& list(const Json& json, const std::string& where) {
  if (!json.is_array()) refuse(where, "a list is expected");
  return json;
}

// ---- the whole

void read_expectation(const Json& json, Plan& plan) {
  JsonKeys keys(json, "expect");
  const char* const bound = more_is_better(plan.metric) ? "at_least" : "at_most";
  plan.expected.bound = keys.number<double>(bound, -1e15, 1e15);
  plan.expected.figure = keys.number_or<double>("figure", 0, -1e15, 1e15);
  plan.expected.source = keys.text("source");
  keys.finish();
}

void read_seeds(const Json& json, Plan& plan) {
  JsonKeys keys(json, "seeds");
  const auto read = [&](const char* name) {
    const std::string said = keys.text(name);
    experiment::SeedRange range;
    try {
      std::tie(range.first, range.last) = parse_seeds(said);
    } catch (const InputError& error) {
      refuse(keys.path(name), error.what());
    }
    return range;
  };
  plan.tune = read("tune");
  plan.judge = read("judge");
  keys.finish();
}

Plan read_plan_json(const Json& json, PlanInputs& inputs) {
  JsonKeys keys(json, "");
  Plan plan;
  plan.question = keys.text("question");
  plan.metric = keys.name<experiment::Metric>("metric", experiment::kMetricNames);
  read_expectation(keys.need("expect"), plan);
  plan.runtime_s = keys.number<double>("runtime_s", 0, 1e9);
  plan.memory_mb = keys.number<std::uint64_t>("memory_mb", 0, std::uint64_t{1} << 40);
  read_seeds(keys.need("seeds"), plan);
  read_fabric(keys.need("fabric"), inputs, plan.fabric);
  read_traffic(keys.need("traffic"), inputs, plan.traffic);
  plan.hints = keys.name_or("hints", kHints, experiment::Hints::all);
  const auto limit_ms = keys.number_or<std::uint64_t>("limit_ms", 1000, 1, 1'000'000);
  plan.limit = fabric::microseconds(static_cast<std::int64_t>(limit_ms * 1000));
  if (const Json* const faults = keys.find("faults")) {
    for (std::size_t i = 0; i < list(*faults, "faults").size(); ++i) {
      plan.faults.push_back(read_fault((*faults)[i], fmt::format("faults[{}]", i)));
    }
  }
  for (const Json& sender : list(keys.need("senders"), "senders")) {
    if (!sender.is_string()) refuse("senders", "names of senders are expected");
    plan.senders.push_back(sender.get<std::string>());
  }
  static_cast<void>(keys.find("ranges"));
  keys.finish();
  return plan;
}

// ---- ranges

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

struct JsonRange {
  experiment::Range range;
  Json values;
};

// If one range sets a key that another also sets, the results would show the other's values, but
// the runs would not have them.
void refuse_overlap(const JsonKeys& keys, const std::string& one, const std::string& other) {
  if (one == other) refuse(keys.path("key"), "it is a range already");
  const auto& [whole, part] = std::minmax(one, other);
  if (part.starts_with(whole + '.')) {
    refuse(keys.path("key"),
           fmt::format("'{}' is set as a whole, and '{}' of it is a range, too", whole, part));
  }
}

// The same value twice would be a second point that tells nothing new.
std::vector<std::string> texts_of(const JsonKeys& keys, const Json& values) {
  if (values.empty()) refuse(keys.path("values"), "there are none");
  if (values.size() > kMostPoints) refuse(keys.path("values"), "these are too many");
  std::vector<std::string> texts;
  std::set<Json> seen;
  for (const Json& value : values) {
    if (!seen.insert(value).second) {
      refuse(keys.path("values"), fmt::format("{} occurs twice", value_text(value)));
    }
    texts.push_back(value_text(value));
  }
  return texts;
}

std::vector<JsonRange> read_ranges(const Json& json) {
  std::vector<JsonRange> ranges;
  if (!json.is_object() || !json.contains("ranges")) return ranges;
  const Json& all = list(json["ranges"], "ranges");
  for (std::size_t i = 0; i < all.size(); ++i) {
    JsonKeys keys(all[i], fmt::format("ranges[{}]", i));
    JsonRange one;
    one.range.path = keys.text("key");
    one.values = list(keys.need("values"), keys.path("values"));
    keys.finish();
    one.range.values = texts_of(keys, one.values);
    for (const JsonRange& other : ranges) refuse_overlap(keys, one.range.path, other.range.path);
    ranges.push_back(std::move(one));
  }
  if (ranges.size() > 2) refuse("ranges", "at most two keys can be ranges");
  return ranges;
}

// Sets a key such as "faults.0.at_us". All but the last key must exist. An element has one name
// only: "00" would be a second one for it.
void set_value(Json& json, const std::string& path, const Json& value) {
  Json* at = &json;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    const bool is_last = end == path.size();
    if (at->is_array()) {
      const bool is_number = !key.empty() && key.size() < 6 && (key == "0" || key[0] != '0') &&
                             key.find_first_not_of("0123456789") == std::string::npos;
      if (!is_number || std::stoul(key) >= at->size())
        at = nullptr;
      else
        at = &(*at)[std::stoul(key)];
    } else {
      at = at->is_object() && (is_last || at->contains(key)) ? &(*at)[key] : nullptr;
    }
    if (at == nullptr) {
      refuse("ranges", fmt::format("the plan has no '{}' for the range '{}'", key, path));
    }
    if (is_last) break;
    begin = end + 1;
  }
  *at = value;
}

// A range may change the keys that define runs, but not those that define the question.
void check_path(const std::string& path) {
  for (const std::string_view prefix : {"fabric.", "traffic.", "faults.", "hints"}) {
    if (path.starts_with(prefix)) return;
  }
  if (path == "fabric" || path == "traffic") return;
  refuse("ranges", fmt::format("'{}' can't be a range; fabric, traffic, their keys, those of "
                               "faults, and hints can",
                               path));
}

}  // namespace

std::vector<Plan> plans_from_json(const std::string& text, const std::string& name,
                                  PlanInputs& inputs) {
  try {
    Json json = parse_strictly(text);
    const std::vector<JsonRange> ranges = read_ranges(json);
    std::vector<experiment::Range> said;
    std::size_t points = 1;
    for (const JsonRange& one : ranges) {
      check_path(one.range.path);
      said.push_back(one.range);
      points *= one.values.size();
    }
    if (points > kMostPoints) {
      refuse("ranges", fmt::format("{} points are more than {}", points, kMostPoints));
    }
    std::vector<Plan> plans;
    for (const std::vector<std::size_t>& point : experiment::points_of(said)) {
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        set_value(json, said[i].path, ranges[i].values[point[i]]);
      }
      Plan plan = read_plan_json(json, inputs);
      plan.ranges = said;
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        plan.values.push_back(said[i].values[point[i]]);
      }
      const std::string complaint = complaint_about(plan);
      if (!complaint.empty()) throw InputError(complaint);
      plans.push_back(std::move(plan));
    }
    return plans;
  } catch (const InputError& error) {
    throw InputError(fmt::format("'{}': {}", name, printable(error.what())));
  } catch (const fabric::InputError& error) {
    throw InputError(fmt::format("'{}': {}", name, printable(error.what())));
  } catch (const Json::exception& error) {
    throw InputError(fmt::format("'{}' is not a plan: {}", name, printable(error.what())));
  }
}

std::vector<Plan> read_plans(const std::string& file) {
  const char* const workloads = std::getenv("HAWSER_WORKLOADS");
  PlanInputs inputs(folder_of(file), workloads != nullptr ? workloads : "");
  return plans_from_json(read_file(file, "a plan"), file, inputs);
}

}  // namespace hawser::tool
