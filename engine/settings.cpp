// SPDX-License-Identifier: Apache-2.0
#include "engine/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "engine/driver/fault/fault_spec.hpp"
#include "engine/driver/udp/udp_address.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/host/nic_list.hpp"
#include "engine/log.hpp"
#include "engine/nearest_name.hpp"
#include "hawser/faults.hpp"
#include "hawser/nics.hpp"
#include "proto/endpoint.hpp"

namespace hawser {

std::string complaint_about_faults(std::string_view spec) {
  engine::FaultSettings settings;
  engine::FaultActions actions;
  const auto error = engine::parse_fault_spec(spec, settings, actions);
  if (!error) return {};
  return "Faults \"" + std::string(spec) + "\": \"" + std::string(error->word) + "\" " +
         std::string(error->reason);
}

namespace engine {
namespace {

constexpr unsigned kMaxThreads = 64;

std::string variable_of(std::string_view tunable) {
  std::string name = "HAWSER_";
  for (const char c : tunable) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// The project's other variables: a process's place in its job, the log, the command's files.
constexpr std::array<std::string_view, 11> kOtherVariables{
    "HAWSER_NICS",       "HAWSER_RANK",       "HAWSER_SIZE",     "HAWSER_RENDEZVOUS",
    "HAWSER_LOCAL_RANK", "HAWSER_LOCAL_SIZE", "HAWSER_LOG",      "HAWSER_LIFE",
    "HAWSER_LAUNCHER",   "HAWSER_WORKLOADS",  "HAWSER_RUN_TOKEN"};

// Refuses a variable whose name is nearly a known one, because the user meant that one. Names
// unlike any known one belong to others (HAWSER_HOME of a module system).
void refuse_misspelt_variables() {
  constexpr std::string_view kPrefix = "HAWSER_";
  constexpr std::size_t kLettersPerSlip = 6;
  std::vector<std::string> known(kOtherVariables.begin(), kOtherVariables.end());
  for (const TunableRow& row : kTunables) known.push_back(variable_of(row.name));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(kPrefix)) continue;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::count(known, name) > 0) continue;
    const std::string& nearest = nearest_name(name, known);
    if (edit_distance(name, nearest) > 1 + (nearest.size() - kPrefix.size()) / kLettersPerSlip) {
      continue;
    }
    throw Error("There is no variable " + std::string(name) + "; " + nearest +
                " is nearest. Correct or unset it.");
  }
}

void refuse_wrong_log_level() {
  const char* const level = std::getenv("HAWSER_LOG");
  if (level == nullptr || *level == 0 || is_log_level(level)) return;
  throw Error("HAWSER_LOG=" + std::string(level) + ": it takes debug, info, warn, error or off");
}

// An engine may have several NICs on one memory fabric, so these never count as the same.
bool is_same_nic(const NicSpec& a, const NicSpec& b) {
  if (a.driver != b.driver || a.driver == NicSpec::Driver::memory) return false;
  if (a.where == b.where) return true;
  if (a.driver == NicSpec::Driver::verbs) {
    return parse_verbs_port(a.where) == parse_verbs_port(b.where);
  }
  const SocketAddress first = parse_local_address(a.where);
  const SocketAddress second = parse_local_address(b.where);
  return std::memcmp(&first.v6, &second.v6, sizeof first.v6) == 0;  // 0 in fields unused by IPv4
}

// Two NICs on the same device would be two paths that die together, not redundancy.
void refuse_doubles(const std::vector<std::string>& names, const std::vector<NicSpec>& nics) {
  for (std::size_t i = 0; i < nics.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!is_same_nic(nics[i], nics[j])) continue;
      throw Error("NIC \"" + names[i] + "\" is named twice" +
                  (names[i] == names[j] ? "" : ", first as \"" + names[j] + '"'));
    }
  }
}

// Replaces lists by the names of the NICs that they choose.
std::vector<std::string> names_of(const std::vector<std::string>& nics) {
  if (std::ranges::all_of(nics, is_nic_name)) return nics;
  std::string list;
  for (const std::string& item : nics) list += (list.empty() ? "" : ",") + item;
  NicChoice choice = choose_nics(list);
  for (const std::string& note : choice.notes) log_warning(note);
  return std::move(choice.nics);
}

void refuse_wrong_number(std::size_t nics) {
  if (nics > 0 && nics <= proto::Endpoint::kMaxNics) return;
  throw Error("An engine has 1 to " + std::to_string(proto::Endpoint::kMaxNics) + " NICs, not " +
              std::to_string(nics));
}

}  // namespace

void apply_environment(Tunables& tunables) {
  refuse_misspelt_variables();
  refuse_wrong_log_level();
  for (const TunableRow& row : kTunables) {
    const std::string name = variable_of(row.name);
    const char* const text = std::getenv(name.c_str());
    if (text == nullptr) continue;
    const std::string_view digits(text);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    const bool number = error == std::errc() && end == digits.end();
    if (!number || tunables.set(row.name, value) != Status::ok) {
      throw Error(name + "=" + std::string(digits) + ": it takes a number from " +
                  std::to_string(row.minimum) + " to " + std::to_string(row.maximum) + " (" +
                  std::string(row.unit) + ")");
    }
  }
}

EngineSettings check(const EngineConfig& config) {
  EngineSettings settings;
  if (config.nics.empty()) refuse_wrong_number(0);
  const std::vector<std::string> nics = names_of(config.nics);
  refuse_wrong_number(nics.size());
  std::ranges::transform(nics, std::back_inserter(settings.nics), parse_nic_spec);
  refuse_doubles(nics, settings.nics);
  if (config.threads > kMaxThreads) {
    throw Error("An engine has at most " + std::to_string(kMaxThreads) + " threads, not " +
                std::to_string(config.threads));
  }
  settings.threads = config.threads;
  // Values assigned to fields have not been checked yet, unlike those that set() stored.
  for (const TunableRow& row : kTunables) {
    const std::uint64_t value = config.tunables.*row.field;
    if (settings.tunables.set(row.name, value) != Status::ok) {
      throw Error("Tunable " + std::string(row.name) + " = " + std::to_string(value) +
                  ": it takes a number from " + std::to_string(row.minimum) + " to " +
                  std::to_string(row.maximum) + " (" + std::string(row.unit) + ")");
    }
  }
  if (!config.ignore_environment) apply_environment(settings.tunables);
  if (std::string complaint = complaint_about_faults(config.faults); !complaint.empty()) {
    throw Error(complaint);
  }
  settings.faults = config.faults;
  return settings;
}

}  // namespace engine
}  // namespace hawser
