// SPDX-License-Identifier: Apache-2.0
// Feeds bytes from outside to the codec. The first byte of an input is the mode: bit 0 the queue,
// bit 1 whether the codec verifies the checksum. Bit 2 makes the fuzzer correct the checksum first,
// since hardly any input would pass otherwise. The rest is the datagram.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/wire/mac.hpp"
#include "test/proto/wire_roundtrip.hpp"
#include "test/proto/wire_samples.hpp"

namespace {

constexpr unsigned kControlQueue = 1;
constexpr unsigned kCheckChecksum = 2;
constexpr unsigned kFixChecksum = 4;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hawser;
  if (size == 0) return 0;
  const unsigned mode = data[0];
  // The copy is exactly as large as the datagram, and aligned as a driver aligns it.
  std::vector<std::byte> datagram(size - 1);
  std::transform(data + 1, data + size, datagram.begin(),
                 [](std::uint8_t b) { return std::byte{b}; });
  if ((mode & kFixChecksum) != 0 && datagram.size() >= sizeof(proto::wire::CommonHeader)) {
    test::fix_checksum(datagram);
  }
  const auto queue = (mode & kControlQueue) != 0 ? proto::Queue::control : proto::Queue::data;
  const bool check_checksum = (mode & kCheckChecksum) != 0;
  if (!test::check_round_trip(datagram, queue, check_checksum)) return 0;

  proto::wire::PacketView packet;
  (void)proto::wire::parse(datagram, queue, check_checksum, packet);
  constexpr std::array<std::byte, 16> kSecret{};
  (void)proto::wire::verify(packet, kSecret);
  return 0;
}
