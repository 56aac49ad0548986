// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "hawser/engine.hpp"
#include "hawser/faults.hpp"
#include "hawser/nics.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/provider.hpp"
#include "plugin/ofi/stats_table.hpp"

namespace hawser::ofi {
namespace {

constexpr std::string_view kPrefix = "FI_HAWSER_";
constexpr std::string_view kNicsOfLibrary = "HAWSER_NICS";
constexpr std::size_t kMostNics = 16;
constexpr std::size_t kMostSecretBytes = 64;

struct Setting {
  const char* name;
  const char* text;
};
constexpr std::array kSettings{
    Setting{"nics",
            "NICs, as in udp:10.0.0.1, verbs:mlx5_0, if:eth0, net:10.0.0.0/8 or !docker* "
            "(default: HAWSER_NICS, or all usable)"},
    Setting{"threads", "0: progress in calls of the program (default); 1: an engine thread"},
    Setting{"flush",
            "0: sends wait for the next progress call, and small ones share packets (default 1)"},
    Setting{"job_secret", "shared by the job's processes, at most 64 bytes (default: none)"},
    Setting{"faults", "faults injected from the start, as in loss=0.01 (default: none)"},
    Setting{"fault_plan", "faults by time, as in 2s:1:kill,4s:1:revive (default: none)"},
    Setting{"stats",
            "1: write a table of NICs to standard error at close; else the file to write it to"},
};

std::string upper(std::string_view name) {
  std::string text(name);
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

const char* variable(std::string_view name) {
  return std::getenv((std::string(kPrefix) + upper(name)).c_str());
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> known_variables() {
  std::vector<std::string> names;
  names.reserve(std::size(kSettings) + std::size(kTunables));
  for (const Setting& setting : kSettings) {
    names.push_back(std::string(kPrefix) + upper(setting.name));
  }
  for (const TunableRow& row : kTunables) names.push_back(std::string(kPrefix) + upper(row.name));
  return names;
}

std::string complaint_about_names() {
  const std::vector<std::string> known = known_variables();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    // Users may write tunables and NICs without "FI_", since Hawser reads those, but not the other
    // settings.
    if (name == kNicsOfLibrary) continue;
    const std::string whole = "FI_" + std::string(name);
    const bool is_setting = std::ranges::any_of(kSettings, [&](const Setting& setting) {
      return whole == std::string(kPrefix) + upper(setting.name);
    });
    if (is_setting) return "there is no variable " + std::string(name) + "; it is called " + whole;
    if (!text.starts_with(kPrefix)) continue;
    if (std::ranges::count(known, name) > 0) continue;
    const std::string& nearest = *std::ranges::min_element(
        known, {}, [&](const auto& other) { return distance(name, other); });
    return "there is no variable " + std::string(name) + "; " + nearest + " is nearest";
  }
  return {};
}

std::string read_tunables(Config& config) {
  for (const TunableRow& row : kTunables) {
    std::string name = std::string(kPrefix) + upper(row.name);
    const char* text = std::getenv(name.c_str());
    if (text == nullptr) {
      name = "HAWSER_" + upper(row.name);
      text = std::getenv(name.c_str());
    }
    if (text == nullptr) continue;
    const std::string_view digits(text);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc() || end != digits.end() ||
        config.tunables.set(row.name, value) != Status::ok) {
      return name + "=" + std::string(digits) + ": it takes a number from " +
             std::to_string(row.minimum) + " to " + std::to_string(row.maximum) + " (" +
             std::string(row.unit) + ")";
    }
    config.tunables_set.emplace(row.name);
  }
  return {};
}

// The list that chooses the NICs, and the variable that holds it.
struct NicList {
  std::string variable;
  std::string text;
};
NicList nic_list() {
  if (const char* const ours = variable("nics")) return {"FI_HAWSER_NICS", ours};
  const char* const text = std::getenv(kNicsOfLibrary.data());
  return {std::string(kNicsOfLibrary), text == nullptr ? "" : text};
}

std::string read_nics(Config& config) {
  const NicList list = nic_list();
  if (list.variable != kNicsOfLibrary && list.text.empty()) {
    return list.variable +
           " is empty: name NICs, or unset it (`hawser info` lists what this host has)";
  }
  try {
    NicChoice choice = choose_nics(list.text);
    config.nics = std::move(choice.nics);
    for (const std::string& note : choice.notes) complain(note);
  } catch (const NicChoiceError& error) {
    return (list.text.empty() ? "" : list.variable + ": ") + error.what();
  }
  if (config.nics.size() > kMostNics) {
    return list.variable + ": name 1 to 16 NICs, not " + std::to_string(config.nics.size());
  }
  for (const std::string& name : config.nics) {
    if (split_nic_name(name).kind != "memory" && std::ranges::count(config.nics, name) > 1) {
      return list.variable + ": \"" + name + "\" is named twice";
    }
  }
  return {};
}

std::string read_settings(Config& config) {
  for (const char* const name : {"threads", "flush"}) {
    const char* const text = variable(name);
    if (text == nullptr) continue;
    const std::string_view digits(text);
    if (digits != "0" && digits != "1") {
      return std::string(kPrefix) + upper(name) + "=" + text + ": it takes 0 or 1";
    }
    if (std::string_view(name) == "flush") {
      config.flush = digits == "1";
    } else {
      config.threads = digits == "1" ? 1 : 0;
    }
  }
  const auto string_of = [](const char* text) { return std::string(text == nullptr ? "" : text); };
  config.job_secret = string_of(variable("job_secret"));
  if (config.job_secret.size() > kMostSecretBytes) {
    return "FI_HAWSER_JOB_SECRET has at most 64 bytes";
  }
  config.stats = string_of(variable("stats"));
  if (config.stats == "0") config.stats.clear();
  if (std::string complaint = complaint_about_place(config.stats); !complaint.empty()) {
    return "FI_HAWSER_STATS: " + complaint;
  }
  config.faults = string_of(variable("faults"));
  std::string complaint = parse_fault_plan(string_of(variable("fault_plan")), config.fault_plan);
  for (const PlannedFault& fault : config.fault_plan) {
    if (complaint.empty() && fault.nic >= config.nics.size()) {
      complaint = "there is no NIC " + std::to_string(fault.nic);
    }
  }
  if (!complaint.empty()) return "FI_HAWSER_FAULT_PLAN: " + complaint;
  complaint = complaint_about_faults(config.faults);
  if (!complaint.empty()) return "FI_HAWSER_FAULTS: " + complaint;
  // Faults need a fault layer, which must exist from the start.
  if (!config.fault_plan.empty() && config.faults.empty()) config.faults = "loss=0";
  return {};
}

}  // namespace

void Config::prefer(std::string_view tunable, std::uint64_t value) {
  if (!tunables_set.contains(tunable)) (void)tunables.set(tunable, value);
}

std::string read_config(Config& config) {
  config = Config{};
  std::string complaint = complaint_about_names();
  if (complaint.empty()) complaint = read_tunables(config);
  if (complaint.empty()) complaint = read_nics(config);
  if (complaint.empty()) complaint = read_settings(config);
  return complaint;
}

void define_parameters() {
  for (const Setting& setting : kSettings) {
    (void)fi_param_define(&provider(), setting.name, FI_PARAM_STRING, "%s", setting.text);
  }
  for (const TunableRow& row : kTunables) {
    const std::string name(row.name);
    const std::string text(row.reason);
    (void)fi_param_define(&provider(), name.c_str(), FI_PARAM_SIZE_T, "%s (%llu %s)", text.c_str(),
                          static_cast<unsigned long long>(row.default_value),
                          std::string(row.unit).c_str());
  }
}

}  // namespace hawser::ofi
