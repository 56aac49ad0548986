// SPDX-License-Identifier: Apache-2.0
// Writes what a trace hook sees to a file, as lines of comma-separated values (docs/running.md has
// the columns).
//
// The hook puts records into a ring of fixed size, and a thread of the file's own writes them: what
// there is no room for is counted, and the file says so in its last line. It never waits, so the
// run goes on as it would without it, but for the processor time.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "hawser/trace.hpp"

namespace hawser::tool {

class TraceFile {
 public:
  // 16 MiB of records.
  static constexpr std::size_t kRecords = std::size_t{1} << 18;

  // Throws InputError if the file can't be written.
  explicit TraceFile(const std::string& name, std::size_t records = kRecords);
  // Writes what is left. What the disk refused is told on standard error.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // For EndpointConfig::trace; the context is the TraceFile. One endpoint's.
  static void hook(void* context, const TraceRecord& record);

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };

  void write();
  [[nodiscard]] std::size_t write_some();

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  boost::lockfree::spsc_queue<TraceRecord> ring_;
  std::atomic<std::uint64_t> lost_{0};
  std::uint64_t written_ = 0;  // the thread's
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// FILE.RANK; of a rank that was started again FILE.RANK.LIFE.
[[nodiscard]] std::string trace_file_name(const std::string& file, std::uint32_t rank,
                                          std::uint32_t life);

// One line, with its end.
[[nodiscard]] std::string to_csv(const TraceRecord& record);

}  // namespace hawser::tool
