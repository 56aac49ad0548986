// Who is to blame for paths that are down: a local NIC, a remote one, or the link between two.
//
// In the matrix of NICs that send (rows) and NICs that are sent to (columns) a dead row is the
// fault of the local NIC, a dead column that of the remote one, and one dead cell that of a link.
// Each needs witnesses: two NICs on the other side that are alive elsewhere; a link that both its
// NICs are. And each needs a path that worked and went down: that one was tried in vain, as bridges
// are, may only mean that a busy host did not answer in time; it bears witness beside one. What has
// none is left open. A rank can judge by its own rows; the rows of all ranks together say more. A
// verdict informs, it decides nothing.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hawser::tool {

// A NIC of the job.
struct NicId {
  std::uint32_t rank = 0;
  std::uint32_t nic = 0;
  friend auto operator<=>(const NicId&, const NicId&) = default;
};

// The paths from one NIC to another, as the rank of `local` sees them.
struct PathCell {
  NicId local;
  NicId remote;
  enum class State : std::uint8_t { alive, down, tried } state = State::alive;

  [[nodiscard]] bool alive() const { return state == State::alive; }
};

struct Verdict {
  enum class Kind : std::uint8_t { local_nic, remote_nic, link };
  Kind kind = Kind::link;
  NicId local{};   // local_nic, link
  NicId remote{};  // remote_nic, link
  friend auto operator<=>(const Verdict&, const Verdict&) = default;

  [[nodiscard]] bool blames(const NicId& nic) const {
    return (kind == Kind::local_nic && local == nic) || (kind == Kind::remote_nic && remote == nic);
  }
};

// Sorted. A cell may be there once only.
[[nodiscard]] std::vector<Verdict> judge(std::span<const PathCell> cells);

// What a rank saw happen to its paths, in the order of time.
struct PathChange {
  enum class Kind : std::uint8_t {
    up,
    down,         // it had worked
    tried,        // it never worked, and probes of it were not answered
    gone,         // nothing more is known of the path: it is given up, or in doubt
    driver_down,  // the local NIC went away by word of its driver; the rest is 0
    driver_up,
  };
  Kind kind = Kind::up;
  std::uint64_t at_ns = 0;  // since the rank's run began
  std::uint32_t nic = 0;
  std::uint32_t peer = 0;  // rank
  std::uint32_t remote_nic = 0;
};

struct RankPaths {
  std::uint32_t rank = 0;
  std::span<const PathChange> changes;
};

// A verdict, and the time in which the paths said so.
struct VerdictSpan {
  static constexpr std::uint64_t kToTheEnd = ~std::uint64_t{0};
  Verdict verdict;
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = kToTheEnd;
};

// The verdicts on what these ranks saw, by their beginning. What lasted less than kBriefNs is left
// out: paths of one NIC do not change in the same instant, and one that a busy host let go silent
// is back as soon as it has proven itself. Nothing if there are too many paths to judge them after
// each change.
inline constexpr std::uint64_t kBriefNs = 50'000'000;
[[nodiscard]] std::vector<VerdictSpan> verdicts_of(std::span<const RankPaths> ranks);

}  // namespace hawser::tool
