// SPDX-License-Identifier: Apache-2.0
// The language of handshake_fuzzer's inputs: a byte that says what kind of world it is, then steps,
// each a byte that says what (modulo kHandshakeSteps) and the bytes that it takes. Whatever is
// missing at the end is 0.
#pragma once

#include <cstdint>

namespace hawser::test {

// The first byte.
inline constexpr std::uint8_t kWithSecret = 1;        // both have one
inline constexpr std::uint8_t kDifferentSecrets = 2;  // but not the same
inline constexpr std::uint8_t kProveAlways = 4;       // max_half_open_sessions is 0
inline constexpr std::uint8_t kOnlyOneCalls = 8;

enum class HandshakeStep : std::uint8_t {
  // 1 byte: microseconds, or units of 2 ms; both take turns.
  wait,
  wait_long,
  // 1 byte: which; of the packets under way.
  deliver,
  lose,
  duplicate,
  deliver_all,
  // 1 byte which of those delivered lately; it comes again, also from an earlier session.
  replay,
  // 1 byte which of those delivered lately, 1 byte where, 1 byte what to xor: an observer's change,
  // with the right checksum; where there is a secret.
  change,
  // A HELLO or WELCOME of a stranger, who receives what is sent to him: 1 byte to whom and of whom,
  // 1 byte of what he heard (kEcho...), 1 byte counter and epoch, 1 byte sizes, 1 byte his NICs.
  stranger_hello,
  stranger_welcome,
  // The same in the name of the other endpoint, by who doesn't receive what is sent to it.
  false_hello,
  false_welcome,
  // CLOSE, CLOSED, RESET, CHALLENGE: 1 byte to whom, 1 byte which kind, 1 byte whose token.
  ending,
  // 1 byte who.
  connect,
  disconnect,
  turn,
  count_
};
inline constexpr std::uint8_t kHandshakeSteps = static_cast<std::uint8_t>(HandshakeStep::count_);

// What a stranger makes of what he has heard; the second byte of stranger_hello.
inline constexpr std::uint8_t kEchoToken = 1;
inline constexpr std::uint8_t kUseCookie = 2;
inline constexpr std::uint8_t kSignWrongly = 4;
inline constexpr std::uint8_t kNewToken = 8;
inline constexpr std::uint8_t kSameSequence = 16;

}  // namespace hawser::test
