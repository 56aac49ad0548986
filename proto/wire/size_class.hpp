// SPDX-License-Identifier: Apache-2.0
// Size classes: how long the fragments of a message are (docs/internals/protocol.md §4, *Size
// classes*). The field `fragment` of a packet has the class in its top 4 bits, and the index of the
// fragment in the others.
//
// Class 0 is the session's own size. The others are fixed, and serve while a way carries less than
// the session agreed on. The ladder has the common MTUs, each without 80 bytes of headers and those
// of IP and UDP, for IPv4 as for IPv6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hawser::proto::wire {

inline constexpr std::uint32_t kFragmentIndexBits = 28;
inline constexpr std::uint32_t kFragmentIndexMask = (1u << kFragmentIndexBits) - 1;

// By class. All are multiples of 16, like the session's.
inline constexpr std::array<std::uint16_t, 16> kClassBytes{
    0,      // the session's
    30720,  // the default of the tunable fragment_bytes
    16384,
    8864,  // MTU 9000
    8192,  4096, 2048,
    1360,  // 1500
    1328,  // 1460
    1312,  // 1450 and, over IPv4, 1420
    1280,  // 1400 over IPv4, 1420 over IPv6
    1264,  // 1400 over IPv6
    1152,  // 1280
    640,
    448,  // 576
    256,  // the least that a session may have
};

[[nodiscard]] constexpr std::uint32_t fragment_field(std::uint8_t size_class, std::uint32_t index) {
  return std::uint32_t{size_class} << kFragmentIndexBits | index;
}

// Whether messages of the session may have the class: no class is as long as the session's size.
[[nodiscard]] constexpr bool is_class_of(std::uint8_t size_class, std::uint32_t session_bytes) {
  return size_class < kClassBytes.size() && kClassBytes[size_class] < session_bytes;
}

// The bytes of all fragments of a message but the last.
[[nodiscard]] constexpr std::uint16_t bytes_of_class(std::uint8_t size_class,
                                                     std::uint16_t session_bytes) {
  return size_class == 0 ? session_bytes : kClassBytes[size_class];
}

// Whether fragment indices can count the fragments of such a message. 2^40 bytes are fragments of
// 4 KiB.
[[nodiscard]] constexpr bool fits_in_fragments(std::uint64_t bytes, std::uint32_t fragment_bytes) {
  return bytes <= std::uint64_t{fragment_bytes} << kFragmentIndexBits;
}

// The class of the longest fragments that fit into `payload_bytes`, or else of the shortest.
[[nodiscard]] constexpr std::uint8_t class_within(std::uint32_t payload_bytes,
                                                  std::uint16_t session_bytes) {
  if (payload_bytes >= session_bytes) return 0;
  std::uint8_t found = 0;
  for (std::uint8_t i = 1; i < kClassBytes.size(); ++i) {
    if (!is_class_of(i, session_bytes)) continue;
    found = i;
    if (kClassBytes[i] <= payload_bytes) break;
  }
  return found;
}

// The class of a message of so many bytes, while the way carries fragments of `size_class`. A
// message of one fragment has class 0: its length says all. A message with more fragments than
// indices has a class with longer ones.
[[nodiscard]] constexpr std::uint8_t class_of_message(std::uint64_t bytes, std::uint8_t size_class,
                                                      std::uint16_t session_bytes) {
  if (bytes <= bytes_of_class(size_class, session_bytes)) return 0;
  while (size_class > 0 && (!is_class_of(size_class, session_bytes) ||
                            !fits_in_fragments(bytes, kClassBytes[size_class]))) {
    --size_class;
  }
  return size_class;
}

}  // namespace hawser::proto::wire
