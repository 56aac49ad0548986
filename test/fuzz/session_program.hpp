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
  // 1 byte endpoint, rights, whether the memory can't do atomics.
  expose,
  // 1 byte endpoint, which region.
  withdraw,
  // The first byte of these three: endpoint, 3 bits which region of the other one, 2 bits how wrong
  // the key is, strong, one bit more. A write: that bit is whether it notifies, 1 byte size and
  // channel, 1 byte kind of signal and offset; with a signal, 1 byte of it.
  write,
  // That bit is whether it reads what is written; 1 byte size and channel, 1 byte offset.
  read,
  // That bit is whether it fetches; 1 byte word and channel, 1 byte operation.
  atomic,
  // 1 byte endpoint and channel.
  flush,
  // 1 byte endpoint, whether its program leaves notices in their ring from now on.
  notices,
  // A one-sided packet: 1 byte to which endpoint, its type and the numbers of its path, then 1 byte
  // each for flags, number, fragment, region, size, offset, note, word.
  forge_operation,
  // A block about a message: 1 byte to which endpoint and kind, then 1 byte each for number, value,
  // count.
  forge_answer,
  count_
};

inline constexpr std::uint8_t kSteps = static_cast<std::uint8_t>(Step::count_);

}  // namespace hawser::test
