// SPDX-License-Identifier: Apache-2.0
// The hosts' reports about their sessions, and the conclusions from them.
//
// A session that `host` established before `other` reports the end of one of its own is over at
// both ends. By then `host` was READY with a token that `other` had drawn for it, and `other` has
// one session at a time with it. An end that still holds that session holds half a session. A
// session that ends by the other host's word began after the last end at this host, and is over at
// that one.
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

  // Returns false if it was said before, and the session has not ended since.
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

  // How many attempts and sessions have ended: the number of the next one.
  [[nodiscard]] std::uint32_t ends(std::uint32_t host, std::uint32_t other) const {
    return static_cast<std::uint32_t>(sides_[index(host, other)].endings.size());
  }
  // Whether session `which` has ended with this status, as the host says.
  [[nodiscard]] bool ended_with(std::uint32_t host, std::uint32_t other, std::uint32_t which,
                                Status status) const {
    const Side& side = sides_[index(host, other)];
    return which < side.endings.size() && side.endings[which].status == status;
  }
  // Whether any session has ended with this status since then.
  [[nodiscard]] bool any_ended_with(std::uint32_t host, std::uint32_t other, Status status,
                                    proto::Duration since) const {
    return std::ranges::any_of(sides_[index(host, other)].endings, [&](const Ending& ending) {
      return ending.status == status && ending.at >= since;
    });
  }
  // Whether session `which` was established.
  [[nodiscard]] bool succeeded(std::uint32_t host, std::uint32_t other, std::uint32_t which) const {
    const Side& side = sides_[index(host, other)];
    return which < side.succeeded.size() && side.succeeded[which];
  }
  // Whether any session has ended between these times.
  [[nodiscard]] bool any_ended(std::uint32_t host, std::uint32_t other, proto::Duration from,
                               proto::Duration to) const {
    return std::ranges::any_of(sides_[index(host, other)].endings, [&](const Ending& ending) {
      return from <= ending.at && ending.at <= to;
    });
  }
  // Whether a session is established and has not ended, as the host says.
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
