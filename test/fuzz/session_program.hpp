// SPDX-License-Identifier: Apache-2.0
// The language of session_fuzzer's inputs: steps, each of which is one byte for the kind of step
// (modulo kSteps) and the bytes that it takes. Bytes missing at the end are 0.
#pragma once

#include <cstdint>

namespace hawser::test {

enum class Step : std::uint8_t {
  // 1 byte: microseconds. Both endpoints take turns.
  wait,
  // 1 byte: units of 2 ms. Both endpoints take turns.
  wait_long,
  // 1 byte: which of the packets in flight.
  deliver,
  lose,
  duplicate,
  // All packets in flight.
  deliver_all,
  lose_all,
  // 1 byte which packet, 1 byte where, 1 byte to xor. An even last byte corrects the checksum too.
  damage,
  // 1 byte: which of the packets delivered lately arrives again.
  replay,
  // 1 byte which packet (the forged one takes its receiver and token), 1 byte type, 1 byte length,
  // then 4 bytes of the common header and those behind it. The checksum is made right.
  forge,
  // 1 byte to which endpoint and NIC, 1 byte length, the bytes.
  raw,
  // 1 byte endpoint, level, priority and tag, 1 byte size.
  send,
  // 1 byte endpoint, tag and mask, 1 byte size.
  receive,
  // 1 byte endpoint, 1 byte which operation.
  cancel,
  // 1 byte endpoint, tag and mask.
  claim,
  // 1 byte endpoint.
  put_back,
  // 1 byte endpoint, 1 byte size.
  receive_claimed,
  // 1 byte endpoint.
  connect,
  disconnect,
  close,
  // 1 byte endpoint, which NIC, dead or not, with an event or not.
  nic,
  // 1 byte endpoint, which NIC, holds its sends or not.
  hold,
  // 1 byte endpoint: only this one takes a turn.
  turn,
  count_
};

inline constexpr std::uint8_t kSteps = static_cast<std::uint8_t>(Step::count_);

}  // namespace hawser::test
