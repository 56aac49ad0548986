// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli; RFC 3720 appendix B.4): the end-to-end check of packets on fabrics that have
// none of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hawser::proto {

// The checksum of `bytes`; `previous` is that of the bytes in front of them.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace hawser::proto
