// SPDX-License-Identifier: Apache-2.0
// The limits of this host, with advice where they are too low.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hawser/tunables.hpp"

namespace hawser::engine {

struct HostLimits {
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

  // Empty if the system doesn't report it.
  std::optional<std::uint64_t> memlock_bytes;   // RLIMIT_MEMLOCK
  std::optional<std::uint64_t> rmem_max_bytes;  // net.core.rmem_max
  std::optional<std::uint64_t> wmem_max_bytes;  // net.core.wmem_max
  std::optional<std::uint64_t> hugepages;       // free ones, of the default size
  std::optional<std::uint64_t> hugepage_bytes;
  std::optional<std::uint64_t> open_files;      // RLIMIT_NOFILE
  std::optional<std::uint64_t> reserved_bytes;  // RLIMIT_AS: `ulimit -v`
  std::optional<std::uint64_t> data_bytes;      // RLIMIT_DATA: `ulimit -d`
  std::uint64_t cores = 1;                      // that this process may run on
  std::optional<std::uint64_t> memory_bytes;
  bool may_exceed_rmem_max = false;  // CAP_NET_ADMIN: SO_RCVBUFFORCE works
};

[[nodiscard]] HostLimits read_host_limits();

struct LimitRow {
  std::string name;
  std::string value;   // for people
  std::string advice;  // one sentence, or empty: nothing to do
};

// Builds the table that `hawser info` prints, for an engine with these tunables and `threads`
// engine threads.
[[nodiscard]] std::vector<LimitRow> describe(const HostLimits& limits, const Tunables& tunables,
                                             unsigned threads = 0);

}  // namespace hawser::engine
