// SPDX-License-Identifier: Apache-2.0
// The judge's view of ways that carry less in one piece than NICs do: which payload a full packet
// of a session may have.
//
// Each end makes an offer at the moment in which it draws its token. The offer is what the
// narrowest of its ways to the other one's NICs carries. It is no more than its own NICs carry, and
// at least 256 bytes. The session takes the smaller of the two offers, and keeps it for its life.
//
// Messages that begin later take what the sender's ways carry then. There are not as many sizes as
// there are ways: fragments are more than half as long as they could be.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/storm/plan.hpp"

namespace hawser::sim {

class Widths {
 public:
  explicit Widths(const Plan& plan) : plan_(plan) {}

  // Whether a session of the two may have that payload. `host` drew its token in the time from
  // `since` to `at`, the other one at any time before that.
  [[nodiscard]] bool may_take(std::uint32_t host, std::uint32_t other, std::uint32_t bytes,
                              proto::Duration since, proto::Duration at) const;
  // Whether messages that the host sends to the other one from now on may have that payload in full
  // packets, where the session allows `most`. The host has heard of each change of its ways.
  [[nodiscard]] bool may_send(std::uint32_t host, std::uint32_t other, std::uint32_t bytes,
                              std::uint32_t most, proto::Duration at) const;
  // The payload that the NICs of both allow.
  [[nodiscard]] std::uint32_t of_nics(std::uint32_t host, std::uint32_t other) const;

 private:
  [[nodiscard]] std::uint32_t own(std::uint32_t host) const;
  [[nodiscard]] std::uint32_t offer(std::uint32_t host, std::uint32_t other,
                                    proto::Duration at) const;
  [[nodiscard]] std::vector<std::uint32_t> offers(std::uint32_t host, std::uint32_t other,
                                                  proto::Duration since, proto::Duration at) const;

  const Plan& plan_;
};

}  // namespace hawser::sim
