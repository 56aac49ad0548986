// SPDX-License-Identifier: Apache-2.0
// Writes packets in the name of an endpoint, from what an observer has heard: its peer's token, the
// numbers of its messages, the notes of its peer's fetches. The packets are well-formed as far as
// the fuzzer's choice lets them be. A random change of a packet hardly ever makes one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "hawser/one_sided.hpp"
#include "proto/wire/packet.hpp"
#include "test/fuzz/tiny_world.hpp"

namespace hawser::test {

// A WRITE, READ or ATOMIC.
struct ForgedOperation {
  std::uint32_t to = 0;
  proto::wire::PacketType type = proto::wire::PacketType::write;
  std::uint8_t flags = 0;        // of the target
  std::int32_t number = 0;       // beyond the floor
  std::uint8_t path_number = 0;  // beyond the newest of the path
  std::uint8_t fragment = 0;
  RegionKey key{};
  RegionKey key_of_word{};  // of a signal
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::int8_t note = 0;            // beyond that of the newest fetch of `to`
  bool has_other_payload = false;  // another length than the fragment has
  WordOperation word{};
};

// A block of a CONTROL packet about a message that `to` has sent.
struct ForgedAnswer {
  enum class Kind : std::uint8_t { status, grant, request };
  std::uint32_t to = 0;
  Kind kind = Kind::status;
  std::int8_t number = 0;  // beyond the floor of `to`
  std::uint8_t value = 0;  // of a status: that status; of a grant or request: the fragment
  std::uint8_t count = 1;  // statuses, or fragments; not 0
};

// Nothing: too little was heard. `heard`: packets that were delivered, the newest last.
[[nodiscard]] std::optional<Flying> forge(const ForgedOperation& choice, std::deque<Flying>& heard);
[[nodiscard]] std::optional<Flying> forge(const ForgedAnswer& choice, std::deque<Flying>& heard);

}  // namespace hawser::test
