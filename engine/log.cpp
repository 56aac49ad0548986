// SPDX-License-Identifier: Apache-2.0
#include "engine/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string>

#include "engine/cancellation.hpp"

namespace hawser::engine {
namespace {

constexpr std::array<std::string_view, 5> kLevels{"debug", "info", "warn", "error", "off"};

std::string lower(std::string_view word) {
  std::string small(word);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

std::shared_ptr<spdlog::logger> make_logger() {
  if (auto registered = spdlog::get("hawser")) return registered;
  auto logger = spdlog::stderr_logger_mt("hawser");
  const char* const level = std::getenv("HAWSER_LOG");
  // spdlog takes a word that it doesn't know for "off".
  const bool known = level != nullptr && is_log_level(level);
  logger->set_level(known ? spdlog::level::from_str(lower(level)) : spdlog::level::warn);
  return logger;
}

void log(spdlog::level::level_enum level, std::string_view message) noexcept {
  const CancellationHold hold;
  try {
    // Never destroyed: an endpoint that a static object keeps may log until the process ends.
    static auto& logger = *new std::shared_ptr<spdlog::logger>(make_logger());
    logger->log(level, message);
  } catch (...) {  // a message that can't be logged is no reason to fail
  }
}

}  // namespace

bool is_log_level(std::string_view word) { return std::ranges::count(kLevels, lower(word)) > 0; }

void log_info(std::string_view message) noexcept { log(spdlog::level::info, message); }
void log_warning(std::string_view message) noexcept { log(spdlog::level::warn, message); }
void log_error(std::string_view message) noexcept { log(spdlog::level::err, message); }

}  // namespace hawser::engine
