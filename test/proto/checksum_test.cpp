// SPDX-License-Identifier: Apache-2.0
#include "proto/wire/checksum.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string_view>
#include <vector>

#include "test/proto/wire_bytes.hpp"

namespace hawser::proto {
namespace {

// Computes the CRC bit by bit from the polynomial, and shares nothing with the code under test.
std::uint32_t bitwise_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

std::vector<std::byte> random_bytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

TEST_CASE("checksum: the vectors of RFC 3720 appendix B.4") {
  std::vector<std::byte> bytes(32);
  CHECK(crc32c(bytes) == 0x8a9136aa);  // 32 bytes of zeroes
  for (std::byte& byte : bytes) byte = std::byte{0xff};
  CHECK(crc32c(bytes) == 0x62a8ab43);  // 32 bytes of ones
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(crc32c(bytes) == 0x46dd794e);  // incrementing
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  CHECK(crc32c(bytes) == 0x113fdb5c);  // decrementing
  CHECK(crc32c(test::from_hex("01 c0 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                              "14 00 00 00 00 00 04 00 00 00 00 14 00 00 00 18"
                              "28 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00")) == 0xd9963a56);
}

TEST_CASE("checksum: nothing, and the check value of the catalogue of CRCs") {
  CHECK(crc32c({}) == 0);
  CHECK(crc32c(std::as_bytes(std::span(std::string_view("123456789")))) == 0xe3069283);
}

TEST_CASE("checksum: every length and alignment agrees with the bitwise definition") {
  std::mt19937_64 random(4);
  for (std::size_t length = 0; length <= 300; ++length) {
    const std::vector<std::byte> bytes = random_bytes(length, random);
    REQUIRE(crc32c(bytes) == bitwise_crc32c(bytes));
    const auto tail = std::span(bytes).subspan(length < 8 ? length : length % 8);
    REQUIRE(crc32c(tail) == bitwise_crc32c(tail));
  }
  for (const std::size_t length : {1024u, 4176u, 9000u, 65507u}) {
    const std::vector<std::byte> bytes = random_bytes(length, random);
    REQUIRE(crc32c(bytes) == bitwise_crc32c(bytes));
  }
}

TEST_CASE("checksum: two halves chained are the whole, at every split") {
  std::mt19937_64 random(5);
  const std::vector<std::byte> bytes = random_bytes(200, random);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    const std::span all(bytes);
    REQUIRE(crc32c(all.subspan(at), crc32c(all.first(at))) == whole);
  }
}

}  // namespace
}  // namespace hawser::proto
