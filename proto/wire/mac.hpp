// SPDX-License-Identifier: Apache-2.0
// The MAC of session packets (HELLO, WELCOME, CHALLENGE, CLOSE, CLOSED, RESET): BLAKE2b-128 keyed
// with the job's secret over all headers, with the fields `checksum` and `mac` taken as 0. It
// covers the common header so that neither the type nor the session (`receiver`, `token`) of a
// packet can be exchanged.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "proto/base/assert.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto::wire {

inline constexpr std::size_t kMaxSecretBytes = 64;  // BLAKE2b's longest key

// The secret of a job; 0 bytes if it has none.
class Secret {
 public:
  explicit Secret(std::span<const std::byte> bytes) : size_(bytes.size()) {
    HAWSER_ASSERT(size_ <= kMaxSecretBytes);
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, kMaxSecretBytes> bytes_{};
  std::size_t size_;
};

// Writes the MAC into a session packet whose parts and blocks are complete; `finish` comes after.
// Without a secret (0 bytes) the MAC is 0.
void sign(PacketWriter& writer, std::span<const std::byte> secret);

// False if the packet's MAC is not what `sign` with this secret writes, or if it has none. Takes
// the same time wherever the MACs differ.
[[nodiscard]] bool verify(const PacketView& packet, std::span<const std::byte> secret);

}  // namespace hawser::proto::wire
