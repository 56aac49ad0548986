// SPDX-License-Identifier: Apache-2.0
// The destination of a rank's messages: its launcher or, for a rank that joined by itself, people.
#pragma once

#include <cstddef>
#include <string>

#include "tool/run/report.hpp"

namespace hawser::tool {

class MessageSink {
 public:
  virtual ~MessageSink() = default;
  // Progress may be left out when the reader is slow; notes and results never are, while there is a
  // reader.
  virtual void send(const RankMessage& message) = 0;
};

// Lines over a pipe, which never stop a rank whose launcher does not read.
class PipeSink final : public MessageSink {
 public:
  explicit PipeSink(int fd);  // takes it over
  ~PipeSink() override;       // writes what is left, unless the reader goes
  PipeSink(const PipeSink&) = delete;
  PipeSink& operator=(const PipeSink&) = delete;

  void send(const RankMessage& message) override;

 private:
  static constexpr std::size_t kBacklogBytes = 256 * 1024;  // beyond it progress is left out

  [[nodiscard]] std::size_t left() const { return backlog_.size() - written_; }
  // False if the pipe is full or closed.
  bool write_some();

  int fd_;
  std::string backlog_;
  std::size_t written_ = 0;  // the part of the backlog that has left
};

// Progress as a line now and then, of one rank; notes of every rank.
class ConsoleSink final : public MessageSink {
 public:
  ConsoleSink(std::uint32_t rank, std::uint32_t ranks) : rank_(rank), ranks_(ranks) {}
  void send(const RankMessage& message) override;

 private:
  std::uint32_t rank_;
  std::uint32_t ranks_;
  std::uint64_t last_ns_ = 0;
};

}  // namespace hawser::tool
