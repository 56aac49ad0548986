// SPDX-License-Identifier: Apache-2.0
// Which path of a peer carries the next packets. `choose_path` (proto/endpoint/transmitter.cpp)
// offers each path that may carry data, in turn, and takes the best. If one peer sends over several
// paths, division.hpp applies the same policy to many packets in one step. A path that was bound a
// moment ago (`bind_beside`) takes the burst whatever the policy says. control_routes.hpp chooses
// for control packets. A policy is a class like these two:
//
//   LeastFilled   the path whose window the packets fill the least. A window shows how much its
//                 path carries in a round trip, so a slow NIC gets less. If paths are filled alike,
//                 it takes the one that has carried the fewest bytes.
//   EqualShares   each path in its turn, whatever it carries: the first of the paths offered, or
//                 none while that one has no room. This is the comparison in experiments.
//
// Both see paths only through an offer, so a test needs no endpoint.
#pragma once

#include <concepts>
#include <cstdint>

#include "proto/path/path.hpp"

namespace hawser::proto {

struct PathOffer {
  Path* path = nullptr;
  std::uint64_t window = 0;  // bytes that may be in flight; more than 0
  std::uint64_t filled = 0;  // bytes that would be in flight with the packets
  bool has_room = false;
};

class LeastFilled {
 public:
  // True: no other path needs to be offered.
  bool offer(const PathOffer& offered) {
    if (offered.has_room && (best_.path == nullptr || is_better(offered))) best_ = offered;
    return false;
  }
  // Null: none of them.
  [[nodiscard]] Path* best() const { return best_.path; }

 private:
  [[nodiscard]] bool is_better(const PathOffer& offered) const {
    // filled / window of both, each multiplied by both windows.
    const double its = static_cast<double>(offered.filled) * static_cast<double>(best_.window);
    const double least = static_cast<double>(best_.filled) * static_cast<double>(offered.window);
    return its < least || (its == least &&
                           offered.path->traffic.balance_bytes < best_.path->traffic.balance_bytes);
  }

  PathOffer best_;
};

class EqualShares {
 public:
  bool offer(const PathOffer& offered) {
    if (offered.has_room) best_ = offered.path;
    return true;
  }
  [[nodiscard]] Path* best() const { return best_; }

 private:
  Path* best_ = nullptr;
};

template <class Policy>
concept PathChooser = std::default_initializable<Policy> &&
    requires(Policy& policy, const Policy& same, const PathOffer& offered) {
  { policy.offer(offered) } -> std::same_as<bool>;
  { same.best() } -> std::same_as<Path*>;
};
static_assert(PathChooser<LeastFilled> && PathChooser<EqualShares>);

}  // namespace hawser::proto
