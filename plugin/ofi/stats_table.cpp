// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/stats_table.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "plugin/ofi/log.hpp"

namespace hawser::ofi {
namespace {

constexpr double kMega = 1e6;
constexpr double kMicro = 1e3;

std::string one_sided_text(const EndpointStats& stats) {
  const std::uint64_t done =
      stats.writes_completed + stats.reads_completed + stats.atomics_completed;
  return done == 0 ? "" : std::to_string(done) + " one-sided operations, ";
}

std::string table_of(std::uint64_t endpoint_id, const hawser::Endpoint& endpoint) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  const EndpointStats stats = endpoint.stats();
  text << "hawser: process " << ::getpid() << ", endpoint " << endpoint_id << ": "
       << stats.messages_sent << " messages sent, " << stats.messages_received << " received, "
       << one_sided_text(stats) << stats.fragments_retransmitted << " fragments retransmitted, "
       << stats.paths_down << " paths went down, " << stats.paths_returned << " came back\n";
  for (const NicStats& nic : endpoint.nic_stats()) {
    text << "hawser:   " << std::left << std::setw(24) << nic.name << std::right << std::setw(8)
         << to_string(nic.state) << std::setw(10) << static_cast<double>(nic.bytes_sent) / kMega
         << " MB sent" << std::setw(10) << static_cast<double>(nic.bytes_received) / kMega
         << " MB received" << std::setw(8) << nic.packets_lost << " lost" << std::setw(8)
         << nic.retransmits << " again" << std::setw(8) << nic.overruns << " overruns"
         << std::setw(9) << static_cast<double>(nic.srtt_ns) / kMicro << " us\n";
  }
  return text.str();
}

}  // namespace

std::string complaint_about_place(const std::string& where) {
  if (where.empty() || where == "1") return {};
  const std::ofstream file(where, std::ios::app);
  if (file) return {};
  return where + " can't be opened for appending: " + std::strerror(errno);
}

void write_stats(const std::string& where, std::uint64_t endpoint_id,
                 const hawser::Endpoint& endpoint) {
  if (where.empty()) return;
  const std::string text = table_of(endpoint_id, endpoint);
  if (where == "1") return say(text);
  std::ofstream file(where, std::ios::app);
  file << text << std::flush;
  if (!file) complain("FI_HAWSER_STATS: " + where + " can't be written");
}

}  // namespace hawser::ofi
