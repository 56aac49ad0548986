// SPDX-License-Identifier: Apache-2.0
#include "engine/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>

#include "engine/cancellation.hpp"

namespace hawser::engine {
namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  if (auto registered = spdlog::get("hawser")) return registered;
  auto logger = spdlog::stderr_logger_mt("hawser");
  const char* level = std::getenv("HAWSER_LOG");
  logger->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
  return logger;
}

void log(spdlog::level::level_enum level, std::string_view message) noexcept {
  const CancellationHold hold;
  try {
    static const std::shared_ptr<spdlog::logger> logger = make_logger();
    logger->log(level, message);
  } catch (...) {  // a message that can't be logged is no reason to fail
  }
}

}  // namespace

void log_info(std::string_view message) noexcept { log(spdlog::level::info, message); }
void log_warning(std::string_view message) noexcept { log(spdlog::level::warn, message); }
void log_error(std::string_view message) noexcept { log(spdlog::level::err, message); }

}  // namespace hawser::engine
