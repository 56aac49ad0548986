// SPDX-License-Identifier: Apache-2.0
#include "proto/wire/address_blob.hpp"

#include <algorithm>
#include <cstring>

#include "hawser/address.hpp"

namespace hawser::proto {
namespace {

constexpr std::array<std::byte, 2> kShortMagic{std::byte{'h'}, std::byte{'s'}};
constexpr std::size_t kShortHead = kShortMagic.size() + 1 + sizeof(std::uint64_t);

bool is_short(std::span<const std::byte> bytes) {
  return bytes.size() >= kShortHead && std::ranges::equal(bytes.first<2>(), kShortMagic);
}

bool parse_long(std::span<const std::byte> bytes, ParsedAddress& parsed) {
  AddressHead head;
  if (bytes.size() < sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != AddressHead{}.magic || head.nics == 0 || head.nics > wire::kMaxNics ||
      bytes.size() != sizeof head + head.nics * sizeof(wire::NicRecord) || head.endpoint_id == 0) {
    return false;
  }
  parsed.endpoint_id = head.endpoint_id;
  parsed.epoch = head.epoch;
  parsed.nics = head.nics;
  std::memcpy(parsed.records.data(), bytes.data() + sizeof head,
              head.nics * sizeof(wire::NicRecord));
  for (std::size_t i = 0; i < head.nics; ++i) {
    if (parsed.records[i].index != i) return false;
  }
  return true;
}

bool parse_short(std::span<const std::byte> bytes, ParsedAddress& parsed) {
  parsed.nics = std::to_integer<std::size_t>(bytes[kShortMagic.size()]);
  std::memcpy(&parsed.endpoint_id, bytes.data() + kShortMagic.size() + 1,
              sizeof parsed.endpoint_id);
  if (parsed.nics == 0 || parsed.nics > wire::kMaxNics || parsed.endpoint_id == 0) return false;
  std::size_t at = kShortHead;
  for (std::size_t i = 0; i < parsed.nics; ++i) {
    wire::NicRecord record{};
    const std::size_t length = at < bytes.size() ? std::to_integer<std::size_t>(bytes[at]) : 0;
    if (length == 0 || length > record.address.bytes.size() || bytes.size() - at <= length) {
      return false;
    }
    std::memcpy(record.address.bytes.data(), bytes.data() + at + 1, length);
    record.index = static_cast<std::uint8_t>(i);
    record.state = 1;
    parsed.records[i] = record;
    at += 1 + length;
  }
  return at == bytes.size();
}

std::size_t length_of(const NicAddress& address) {
  std::size_t length = address.bytes.size();
  while (length > 0 && address.bytes[length - 1] == std::byte{0}) --length;
  return length;
}

std::size_t write_short(const ParsedAddress& address, std::span<std::byte> out) {
  if (out.size() < kShortHead) return 0;
  std::size_t at = kShortHead;
  std::uint8_t nics = 0;
  for (const wire::NicRecord& record : address.nic_records()) {
    const std::size_t length = length_of(record.address);
    if (length == 0 || out.size() - at < 1 + length) break;
    out[at] = static_cast<std::byte>(length);
    std::memcpy(out.data() + at + 1, record.address.bytes.data(), length);
    at += 1 + length;
    ++nics;
  }
  if (nics == 0) return 0;
  std::ranges::copy(kShortMagic, out.begin());
  out[kShortMagic.size()] = std::byte{nics};
  std::memcpy(out.data() + kShortMagic.size() + 1, &address.endpoint_id,
              sizeof address.endpoint_id);
  return at;
}

}  // namespace

bool parse_address(std::span<const std::byte> bytes, ParsedAddress& parsed) noexcept {
  parsed.epoch = 0;
  parsed.is_short = is_short(bytes);
  return parsed.is_short ? parse_short(bytes, parsed) : parse_long(bytes, parsed);
}

}  // namespace hawser::proto

namespace hawser {

std::size_t shorten_address(std::span<const std::byte> address, std::span<std::byte> out) noexcept {
  proto::ParsedAddress parsed;
  if (!proto::parse_address(address, parsed)) return 0;
  const std::size_t length = proto::write_short(parsed, out);
  return parsed.is_short && length != address.size() ? 0 : length;
}

std::uint64_t endpoint_id_of(std::span<const std::byte> address) noexcept {
  proto::ParsedAddress parsed;
  return proto::parse_address(address, parsed) ? parsed.endpoint_id : 0;
}

}  // namespace hawser
