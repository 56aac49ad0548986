// SPDX-License-Identifier: Apache-2.0
#include "tool/run/trace_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hawser/stats.hpp"
#include "tool/error.hpp"

namespace hawser::tool {
namespace {

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream file(name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::string fresh_name() { return "trace_file_test." + std::to_string(::getpid()); }

TraceRecord loss() {
  TraceRecord record;
  record.time_ns = 123;
  record.kind = TraceKind::packet_lost;
  record.cause = static_cast<std::uint8_t>(TraceLoss::request);
  record.endpoint_id = 2;
  record.peer = 0;
  record.nic = 1;
  record.remote_nic = 0;
  record.slot = 3;
  record.generation = 1;
  record.path_number = 77;
  record.message = 5;
  record.fragment = 9;
  record.bytes = 4096;
  record.operation = 6;
  return record;
}

TEST_CASE("trace_file: a line has a value or nothing in each column") {
  CHECK(to_csv(loss()) == "123,packet_lost,request,2,0,1,0,3,1,77,5,9,4096,0,6\n");
  TraceRecord drop;
  drop.time_ns = 5;
  drop.kind = TraceKind::packet_dropped;
  drop.cause = static_cast<std::uint8_t>(DropReason::bad_checksum);
  CHECK(to_csv(drop) == "5,packet_dropped,bad_checksum,,,,,,,,,,0,0,\n");
}

TEST_CASE(
    "trace_file: what the hook sees is in the file, in order, and what was too much counted") {
  const std::string name = fresh_name();
  constexpr std::uint64_t kRecords = 20000;
  {
    TraceFile file(name, 64);
    TraceRecord record = loss();
    for (record.path_number = 0; record.path_number < kRecords; ++record.path_number) {
      TraceFile::hook(&file, record);
    }
  }
  const auto lines = lines_of(name);
  (void)std::remove(name.c_str());
  REQUIRE(lines.size() >= 2 + 64);
  const auto columns = std::count(lines.front().begin(), lines.front().end(), ',');
  std::uint64_t last = 0;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    REQUIRE(std::count(lines[i].begin(), lines[i].end(), ',') == columns);
    const std::string prefix = "123,packet_lost,request,2,0,1,0,3,1,";
    REQUIRE(lines[i].rfind(prefix, 0) == 0);
    const std::uint64_t number = std::stoull(lines[i].substr(prefix.size()));
    CHECK((i == 1 || number > last));
    last = number;
  }
  const std::size_t written = lines.size() - 2;
  CHECK(lines.back() == "# " + std::to_string(written) + " records, " +
                            std::to_string(kRecords - written) +
                            " more were too many for the ring");
}

TEST_CASE("trace_file: what came is in the file while the rank lives, as it may be killed") {
  const std::string name = fresh_name();
  TraceFile file(name);
  TraceFile::hook(&file, loss());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::vector<std::string> lines;
  while (lines.size() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    lines = lines_of(name);
  }
  (void)std::remove(name.c_str());
  REQUIRE(lines.size() == 2);
  CHECK(lines[1] + "\n" == to_csv(loss()));
}

TEST_CASE("trace_file: a file that can't be made is said so") {
  CHECK_THROWS_AS(TraceFile("/nonexistent/trace"), InputError);
}

TEST_CASE("trace_file: each life of a rank has its own") {
  CHECK(trace_file_name("t.csv", 3, 0) == "t.csv.3");
  CHECK(trace_file_name("t.csv", 3, 2) == "t.csv.3.2");
}

}  // namespace
}  // namespace hawser::tool
