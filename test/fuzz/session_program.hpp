// SPDX-License-Identifier: Apache-2.0
// The language of session_fuzzer's inputs: steps, each a byte that says what (modulo kSteps) and
// the bytes that it takes. Whatever is missing at the end is 0.
#pragma once

#include <cstdint>

namespace hawser::test {

enum class Step : std::uint8_t {
  // 1 byte: microseconds; both take turns.
  wait,
  // 1 byte: units of 2 ms; both take turns.
  wait_long,
  // 1 byte: which; of the packets under way.
  deliver,
  lose,
  duplicate,
  // All that is under way.
  deliver_all,
  lose_all,
  // 1 byte which, 1 byte where, 1 byte what to xor; the checksum is made right if the last is even.
  damage,
  // 1 byte: which of those delivered lately comes again.
  replay,
  // 1 byte which (its receiver and token are taken), 1 byte type, 1 byte length, then the bytes
  // behind the common header and 4 of its own; the checksum is made right.
  forge,
  // 1 byte whom and where, 1 byte length, the bytes.
  raw,
  // 1 byte who, level, priority and tag, 1 byte size.
  send,
  // 1 byte who, tag and mask, 1 byte size.
  receive,
  // 1 byte who, 1 byte which operation.
  cancel,
  // 1 byte who, tag and mask.
  claim,
  // 1 byte who.
  put_back,
  // 1 byte who, 1 byte size.
  receive_claimed,
  // 1 byte who.
  connect,
  disconnect,
  close,
  // 1 byte who, which NIC, dead or not, with an event or not.
  nic,
  // 1 byte who, which NIC, holds its sends or not.
  hold,
  // 1 byte who: only that one takes a turn.
  turn,
  count_
};

inline constexpr std::uint8_t kSteps = static_cast<std::uint8_t>(Step::count_);

}  // namespace hawser::test
