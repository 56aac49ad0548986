// SPDX-License-Identifier: Apache-2.0
// Secrets that only this endpoint can make: the tokens of its sessions, its peers' names on the
// wire, and cookies. With a cookie the sender of a HELLO proves that it receives at its address.
//
// All are keyed BLAKE2b (libsodium). The key comes from the endpoint's seed: unpredictable without
// the seed, and the same in every run with it.
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

// An endpoint knows this of a HELLO's sender when it makes a cookie for it, or gets one back.
struct KnownOfSender {
  Incarnation verified;  // whose session was last READY here
  Incarnation present;   // that the endpoint answered, or has a session with
};

class SessionKeys {
 public:
  // A cookie is good in the period in which it was made, and in the next one.
  static constexpr Duration kCookiePeriod = milliseconds(4000);

  explicit SessionKeys(std::uint64_t seed);

  // The token that the peer must send in a session: never 0, and different for each `counter`.
  [[nodiscard]] std::uint64_t token(std::uint32_t counter, std::uint64_t peer_id) const;

  // The mask that hides the indices of peers. Names have 31 bits, so none is kNoReceiver.
  [[nodiscard]] std::uint32_t name_mask() const;

  // The secret of the region that was exposed as number `count`: never 0.
  [[nodiscard]] std::uint64_t region_secret(std::uint64_t count) const;

  // The cookie to send to the maker of this HELLO, if it receives at this address at `now`. The
  // endpoint need not remember it. Never 0. Once another incarnation was answered or READY, older
  // cookies are void: they don't show that their holder was there after that.
  [[nodiscard]] std::uint64_t cookie(const wire::SessionPart& hello, const NicAddress& address,
                                     const KnownOfSender& known, Time now) const;
  [[nodiscard]] bool is_cookie_good(const wire::SessionPart& hello, const NicAddress& address,
                                    const KnownOfSender& known, Time now) const;

 private:
  [[nodiscard]] std::uint64_t cookie_of(const wire::SessionPart& hello, const NicAddress& address,
                                        const KnownOfSender& known, std::int64_t period) const;

  std::array<unsigned char, 32> key_{};
};

}  // namespace hawser::proto
