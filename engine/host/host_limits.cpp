// SPDX-License-Identifier: Apache-2.0
#include "engine/host/host_limits.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "engine/descriptor.hpp"
#include "engine/host/processors.hpp"

namespace hawser::engine {
namespace {

// Rough size of a verbs NIC's registered memory: its receive ring and its headers.
constexpr std::uint64_t kMemlockPerNic = 64 << 20;

std::optional<std::uint64_t> read_number(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return {};
}

// Reads "Name:   123 kB" from a file in /proc.
std::optional<std::uint64_t> read_field(const char* path, const std::string& name, int base) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name + ":")) continue;
    const std::size_t digits = line.find_first_not_of(" \t", name.size() + 1);
    if (digits == std::string::npos) return {};
    std::uint64_t value = 0;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + digits, end, value, base).ec != std::errc()) return {};
    return value;
  }
  return {};
}

std::optional<std::uint64_t> limit(__rlimit_resource resource) {
  rlimit value{};
  if (::getrlimit(resource, &value) != 0) return {};
  return value.rlim_cur == RLIM_INFINITY ? HostLimits::kUnlimited : value.rlim_cur;
}

// Finds out by trying. CAP_NET_ADMIN in a user namespace doesn't count for a network outside of it.
bool may_exceed_rmem_max() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr int kBytes = 65536;
  return socket &&
         ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBytes, sizeof kBytes) == 0;
}

std::uint64_t cores() {
  const std::vector<std::uint32_t> allowed = allowed_processors();
  if (!allowed.empty()) return allowed.size();
  return static_cast<std::uint64_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes == HostLimits::kUnlimited) return "unlimited";
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream text;
  text.precision(unit == 0 || value >= 100 ? 0 : 1);
  text << std::fixed << value << ' ' << units[unit];
  return text.str();
}

std::string bytes_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : "unknown";
}

LimitRow socket_buffers(const HostLimits& limits, const Tunables& tunables) {
  LimitRow row{"net.core.rmem_max", bytes_text(limits.rmem_max_bytes), ""};
  if (limits.may_exceed_rmem_max) {
    row.value += " (this process may exceed it)";
  } else if (limits.rmem_max_bytes && *limits.rmem_max_bytes < tunables.nic_receive_bytes) {
    row.advice = "UDP NICs request " + bytes_text(tunables.nic_receive_bytes) +
                 " (nic_receive_bytes) and lose packets in bursts with less: sysctl -w "
                 "net.core.rmem_max=" +
                 std::to_string(tunables.nic_receive_bytes);
  }
  return row;
}

LimitRow locked_memory(const HostLimits& limits) {
  LimitRow row{"memlock", bytes_text(limits.memlock_bytes), ""};
  if (limits.memlock_bytes && *limits.memlock_bytes < kMemlockPerNic) {
    row.advice =
        "UDP needs none; RDMA NICs lock the memory that they send from: ulimit -l unlimited";
  }
  return row;
}

LimitRow processors(const HostLimits& limits, unsigned threads) {
  LimitRow row{"cores", std::to_string(limits.cores), ""};
  if (limits.cores <= threads) {
    row.advice =
        "The application and " + std::to_string(threads) +
        " engine threads share them: fewer engine threads, or a smaller spin_us, waste less";
  }
  return row;
}

}  // namespace

HostLimits read_host_limits() {
  HostLimits limits;
  limits.memlock_bytes = limit(RLIMIT_MEMLOCK);
  limits.open_files = limit(RLIMIT_NOFILE);
  limits.reserved_bytes = limit(RLIMIT_AS);
  limits.data_bytes = limit(RLIMIT_DATA);
  limits.rmem_max_bytes = read_number("/proc/sys/net/core/rmem_max");
  limits.wmem_max_bytes = read_number("/proc/sys/net/core/wmem_max");
  limits.hugepages = read_field("/proc/meminfo", "HugePages_Free", 10);
  if (const auto kib = read_field("/proc/meminfo", "Hugepagesize", 10)) {
    limits.hugepage_bytes = *kib * 1024;
  }
  limits.cores = cores();
  if (const auto kib = read_field("/proc/meminfo", "MemAvailable", 10)) {
    limits.memory_bytes = *kib * 1024;
  }
  limits.may_exceed_rmem_max = may_exceed_rmem_max();
  return limits;
}

std::vector<LimitRow> describe(const HostLimits& limits, const Tunables& tunables,
                               unsigned threads) {
  std::vector<LimitRow> rows;
  rows.push_back(locked_memory(limits));
  rows.push_back(socket_buffers(limits, tunables));
  rows.push_back({"net.core.wmem_max", bytes_text(limits.wmem_max_bytes), ""});
  LimitRow hugepages{"hugepages", "unknown", ""};
  if (limits.hugepages) {
    hugepages.value = std::to_string(*limits.hugepages) + " free";
    if (limits.hugepage_bytes) hugepages.value += " of " + bytes_text(*limits.hugepage_bytes);
  }
  rows.push_back(hugepages);
  rows.push_back({"open files",
                  limits.open_files == HostLimits::kUnlimited ? "unlimited"
                  : limits.open_files                         ? std::to_string(*limits.open_files)
                                                              : "unknown",
                  ""});
  rows.push_back(processors(limits, threads));
  rows.push_back({"memory available", bytes_text(limits.memory_bytes), ""});
  // Few processes have these limits. They count what is reserved, not only what is used.
  const auto add_memory_limit = [&](const auto& limit, const char* option) {
    if (!limit || *limit == HostLimits::kUnlimited) return;
    rows.push_back({std::string("memory (ulimit -") + option + ")", bytes_text(*limit),
                    std::string("Hawser reserves more memory than it uses: ulimit -") + option +
                        " unlimited"});
  };
  add_memory_limit(limits.reserved_bytes, "v");
  add_memory_limit(limits.data_bytes, "d");
  return rows;
}

}  // namespace hawser::engine
