// SPDX-License-Identifier: Apache-2.0
// What an endpoint makes up so that nobody else can: the tokens of its sessions, the names of its
// peers on the wire, and the cookies by which the sender of a HELLO proves that it receives where
// it says.
//
// All are keyed BLAKE2b (libsodium) with a key that comes from the endpoint's seed: unpredictable
// to who doesn't know that, and the same in every run with the same seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/base/time.hpp"
#include "proto/nic.hpp"
#include "proto/wire/layout.hpp"

namespace hawser::proto {

// One process of an endpoint, and its handshake; counter 0: none.
struct Incarnation {
  std::uint64_t epoch = 0;
  std::uint32_t counter = 0;
};

class SessionKeys {
 public:
  // A cookie is good in the period in which it was made, and in the next one.
  static constexpr Duration kCookiePeriod = milliseconds(4000);

  explicit SessionKeys(std::uint64_t seed);

  // What the peer must say in a session: never 0, and another one for each `counter`.
  [[nodiscard]] std::uint64_t token(std::uint32_t counter, std::uint64_t peer_id) const;

  // What hides the indices of peers: names of 31 bits, so that none is kNoReceiver.
  [[nodiscard]] std::uint32_t name_mask() const;

  // Who made this HELLO and receives at this address at `now`: the cookie to send there. Nothing of
  // it need be remembered. Never 0. `verified` is the sender's incarnation whose session was READY
  // here last: a cookie from before another one was is good no more.
  [[nodiscard]] std::uint64_t cookie(const wire::SessionPart& hello, const NicAddress& address,
                                     Incarnation verified, Time now) const;
  [[nodiscard]] bool is_cookie_good(const wire::SessionPart& hello, const NicAddress& address,
                                    Incarnation verified, Time now) const;

 private:
  [[nodiscard]] std::uint64_t cookie_of(const wire::SessionPart& hello, const NicAddress& address,
                                        Incarnation verified, std::int64_t period) const;

  std::array<unsigned char, 32> key_{};
};

}  // namespace hawser::proto
