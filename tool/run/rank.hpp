// SPDX-License-Identifier: Apache-2.0
// One rank of a run: opens its NICs, meets the others, replays, and reports the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hawser/types.hpp"
#include "tool/run/gathering.hpp"
#include "tool/run/message_sink.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"

namespace hawser::tool {

// A rank's knowledge of its job before it has an endpoint.
struct RankConfig {
  std::uint32_t rank = 0;
  std::uint32_t local_ranks = 1;  // on this host; they share its memory
  std::vector<std::string> nics;
  std::uint64_t epoch = 0;
  std::vector<std::byte> job_secret;
  std::uint32_t life = 0;  // processes that were this rank before
  Exchange exchange;
};

// Throws nothing: errors are in the result. SIGTERM ends it early (and SIGINT, if it is not
// ignored).
[[nodiscard]] RankResult run_rank(const RunOptions& options, const RankConfig& config,
                                  MessageSink& sink);

// "udp:127.1.RANK.NIC+1": addresses of their own for every rank, on any Linux.
[[nodiscard]] std::vector<std::string> loopback_nics(std::uint32_t rank, std::uint32_t nics);

}  // namespace hawser::tool
