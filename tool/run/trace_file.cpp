// SPDX-License-Identifier: Apache-2.0
#include "tool/run/trace_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "tool/error.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

constexpr std::size_t kBatch = 256;
constexpr auto kRest = std::chrono::milliseconds(2);  // while no records come

constexpr const char* kColumns =
    "time_ns,kind,cause,endpoint,peer,nic,remote_nic,slot,generation,path_number,message,fragment,"
    "bytes,detail,operation\n";

// Adds nothing for `none`.
template <class Number>
void add(fmt::memory_buffer& out, Number value, Number none) {
  if (value != none) fmt::format_to(std::back_inserter(out), "{}", value);
  out.push_back(',');
}

void add_line(fmt::memory_buffer& out, const TraceRecord& record) {
  fmt::format_to(std::back_inserter(out), "{},{},{},", record.time_ns,
                 kTraceKindTexts[static_cast<std::size_t>(record.kind)].name,
                 trace_cause_name(record.kind, record.cause));
  add(out, record.endpoint_id, std::uint64_t{0});
  add(out, record.peer, kNoTraceIndex);
  add(out, record.nic, kNoTraceNic);
  add(out, record.remote_nic, kNoTraceNic);
  add(out, record.slot, kNoTraceNic);
  add(out, record.generation, record.slot == kNoTraceNic ? record.generation : kNoTraceNic);
  add(out, record.path_number, kNoTraceNumber);
  add(out, record.message, kNoTraceNumber);
  add(out, record.fragment, kNoTraceIndex);
  fmt::format_to(std::back_inserter(out), "{},{},", record.bytes, record.detail);
  if (record.operation != kNoTraceNumber) {
    fmt::format_to(std::back_inserter(out), "{}", record.operation);
  }
  out.push_back('\n');
}

}  // namespace

TraceFile::TraceFile(const std::string& name, std::size_t records)
    : name_(name), file_(std::fopen(name.c_str(), "we")), ring_(records) {
  if (!file_) throw InputError(fmt::format("{} can't be written: {}", name, std::strerror(errno)));
  (void)std::fputs(kColumns, file_.get());
  thread_ = std::thread([this] { write(); });
}

TraceFile::~TraceFile() {
  ending_.store(true);
  thread_.join();
  (void)std::fputs(
      fmt::format("# {} records, {} more were too many for the ring\n", written_, lost_.load())
          .c_str(),
      file_.get());
  flush();
  if (error_ != 0) tell("{} is not complete: {}\n", name_, std::strerror(error_));
}

void TraceFile::hook(void* context, const TraceRecord& record) {
  auto& file = *static_cast<TraceFile*>(context);
  if (!file.ring_.push(record)) file.lost_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t TraceFile::write_some() {
  std::array<TraceRecord, kBatch> batch;
  const std::size_t count = ring_.pop(batch.data(), batch.size());
  fmt::memory_buffer lines;
  for (std::size_t i = 0; i < count; ++i) add_line(lines, batch[i]);
  const std::size_t bytes = std::fwrite(lines.data(), 1, lines.size(), file_.get());
  if (bytes != lines.size() && error_ == 0) error_ = errno;
  written_ += count;
  return count;
}

void TraceFile::flush() {
  errno = 0;
  if (std::fflush(file_.get()) == 0 && std::ferror(file_.get()) == 0) return;
  if (error_ == 0) error_ = errno != 0 ? errno : EIO;
}

// A rank that is killed leaves what was flushed: all but the last few milliseconds.
void TraceFile::write() {
  for (;;) {
    const bool ending = ending_.load();  // before the last look into the ring
    if (write_some() > 0) continue;
    flush();
    if (ending) return;
    std::this_thread::sleep_for(kRest);
  }
}

std::string trace_file_name(const std::string& file, std::uint32_t rank, std::uint32_t life) {
  return life == 0 ? fmt::format("{}.{}", file, rank) : fmt::format("{}.{}.{}", file, rank, life);
}

std::string to_csv(const TraceRecord& record) {
  fmt::memory_buffer line;
  add_line(line, record);
  return fmt::to_string(line);
}

}  // namespace hawser::tool
