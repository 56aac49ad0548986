// SPDX-License-Identifier: Apache-2.0
#include "proto/wire/checksum.hpp"

#include <isa-l/crc.h>

namespace hawser::proto {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  // ISA-L leaves the inversions at both ends to the caller, takes an int, and does not write in
  // spite of the missing const. Datagrams are far shorter than an int can say.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ~::crc32_iscsi(data, static_cast<int>(bytes.size()), ~previous);
}

}  // namespace hawser::proto
