// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "proto/wire/dump.hpp"
#include "proto/wire/layout.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto::wire {
namespace {

constexpr std::uint16_t kSession = 4096;
constexpr std::uint64_t kIndices = std::uint64_t{1} << kFragmentIndexBits;

}  // namespace

TEST_CASE("size_class: the ladder goes down to the least of a session", "[S41]") {
  for (std::size_t i = 2; i < kClassBytes.size(); ++i) {
    CHECK(kClassBytes[i] < kClassBytes[i - 1]);
    CHECK(kClassBytes[i] % 16 == 0);
  }
  CHECK(kClassBytes.back() == kMinFragmentBytes);
}

TEST_CASE("size_class: it is in the top bits of the field", "[S41]") {
  const FragmentPart part{1, fragment_field(15, kFragmentIndexMask)};
  CHECK(part.fragment == 0xffffffff);
  CHECK(part.size_class() == 15);
  CHECK(part.index() == kFragmentIndexMask);
  CHECK(fragment_field(0, 7) == 7);
  CHECK(FragmentPart{1, 0x70000003}.size_class() == 7);
  CHECK(FragmentPart{1, 0x70000003}.index() == 3);
}

TEST_CASE("size_class: the longest fragments that fit, and never those of the session", "[S42]") {
  CHECK(class_within(kSession, kSession) == 0);
  CHECK(class_within(60000, kSession) == 0);
  for (std::uint32_t payload = 0; payload < kSession; ++payload) {
    const std::uint8_t found = class_within(payload, kSession);
    INFO(payload << " bytes: class " << unsigned{found});
    REQUIRE(is_class_of(found, kSession));
    REQUIRE(found != 0);
    const std::uint16_t bytes = bytes_of_class(found, kSession);
    REQUIRE(bytes < kSession);
    REQUIRE((bytes <= payload || bytes == kMinFragmentBytes));
    const auto above = static_cast<std::uint8_t>(found - 1);
    REQUIRE((!is_class_of(above, kSession) || above == 0 || kClassBytes[above] > payload));
  }
  CHECK(class_within(0, kMinFragmentBytes) == 0);  // there is nothing shorter
}

TEST_CASE("size_class: common MTUs lose little", "[S41]") {
  constexpr std::uint16_t kLong = 30720;
  constexpr std::uint32_t kHeaders = kDataHeaderBytes;
  for (const std::uint32_t mtu : {1280u, 1400u, 1420u, 1450u, 1460u, 1500u, 9000u}) {
    for (const std::uint32_t ip : {28u, 48u}) {
      const std::uint32_t payload = mtu - ip - kHeaders;
      INFO("MTU " << mtu << ", headers of " << ip);
      CHECK(bytes_of_class(class_within(payload, kLong), kLong) * 100 >= payload * 97);
    }
  }
}

TEST_CASE("size_class: a session has the classes below its size", "[S45]") {
  CHECK(is_class_of(0, kSession));
  CHECK_FALSE(is_class_of(1, kSession));
  CHECK_FALSE(is_class_of(5, kSession));  // 4096: class 0 says that
  CHECK(is_class_of(6, kSession));
  CHECK(is_class_of(15, kSession));
  CHECK_FALSE(is_class_of(15, kMinFragmentBytes));
  CHECK_FALSE(is_class_of(16, kSession));
}

TEST_CASE("size_class: a message of one fragment has class 0", "[S42]") {
  CHECK(class_of_message(0, 10, kSession) == 0);
  CHECK(class_of_message(1280, 10, kSession) == 0);
  CHECK(class_of_message(1281, 10, kSession) == 10);
  CHECK(class_of_message(1281, 0, kSession) == 0);
}

TEST_CASE("size_class: indices count the fragments of the longest messages", "[S42]") {
  CHECK(class_of_message(256 * kIndices, 15, kSession) == 15);
  CHECK(class_of_message(256 * kIndices + 1, 15, kSession) == 14);
  CHECK(class_of_message(2048 * kIndices, 15, kSession) == 6);
  CHECK(class_of_message(2048 * kIndices + 1, 15, kSession) == 0);  // 4096 is the session's
  CHECK(class_of_message(4096 * kIndices, 15, kSession) == 0);
  CHECK(class_of_message(2048 * kIndices + 1, 15, 8192) == 5);
}

TEST_CASE("size_class: the dump shows it", "[S41]") {
  for (const std::uint8_t size_class : {std::uint8_t{0}, std::uint8_t{10}}) {
    PacketBuffer buffer;
    PacketWriter writer(buffer);
    writer.begin(PacketType::envelope, 1, 2, 0);
    writer.part(FragmentPart{3, fragment_field(size_class, 4)});
    writer.part(EnvelopePart{});
    const std::uint32_t bytes = writer.finish(false);
    PacketView packet;
    REQUIRE_FALSE(parse(std::span(buffer.bytes, bytes), Queue::control, false, packet));
    const std::string text = describe(packet);
    CHECK((text.find("message 3 fragment 4 of class 10 ") != std::string::npos) ==
          (size_class == 10));
    CHECK(text.find("message 3 fragment 4 ") != std::string::npos);
  }
}

}  // namespace hawser::proto::wire
