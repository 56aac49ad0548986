// SPDX-License-Identifier: Apache-2.0
// The packets of one-sided operations: byte for byte, and the parser on wrong ones.
#include <catch2/catch.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/wire/dump.hpp"
#include "proto/wire/packet.hpp"
#include "test/proto/wire_bytes.hpp"
#include "test/proto/wire_roundtrip.hpp"

namespace hawser::proto::wire {
namespace {

using test::from_hex;
using Verdict = std::optional<DropReason>;

constexpr std::uint64_t kToken = 0x1122334455667788;
constexpr std::uint32_t kReceiver = 0x12345678;

// The common header of a one-sided operation of `type`, with so many words of headers, path number
// 1 and floor 2; then message 3, fragment `fragment`.
std::string one_sided(std::string_view type, std::string_view words, std::string_view fragment) {
  return "01 " + std::string(type) + " 00 00 78 56 34 12  88 77 66 55 44 33 22 11 00 00 00 00 " +
         std::string(words) + " 00 00 00  01 00 00 00 02 00 00 00 03 00 00 00 " +
         std::string(fragment) + " 00 00 00";
}

std::string target(std::string_view flags) {
  return "04 00 00 00 05 00 00 00  10 32 54 76 98 ba dc fe"  // region generation secret
         "06 00 00 00 01 00 00 00  08 00 00 00 00 " +        // offset length
         std::string(flags) +
         " 07 00" +                  // flags channel
         "ef cd ab 89 67 45 23 01";  // note
}

const std::string kSignal =
    "08 00 00 00 09 00 00 00  18 32 54 76 98 ba dc fe"  // region generation secret
    "40 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00"  // offset value
    "04 08 00 00 00 00 00 00";                          // operation width

const std::string kOperands =
    "0b 00 00 00 00 00 00 00  0c 00 00 00 00 00 00 00"  // operand compare
    "03 08 00 00 00 00 00 00";                          // operation width

PacketView parsed(const std::vector<std::byte>& bytes) {
  PacketView packet;
  const auto dropped = parse(bytes, Queue::data, false, packet);
  if (dropped) FAIL("dropped: " << kDropReasonTexts[static_cast<std::size_t>(*dropped)].name);
  return packet;
}

Verdict judge(const std::vector<std::byte>& datagram) {
  PacketView packet;
  const Verdict verdict = parse(datagram, Queue::data, false, packet);
  if (!verdict) test::check_round_trip(datagram, Queue::data, false);
  return verdict;
}

TargetPart target_part(std::uint8_t flags) {
  TargetPart part{4, 5, 0xfedcba9876543210, 0x100000006, 0, 0, flags, 7, 0x0123456789abcdef};
  part.set_length(8);
  return part;
}

// The datagram of those parts, and of the payload.
std::vector<std::byte> one_sided_packet(PacketType type, std::uint32_t fragment,
                                        const TargetPart& target, const OperandsPart* operands,
                                        const SignalPart* signal,
                                        std::span<const std::byte> payload = {}) {
  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(type, kReceiver, kToken, 2).path_number = 1;
  writer.part(FragmentPart{3, fragment});
  writer.part(target);
  if (operands != nullptr) writer.part(*operands);
  if (signal != nullptr) writer.part(*signal);
  const std::uint32_t bytes = writer.finish(false, payload);
  std::vector<std::byte> datagram(buffer.bytes, buffer.bytes + bytes);
  datagram.insert(datagram.end(), payload.begin(), payload.end());
  return datagram;
}

void check_target(const PacketView& packet, std::uint32_t fragment, std::uint8_t flags) {
  REQUIRE(packet.fragment != nullptr);
  CHECK(packet.fragment->message == 3);
  CHECK(packet.fragment->fragment == fragment);
  CHECK(packet.envelope == nullptr);
  REQUIRE(packet.target != nullptr);
  CHECK(packet.target->region == 4);
  CHECK(packet.target->generation == 5);
  CHECK(packet.target->secret == 0xfedcba9876543210);
  CHECK(packet.target->offset == 0x100000006);
  CHECK(packet.target->length() == 8);
  CHECK(packet.target->flags == flags);
  CHECK(packet.target->channel == 7);
  CHECK(packet.target->note == 0x0123456789abcdef);
}

TEST_CASE("wire golden: WRITE", "[H1][O2]") {
  const std::vector<std::byte> bytes = from_hex(one_sided("18", "0a", "01") + target("04") + "ff");
  const PacketView packet = parsed(bytes);
  REQUIRE(packet.type == PacketType::write);
  check_target(packet, 1, kTargetNotifies);
  CHECK(packet.signal == nullptr);
  CHECK(packet.operands == nullptr);
  CHECK(packet.payload.size() == 1);
  CHECK(one_sided_packet(PacketType::write, 1, target_part(kTargetNotifies), nullptr, nullptr,
                         packet.payload) == bytes);
  CHECK(
      describe(packet).find("region 4.5 offset 4294967302 length 8 channel 7 NOTIFIES 0x1234567") !=
      std::string::npos);
}

TEST_CASE("wire golden: WRITE with a signal", "[H1][O2][O3]") {
  const std::vector<std::byte> bytes =
      from_hex(one_sided("18", "0f", "00") + target("08") + kSignal + "ff ff");
  const PacketView packet = parsed(bytes);
  check_target(packet, 0, kTargetSignals);
  REQUIRE(packet.signal != nullptr);
  CHECK(packet.signal->region == 8);
  CHECK(packet.signal->generation == 9);
  CHECK(packet.signal->secret == 0xfedcba9876543218);
  CHECK(packet.signal->offset == 64);
  CHECK(packet.signal->value == 1);
  CHECK(packet.signal->operation == AtomicOperation::add);
  CHECK(packet.signal->width == 8);
  CHECK(packet.blocks.empty());
  CHECK(packet.payload.size() == 2);
  const SignalPart signal{8, 9, 0xfedcba9876543218, 64, 1, AtomicOperation::add, 8, {}};
  CHECK(one_sided_packet(PacketType::write, 0, target_part(kTargetSignals), nullptr, &signal,
                         packet.payload) == bytes);
  CHECK(describe(packet).find("signal add 0x1 at region 8.9 offset 64") != std::string::npos);
}

TEST_CASE("wire golden: READ", "[H1][O2]") {
  const std::vector<std::byte> bytes = from_hex(one_sided("19", "0a", "00") + target("00"));
  const PacketView packet = parsed(bytes);
  REQUIRE(packet.type == PacketType::read);
  check_target(packet, 0, 0);
  CHECK(one_sided_packet(PacketType::read, 0, target_part(0), nullptr, nullptr) == bytes);
}

TEST_CASE("wire golden: ATOMIC", "[H1][O2][O3]") {
  const std::vector<std::byte> bytes =
      from_hex(one_sided("1a", "0d", "00") + target("10") + kOperands);
  const PacketView packet = parsed(bytes);
  REQUIRE(packet.type == PacketType::atomic);
  check_target(packet, 0, kTargetFetches);
  REQUIRE(packet.operands != nullptr);
  CHECK(packet.operands->operand == 11);
  CHECK(packet.operands->compare == 12);
  CHECK(packet.operands->operation == AtomicOperation::compare_and_swap);
  CHECK(packet.operands->width == 8);
  const OperandsPart operands{11, 12, AtomicOperation::compare_and_swap, 8, {}};
  CHECK(one_sided_packet(PacketType::atomic, 0, target_part(kTargetFetches), &operands, nullptr) ==
        bytes);
  CHECK(describe(packet).find("compare_and_swap 64 bits, operand 0xb compare 0xc") !=
        std::string::npos);
}

// Parses a one-sided packet of `words` words of headers, all 0 except the target's length of 8, and
// what `change` sets.
Verdict judge_one_sided(PacketType type, std::size_t words,
                        const std::function<void(std::vector<std::byte>&)>& change) {
  std::vector<std::byte> bytes(words * 8);
  bytes[0] = std::byte{kVersion};
  bytes[1] = static_cast<std::byte>(type);
  bytes[20] = static_cast<std::byte>(words);
  bytes[64] = std::byte{8};  // length
  change(bytes);
  return judge(bytes);
}

TEST_CASE("wire hostile: a WRITE whose flags contradict each other", "[O5]") {
  const auto with_flags = [](std::uint8_t flags, std::size_t words) {
    return judge_one_sided(PacketType::write, words, [=](auto& bytes) {
      bytes[69] = std::byte{flags};
      if (words == 15) {
        bytes[112] = static_cast<std::byte>(AtomicOperation::store);
        bytes[113] = std::byte{4};
      }
    });
  };
  for (unsigned flags = 0; flags < 256; ++flags) {
    const bool reply = (flags & kTargetReply) != 0;
    const bool good = flags < 16 && !(reply && (flags & (kTargetNotifies | kTargetSignals)) != 0) &&
                      (reply || (flags & kTargetWithdrawn) == 0);
    INFO("flags " << flags);
    const bool signals = (flags & kTargetSignals) != 0;
    CHECK(with_flags(static_cast<std::uint8_t>(flags), signals ? 15 : 10) ==
          (good ? std::nullopt : Verdict(DropReason::bad_field)));
  }
  CHECK(with_flags(kTargetSignals, 10) == DropReason::bad_field);  // the signal is missing
  CHECK(with_flags(kTargetSignals, 14) == DropReason::bad_field);
}

TEST_CASE("wire hostile: a signal that is none", "[O5]") {
  const auto with = [](unsigned operation, unsigned width) {
    return judge_one_sided(PacketType::write, 15, [=](auto& bytes) {
      bytes[69] = std::byte{kTargetSignals};
      bytes[112] = static_cast<std::byte>(operation);
      bytes[113] = static_cast<std::byte>(width);
    });
  };
  for (unsigned operation = 0; operation < 256; ++operation) {
    const auto value = static_cast<AtomicOperation>(operation);
    const bool good = value == AtomicOperation::add || value == AtomicOperation::store;
    CHECK(with(operation, 8) == (good ? std::nullopt : Verdict(DropReason::bad_field)));
  }
  for (unsigned width = 0; width < 256; ++width) {
    CHECK(with(4, width) ==
          (width == 4 || width == 8 ? std::nullopt : Verdict(DropReason::bad_field)));
  }
}

TEST_CASE("wire hostile: a READ or an ATOMIC that is none", "[O5]") {
  const auto set = [](PacketType type, std::size_t at, unsigned value) {
    return judge_one_sided(type, type == PacketType::read ? 10 : 13, [=](auto& bytes) {
      if (type == PacketType::atomic) bytes[97] = std::byte{8};
      bytes[at] = static_cast<std::byte>(value);
    });
  };
  CHECK(set(PacketType::read, 69, 0) == std::nullopt);
  for (unsigned flag = 1; flag < 256; flag *= 2) {
    CHECK(set(PacketType::read, 69, flag) == DropReason::bad_field);
    CHECK(set(PacketType::atomic, 69, flag) ==
          (flag == kTargetFetches ? std::nullopt : Verdict(DropReason::bad_field)));
  }
  for (const PacketType type : {PacketType::read, PacketType::atomic}) {
    CHECK(set(type, 36, 1) == DropReason::bad_field);  // they have one fragment
  }
  CHECK(set(PacketType::atomic, 96, 11) == std::nullopt);  // operation
  CHECK(set(PacketType::atomic, 96, 12) == DropReason::bad_field);
  CHECK(set(PacketType::atomic, 97, 4) == DropReason::bad_field);  // the length is 8
  CHECK(set(PacketType::atomic, 97, 0) == DropReason::bad_field);
  CHECK(set(PacketType::atomic, 64, 4) == DropReason::bad_field);
  CHECK(judge_one_sided(PacketType::atomic, 12, [](auto&) {}) == DropReason::bad_field);
}

}  // namespace
}  // namespace hawser::proto::wire
