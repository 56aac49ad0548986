// SPDX-License-Identifier: Apache-2.0
#include "proto/wire/mac.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>
#include <vector>

#include "test/proto/wire_bytes.hpp"

namespace hawser::proto::wire {
namespace {

std::span<const std::byte> secret(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> signed_packet(PacketType type, std::span<const std::byte> key) {
  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(type, 2, 0x1122334455667788, 0).slot = CommonHeader::slot_byte(0, 1);
  if (rule_of(type).own_words == rule_of(PacketType::hello).own_words) {
    SessionPart session{};
    session.fragment_bytes = 4096;
    session.nics = 2;
    writer.part(session);
    writer.part(NicRecord{});
    writer.part(NicRecord{});
  } else if (type == PacketType::challenge) {
    writer.part(ChallengePart{9, {}});
  } else {
    writer.part(ClosingPart{5, 0, 0, 0, {}});
    if (type == PacketType::close) CHECK(writer.status(7, MessageStatus::delivered));
  }
  sign(writer, key);
  const std::uint32_t bytes = writer.finish(false);
  return {buffer.bytes, buffer.bytes + bytes};
}

bool verified(const std::vector<std::byte>& datagram, std::span<const std::byte> key) {
  PacketView packet;
  REQUIRE(!parse(datagram, Queue::data, false, packet));
  return verify(packet, key);
}

constexpr PacketType kTypes[] = {PacketType::hello,  PacketType::welcome, PacketType::close,
                                 PacketType::closed, PacketType::reset,   PacketType::challenge};

TEST_CASE("mac: a known answer, from another implementation of BLAKE2b") {
  // hashlib.blake2b(packet with checksum and mac 0, digest_size=16, key=b"job secret")
  CHECK(signed_packet(PacketType::closed, secret("job secret")) ==
        test::from_hex("01 04 10 00 02 00 00 00  88 77 66 55 44 33 22 11"
                       "00 00 00 00 07 00 00 00  00 00 00 00 00 00 00 00"
                       "05 00 00 00 00 00 00 00"
                       "bd 43 da 4c 5a a5 28 83  7b fc 39 44 91 b8 e6 ee"));
}

TEST_CASE("mac: the own secret verifies, any other does not") {
  const std::string_view longest =
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  static_assert(kMaxSecretBytes == 64);
  for (const PacketType type : kTypes) {
    for (const std::string_view key :
         {std::string_view("k"), std::string_view("job secret"), longest}) {
      const std::vector<std::byte> packet = signed_packet(type, secret(key));
      CHECK(verified(packet, secret(key)));
      CHECK_FALSE(verified(packet, secret("job secreT")));
      CHECK_FALSE(verified(packet, {}));
    }
  }
}

TEST_CASE("mac: without a secret it is 0, and a packet with one is refused") {
  for (const PacketType type : kTypes) {
    std::vector<std::byte> packet = signed_packet(type, {});
    CHECK(verified(packet, {}));
    CHECK_FALSE(verified(packet, secret("job secret")));
    const std::size_t last_of_mac =
        (type == PacketType::hello || type == PacketType::welcome ? 144u : 56u) - 1;
    CHECK(packet[last_of_mac] == std::byte{0});
    packet[last_of_mac] = std::byte{1};
    CHECK_FALSE(verified(packet, {}));
  }
}

TEST_CASE("mac: no bit but the checksum's can change") {
  for (const PacketType type : kTypes) {
    const std::vector<std::byte> packet = signed_packet(type, secret("job secret"));
    for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
      std::vector<std::byte> changed = packet;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      PacketView view;
      if (parse(changed, Queue::data, false, view)) continue;  // not a packet any more
      const bool in_checksum = bit / 8 >= 16 && bit / 8 < 20;
      INFO("type " << int(type) << " bit " << bit);
      REQUIRE(verify(view, secret("job secret")) == in_checksum);
    }
  }
}

TEST_CASE("mac: one type's packet is no other's") {
  std::vector<std::byte> packet = signed_packet(PacketType::closed, secret("job secret"));
  packet[1] = static_cast<std::byte>(PacketType::reset);
  CHECK_FALSE(verified(packet, secret("job secret")));
}

TEST_CASE("mac: packets that have none do not verify") {
  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::control, 1, 2, 3);
  const std::uint32_t bytes = writer.finish(false);
  PacketView view;
  REQUIRE(!parse({buffer.bytes, bytes}, Queue::control, false, view));
  CHECK_FALSE(verify(view, {}));
}

}  // namespace
}  // namespace hawser::proto::wire
