// SPDX-License-Identifier: Apache-2.0
// The language of handshake_fuzzer's inputs. The first byte gives the kind of world. The steps
// follow: one byte for the kind of step (modulo kHandshakeSteps), then the bytes that it takes.
// Bytes missing at the end are 0.
#pragma once

#include <cstdint>

namespace hawser::test {

// The bits of the first byte.
inline constexpr std::uint8_t kWithSecret = 1;        // both have one
inline constexpr std::uint8_t kDifferentSecrets = 2;  // but not the same
inline constexpr std::uint8_t kProveAlways = 4;       // max_half_open_sessions is 0
inline constexpr std::uint8_t kOnlyOneCalls = 8;

enum class HandshakeStep : std::uint8_t {
  // 1 byte: microseconds, or units of 2 ms. Both endpoints take turns.
  wait,
  wait_long,
  // 1 byte: which of the packets in flight.
  deliver,
  lose,
  duplicate,
  deliver_all,
  // 1 byte: which of the packets delivered lately arrives again, maybe one of an earlier session.
  replay,
  // 1 byte which of the packets delivered lately, 1 byte where, 1 byte to xor. An observer changes
  // the packet and its checksum. Only in worlds with a secret.
  change,
  // A HELLO or WELCOME of a stranger, who receives the answers. Five bytes follow: to and from
  // whom, how he uses what he has heard (kEcho...), counter and epoch, sizes, his NICs.
  stranger_hello,
  stranger_welcome,
  // The same in the name of the other endpoint. The sender doesn't receive the answers.
  false_hello,
  false_welcome,
  // CLOSE, CLOSED, RESET or CHALLENGE. 1 byte to whom, 1 byte which of them, 1 byte whose token.
  ending,
  // 1 byte: which endpoint.
  connect,
  disconnect,
  turn,
  count_
};
inline constexpr std::uint8_t kHandshakeSteps = static_cast<std::uint8_t>(HandshakeStep::count_);

// How a stranger uses what he has heard: the bits of the second byte of stranger_hello.
inline constexpr std::uint8_t kEchoToken = 1;
inline constexpr std::uint8_t kUseCookie = 2;
inline constexpr std::uint8_t kSignWrongly = 4;
inline constexpr std::uint8_t kNewToken = 8;
inline constexpr std::uint8_t kSameSequence = 16;

}  // namespace hawser::test
