// SPDX-License-Identifier: Apache-2.0
#include "proto/wire/mac.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>

#include "proto/base/assert.hpp"

namespace hawser::proto::wire {
namespace {

static_assert(kMaxSecretBytes == crypto_generichash_KEYBYTES_MAX);
static_assert(kMacBytes >= crypto_generichash_BYTES_MIN);
constexpr std::size_t kNoMac = 0;

constexpr std::size_t mac_offset(PacketType type) {
  switch (type) {
    case PacketType::hello:
    case PacketType::welcome: return sizeof(CommonHeader) + offsetof(SessionPart, mac);
    case PacketType::close:
    case PacketType::closed:
    case PacketType::reset: return sizeof(CommonHeader) + offsetof(ClosingPart, mac);
    case PacketType::challenge: return sizeof(CommonHeader) + offsetof(ChallengePart, mac);
    default: return kNoMac;
  }
}

Mac compute(std::span<const std::byte> headers, std::size_t offset,
            std::span<const std::byte> secret) {
  HAWSER_ASSERT(secret.size() <= kMaxSecretBytes);
  Mac mac{};
  if (secret.empty()) return mac;
  std::array<std::byte, 255 * kWordBytes> bytes;
  std::copy(headers.begin(), headers.end(), bytes.begin());
  const auto clear = [&bytes](std::size_t at, std::size_t count) {
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, std::byte{0});
  };
  clear(offsetof(CommonHeader, checksum), sizeof(CommonHeader::checksum));
  clear(offset, kMacBytes);
  const auto raw = [](const std::byte* p) { return reinterpret_cast<const unsigned char*>(p); };
  const int failed =
      crypto_generichash(reinterpret_cast<unsigned char*>(mac.data()), mac.size(),
                         raw(bytes.data()), headers.size(), raw(secret.data()), secret.size());
  HAWSER_ASSERT(failed == 0);
  return mac;
}

}  // namespace

void sign(PacketWriter& writer, std::span<const std::byte> secret) {
  const std::size_t offset = mac_offset(writer.header().type);
  const std::span<std::byte> headers = writer.seal();
  HAWSER_ASSERT(offset != kNoMac && offset + kMacBytes <= headers.size());
  const Mac mac = compute(headers, offset, secret);
  std::copy(mac.begin(), mac.end(), headers.begin() + static_cast<std::ptrdiff_t>(offset));
}

bool verify(const PacketView& packet, std::span<const std::byte> secret) {
  const std::size_t offset = mac_offset(packet.type);
  if (offset == kNoMac) return false;
  const std::span<const std::byte> headers = packet.headers();
  const Mac expected = compute(headers, offset, secret);
  return sodium_memcmp(expected.data(), headers.subspan(offset).data(), kMacBytes) == 0;
}

}  // namespace hawser::proto::wire
