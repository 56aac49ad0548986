// SPDX-License-Identifier: Apache-2.0
// Writes a trace hook's records to a file, as lines of comma-separated values (docs/running.md
// describes the columns).
//
// The hook puts records into a ring of fixed size, and a thread of the file writes them. The file
// counts records for which there is no room, and says so in its last line. The hook never waits, so
// the run goes on as it would without it, apart from the processor time.
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
  // Writes the remaining records. Reports a failed write on standard error.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // For EndpointConfig::trace of one endpoint; the context is the TraceFile.
  static void hook(void* context, const TraceRecord& record);

 private:
  struct Close {
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };

  void write();
  [[nodiscard]] std::size_t write_some();
  void flush();

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  boost::lockfree::spsc_queue<TraceRecord> ring_;
  std::atomic<std::uint64_t> lost_{0};
  std::uint64_t written_ = 0;  // the thread's
  int error_ = 0;              // the thread's: of the first write that failed
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// FILE.RANK, or FILE.RANK.LIFE for a rank that was started again.
[[nodiscard]] std::string trace_file_name(const std::string& file, std::uint32_t rank,
                                          std::uint32_t life);

// One line, with its end.
[[nodiscard]] std::string to_csv(const TraceRecord& record);

}  // namespace hawser::tool
