// SPDX-License-Identifier: Apache-2.0
// Combines the reports of ranks' endpoints about paths, and about the NICs or links to blame for
// those that are down. Reports of several endpoints about one NIC or link become one verdict. The
// endpoints make the judgement itself (hawser/events.hpp).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "hawser/events.hpp"

namespace hawser::tool {

// A NIC of the job.
struct NicId {
  std::uint32_t rank = 0;
  std::uint32_t nic = 0;
  friend auto operator<=>(const NicId&, const NicId&) = default;
};

struct FaultVerdict {
  Blame blame = Blame::link;
  NicId local{};   // local_nic: by its own rank; link: the lesser of its ends
  NicId remote{};  // remote_nic: by other ranks; link
  friend auto operator<=>(const FaultVerdict&, const FaultVerdict&) = default;

  [[nodiscard]] bool blames(const NicId& nic) const {
    return (blame == Blame::local_nic && local == nic) ||
           (blame == Blame::remote_nic && remote == nic);
  }
};

// A path event of a rank, in the order of time.
struct PathChange {
  enum class Kind : std::uint8_t {
    path_down,
    path_up,
    driver_down,  // the local NIC's driver reported it down; the rest is 0
    driver_up,
    blamed,
    cleared,  // the verdict is withdrawn
  };
  Kind kind = Kind::path_up;
  std::uint64_t at_ns = 0;  // since the rank's run began
  std::uint32_t nic = 0;
  std::uint32_t peer = 0;  // rank
  std::uint32_t remote_nic = 0;
  Blame blame = Blame::nobody;  // of verdicts

  friend bool operator==(const PathChange&, const PathChange&) = default;
};

struct RankPaths {
  std::uint32_t rank = 0;
  std::span<const PathChange> changes;
};

// A verdict, and the time in which it stood.
struct VerdictSpan {
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};
  FaultVerdict verdict;
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = kToTheEnd;
};

// The verdicts of these ranks, by their beginning. A verdict of several ranks begins with the first
// of them and ends with the last.
[[nodiscard]] std::vector<VerdictSpan> verdicts_of(std::span<const RankPaths> ranks);

}  // namespace hawser::tool
