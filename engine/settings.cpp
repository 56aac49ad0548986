#include "engine/settings.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "engine/driver/fault_spec.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {
namespace {

constexpr unsigned kMaxThreads = 64;

std::string variable_of(std::string_view tunable) {
  std::string name = "HAWSER_";
  for (const char c : tunable) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace

void apply_environment(Tunables& tunables) {
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

std::string complaint_about_faults(std::string_view spec) {
  FaultSettings settings;
  FaultActions actions;
  const auto error = parse_fault_spec(spec, settings, actions);
  if (!error) return {};
  return "Faults \"" + std::string(spec) + "\": \"" + std::string(error->word) + "\" " +
         std::string(error->reason);
}

EngineSettings check(const EngineConfig& config) {
  EngineSettings settings;
  if (config.nics.empty() || config.nics.size() > proto::Endpoint::kMaxNics) {
    throw Error("An engine has 1 to " + std::to_string(proto::Endpoint::kMaxNics) + " NICs, not " +
                std::to_string(config.nics.size()));
  }
  std::ranges::transform(config.nics, std::back_inserter(settings.nics), parse_nic_spec);
  if (config.threads > kMaxThreads) {
    throw Error("An engine has at most " + std::to_string(kMaxThreads) + " threads, not " +
                std::to_string(config.threads));
  }
  settings.threads = config.threads;
  // Values that were assigned rather than set have not been checked yet.
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

}  // namespace hawser::engine
