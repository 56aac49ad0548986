// Ranks that meet over a rendezvous: those that a launcher starts, and those that others start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tool/exit_code.hpp"
#include "tool/run/options.hpp"

namespace hawser::tool {

// Where a process stands in its job.
struct Place {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t local_ranks = 1;
  std::string rendezvous;  // "ADDRESS:PORT"
};

// From HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS, else from torchrun's variables; nothing if
// neither are there. Throws InputError if they make no sense.
[[nodiscard]] std::optional<Place> place_from_environment();

// What a launcher puts into the environment of a rank.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(const Place& place);

// A rank that people started: speaks to them, and its rank 0 concludes the run.
[[nodiscard]] ExitCode run_joined(const RunOptions& options, const Place& place);

// A rank of a launcher: speaks to it over kReportFd.
[[nodiscard]] ExitCode run_launched(RunOptionParser& parser);

}  // namespace hawser::tool
