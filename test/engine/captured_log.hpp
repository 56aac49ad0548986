// SPDX-License-Identifier: Apache-2.0
// What the library writes into its log while this object lives. Make it before the engines, and
// read it after they have ended: the logger's sinks must not change while threads write.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/log.hpp"

namespace hawser::engine {

class CapturedLog {
 public:
  CapturedLog() {
    log_info("The test reads the log from here on");  // makes the logger, if this is the first
    logger_ = spdlog::get("hawser");
    REQUIRE(logger_ != nullptr);
    before_ = logger_->level();
    logger_->set_level(std::min(before_, spdlog::level::warn));
    sink_->set_pattern("%v");
    logger_->sinks().push_back(sink_);
  }
  ~CapturedLog() {
    std::erase(logger_->sinks(), sink_);
    logger_->set_level(before_);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream text(text_.str());
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }

 private:
  std::ostringstream text_;
  spdlog::sink_ptr sink_ = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
  std::shared_ptr<spdlog::logger> logger_;
  spdlog::level::level_enum before_ = spdlog::level::warn;
};

}  // namespace hawser::engine
