// SPDX-License-Identifier: Apache-2.0
// What hosts say of their sessions, and what follows from it.
//
// A session that `host` says was established before `other` says that one of its own ended is over
// at both ends: `host` was READY with a token that `other` had drawn for it by then, and `other`
// has one session at a time with it. So whoever still holds it holds half a session. And a session
// that ends by the other host's word began after the last end at this one, and is over at that one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hawser/status.hpp"
#include "proto/base/time.hpp"

namespace hawser::sim {

class Sessions {
 public:
  explicit Sessions(std::size_t hosts) : hosts_(hosts), sides_(hosts * hosts) {}

  // False: it was said before, and the session has not ended since.
  [[nodiscard]] bool on_established(std::uint32_t host, std::uint32_t other, proto::Duration at) {
    Side& side = sides_[index(host, other)];
    if (side.lives) return false;
    side.lives = true;
    side.established = at;
    side.succeeded.resize(side.endings.size() + 1, false);
    side.succeeded.back() = true;
    return true;
  }
  void on_ended(std::uint32_t host, std::uint32_t other, Status status, proto::Duration at) {
    Side& side = sides_[index(host, other)];
    side.lives = false;
    side.endings.push_back({status, at});
  }

  // How many attempts and sessions have ended: a name for the one that is next.
  [[nodiscard]] std::uint32_t ends(std::uint32_t host, std::uint32_t other) const {
    return static_cast<std::uint32_t>(sides_[index(host, other)].endings.size());
  }
  // That one has ended, and with this status, says the host.
  [[nodiscard]] bool ended_with(std::uint32_t host, std::uint32_t other, std::uint32_t which,
                                Status status) const {
    const Side& side = sides_[index(host, other)];
    return which < side.endings.size() && side.endings[which].status == status;
  }
  // Any of them has, since then.
  [[nodiscard]] bool any_ended_with(std::uint32_t host, std::uint32_t other, Status status,
                                    proto::Duration since) const {
    return std::ranges::any_of(sides_[index(host, other)].endings, [&](const Ending& ending) {
      return ending.status == status && ending.at >= since;
    });
  }
  // Whether that one was established.
  [[nodiscard]] bool succeeded(std::uint32_t host, std::uint32_t other, std::uint32_t which) const {
    const Side& side = sides_[index(host, other)];
    return which < side.succeeded.size() && side.succeeded[which];
  }
  // Any of them has, between these two.
  [[nodiscard]] bool any_ended(std::uint32_t host, std::uint32_t other, proto::Duration from,
                               proto::Duration to) const {
    return std::ranges::any_of(sides_[index(host, other)].endings, [&](const Ending& ending) {
      return from <= ending.at && ending.at <= to;
    });
  }
  // From its establishing to its end, as the host says.
  [[nodiscard]] bool lives(std::uint32_t host, std::uint32_t other) const {
    return sides_[index(host, other)].lives;
  }
  [[nodiscard]] proto::Duration established(std::uint32_t host, std::uint32_t other) const {
    return sides_[index(host, other)].established;
  }
  [[nodiscard]] proto::Duration ended(std::uint32_t host, std::uint32_t other) const {
    const Side& side = sides_[index(host, other)];
    return side.endings.empty() ? proto::Duration{-1} : side.endings.back().at;
  }
  // `host` has a session of which `other` has no part any more.
  [[nodiscard]] bool is_half(std::uint32_t host, std::uint32_t other) const {
    return lives(host, other) && established(host, other) < ended(other, host);
  }

 private:
  struct Ending {
    Status status{};
    proto::Duration at{};
  };
  struct Side {
    bool lives = false;
    proto::Duration established{};
    std::vector<Ending> endings;
    std::vector<bool> succeeded;  // by the number of ends before it
  };
  [[nodiscard]] std::size_t index(std::uint32_t host, std::uint32_t other) const {
    return host * hosts_ + other;
  }

  std::size_t hosts_;
  std::vector<Side> sides_;
};

}  // namespace hawser::sim
