// SPDX-License-Identifier: Apache-2.0
// The parser on wrong packets: cut, flipped, out of range, unknown. Each datagram lies in an
// allocation of exactly its size, so the sanitizers notice any read beyond it.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "proto/wire/packed.hpp"
#include "test/proto/wire_bytes.hpp"
#include "test/proto/wire_roundtrip.hpp"
#include "test/proto/wire_samples.hpp"

namespace hawser::proto::wire {
namespace {

using Verdict = std::optional<DropReason>;

Verdict judge(const std::vector<std::byte>& datagram, Queue queue, bool check_checksum = false) {
  PacketView packet;
  const Verdict verdict = parse(datagram, queue, check_checksum, packet);
  if (!verdict) test::check_round_trip(datagram, queue, check_checksum);
  return verdict;
}

std::vector<std::byte> first(const std::vector<std::byte>& bytes, std::size_t count) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

// A CONTROL packet with the given blocks, which must be whole words.
std::vector<std::byte> control_with(const std::vector<std::byte>& blocks) {
  std::vector<std::byte> bytes(32);
  bytes[0] = std::byte{kVersion};
  bytes[1] = static_cast<std::byte>(PacketType::control);
  bytes[20] = static_cast<std::byte>(4 + blocks.size() / 8);
  bytes.insert(bytes.end(), blocks.begin(), blocks.end());
  return bytes;
}

Verdict judge_blocks(std::string_view hex) {
  return judge(control_with(test::from_hex(hex)), Queue::control);
}

TEST_CASE("wire hostile: the samples have every type and every block") {
  std::set<PacketType> types;
  std::set<int> blocks;
  for (const test::Sample& sample : test::wire_samples()) {
    PacketView packet;
    REQUIRE(!parse(sample.bytes, sample.queue, true, packet));
    types.insert(packet.type);
    packet.blocks.visit([&](const PathAckView&) { blocks.insert(1); });
    packet.blocks.visit([&](const AckInfoBlock&) { blocks.insert(2); });
    packet.blocks.visit([&](const RequestView&) { blocks.insert(3); });
    packet.blocks.visit([&](const NicStateBlock&) { blocks.insert(4); });
    packet.blocks.visit([&](const GrantBlock&) { blocks.insert(5); });
    packet.blocks.visit([&](const StatusView&) { blocks.insert(6); });
    packet.blocks.visit([&](const PathMarksBlock&) { blocks.insert(7); });
  }
  CHECK(types.size() == kPacketRules.size());
  for (int kind = 1; kind <= 7; ++kind) CHECK(blocks.contains(kind));
}

// Whether `parse` accepts a payload of any length in packets of this type.
bool has_any_payload(PacketType type) {
  return rule_of(type).payload && type != PacketType::packed;
}

TEST_CASE("wire hostile: truncation at every length") {
  for (const test::Sample& sample : test::wire_samples()) {
    const std::size_t headers = std::to_integer<std::size_t>(sample.bytes[20]) * 8;
    for (std::size_t length = 0; length < sample.bytes.size(); ++length) {
      const std::vector<std::byte> cut = first(sample.bytes, length);
      INFO(sample.name << " cut to " << length);
      if (length < headers) {
        REQUIRE(judge(cut, sample.queue, true) == DropReason::too_short);
        REQUIRE(judge(cut, sample.queue, false) == DropReason::too_short);
      } else {  // only payload is lost: the checksum shows it, or later the message's length
        REQUIRE(judge(cut, sample.queue, true) == DropReason::bad_checksum);
        const Verdict verdict = judge(cut, sample.queue, false);
        const bool any = has_any_payload(static_cast<PacketType>(sample.bytes[1]));
        REQUIRE((verdict == std::nullopt || (!any && verdict == DropReason::bad_field)));
      }
    }
  }
}

TEST_CASE("wire hostile: a datagram shorter than the common header, whatever it says") {
  for (std::size_t length = 0; length < 32; ++length) {
    std::vector<std::byte> bytes(length);
    if (length > 1) {
      bytes[0] = std::byte{kVersion};
      bytes[1] = static_cast<std::byte>(PacketType::control);
    }
    CHECK(judge(bytes, Queue::control) == DropReason::too_short);
  }
}

TEST_CASE("wire hostile: blocks in a type that takes none", "[B2]") {
  for (const PacketType type :
       {PacketType::closed, PacketType::reset, PacketType::close, PacketType::challenge}) {
    std::vector<std::byte> bytes(56);
    bytes[0] = std::byte{kVersion};
    bytes[1] = static_cast<std::byte>(type);
    bytes[20] = std::byte{7};
    CHECK(judge(bytes, Queue::data) == std::nullopt);
    const std::vector<std::byte> block = test::from_hex("06 01 00 00 00 00 00 00");
    bytes.insert(bytes.end(), block.begin(), block.end());
    bytes[20] = std::byte{8};
    CHECK(judge(bytes, Queue::data) ==
          (type == PacketType::close ? std::nullopt : Verdict(DropReason::bad_field)));
  }
}

TEST_CASE("wire hostile: a view used again shows nothing of the packet before") {
  const std::vector<test::Sample> samples = test::wire_samples();
  for (const test::Sample& before : samples) {
    for (const test::Sample& after : samples) {
      PacketView fresh;
      PacketView used;
      REQUIRE(!parse(before.bytes, before.queue, true, used));
      REQUIRE(!parse(after.bytes, after.queue, true, fresh));
      REQUIRE(!parse(after.bytes, after.queue, true, used));
      REQUIRE(test::flatten(used) == test::flatten(fresh));
    }
  }
}

TEST_CASE("wire hostile: bytes behind a packet that is whole", "[T9]") {
  for (const test::Sample& sample : test::wire_samples()) {
    PacketView packet;
    REQUIRE(!parse(sample.bytes, sample.queue, true, packet));
    std::vector<std::byte> longer = sample.bytes;
    longer.push_back(std::byte{0});
    INFO(sample.name);
    CHECK(judge(longer, sample.queue, true) == DropReason::bad_checksum);
    CHECK(judge(longer, sample.queue, false) ==
          (has_any_payload(packet.type) ? std::nullopt : Verdict(DropReason::bad_field)));
  }
}

TEST_CASE("wire hostile: with the checksum no flipped bit gets through") {
  for (const test::Sample& sample : test::wire_samples()) {
    for (std::size_t bit = 0; bit < 8 * sample.bytes.size(); ++bit) {
      std::vector<std::byte> flipped = sample.bytes;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      INFO(sample.name << " bit " << bit);
      REQUIRE(judge(flipped, sample.queue, true) != std::nullopt);
    }
  }
}

TEST_CASE("wire hostile: without it any flipped bit is read safely or dropped") {
  std::size_t accepted = 0;
  for (const test::Sample& sample : test::wire_samples()) {
    if (sample.bytes.size() > 600) continue;
    for (std::size_t bit = 0; bit < 8 * sample.bytes.size(); ++bit) {
      std::vector<std::byte> flipped = sample.bytes;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      if (!judge(flipped, sample.queue, false)) ++accepted;
    }
  }
  CHECK(accepted > 1000);
}

// Every field is wrong at first. The test corrects each one after the parser has found it.
TEST_CASE("wire hostile: what is wrong is looked for in the page's order", "[H2]") {
  std::vector<std::byte> bytes(31, std::byte{0xff});
  CHECK(judge(bytes, Queue::data, true) == DropReason::too_short);
  bytes.resize(88, std::byte{0xff});
  CHECK(judge(bytes, Queue::data, true) == DropReason::bad_version);
  bytes[0] = std::byte{kVersion};
  CHECK(judge(bytes, Queue::data, true) == DropReason::bad_type);
  bytes[1] = static_cast<std::byte>(PacketType::data);
  CHECK(judge(bytes, Queue::control, true) == DropReason::bad_type);
  CHECK(judge(bytes, Queue::data, true) == DropReason::too_short);  // hwords
  bytes[20] = std::byte{9};
  CHECK(judge(bytes, Queue::data, true) == DropReason::bad_field);
  bytes[20] = std::byte{11};
  CHECK(judge(bytes, Queue::data, true) == DropReason::bad_checksum);
  test::fix_checksum(bytes);
  CHECK(judge(bytes, Queue::data, true) == DropReason::bad_field);
  bytes[22] = bytes[23] = std::byte{0};  // path_back
  test::fix_checksum(bytes);
  CHECK(judge(bytes, Queue::data, true) == DropReason::bad_field);
  bytes[76] = std::byte{0};  // the envelope's kind
  test::fix_checksum(bytes);
  CHECK(judge(bytes, Queue::data, true) == DropReason::too_short);  // a block of 255 words
  bytes[81] = std::byte{1};
  test::fix_checksum(bytes);
  CHECK(judge(bytes, Queue::data, true) == std::nullopt);
}

TEST_CASE("wire hostile: every version but one, before anything else is read") {
  for (int version = 0; version < 256; ++version) {
    std::vector<std::byte> bytes(32, std::byte{0xff});
    bytes[0] = static_cast<std::byte>(version);
    CHECK(judge(bytes, Queue::data) ==
          (version == kVersion ? DropReason::bad_type : DropReason::bad_version));
  }
}

TEST_CASE("wire hostile: types on the wrong queue, and types that do not exist") {
  for (int type = 0; type < 256; ++type) {
    for (const Queue queue : {Queue::data, Queue::control}) {
      std::vector<std::byte> bytes(32);
      bytes[0] = std::byte{kVersion};
      bytes[1] = static_cast<std::byte>(type);
      const PacketRule& rule = rule_of(static_cast<PacketType>(type));
      const bool known = rule.own_words != 0 && rule.queue == queue;
      INFO("type " << type);
      // hwords is 0 here, so a known type fails for that reason.
      REQUIRE(judge(bytes, queue) == (known ? DropReason::bad_field : DropReason::bad_type));
    }
  }
}

TEST_CASE("wire hostile: every value of hwords") {
  for (const test::Sample& sample : test::wire_samples()) {
    const std::size_t right = std::to_integer<std::size_t>(sample.bytes[20]);
    const PacketRule& rule =
        rule_of(static_cast<PacketType>(std::to_integer<std::uint8_t>(sample.bytes[1])));
    for (std::size_t hwords = 0; hwords < 256; ++hwords) {
      std::vector<std::byte> bytes = sample.bytes;
      bytes[20] = static_cast<std::byte>(hwords);
      test::fix_checksum(bytes);
      const Verdict verdict = judge(bytes, sample.queue, true);
      INFO(sample.name << " hwords " << hwords << " instead of " << right);
      if (hwords == right) {
        REQUIRE(verdict == std::nullopt);
      } else if (hwords * 8 > bytes.size()) {
        REQUIRE(verdict == DropReason::too_short);
      } else if (hwords < rule.own_words || !rule.payload) {
        REQUIRE(verdict == DropReason::bad_field);
      }  // else the parser confuses payload and blocks; `judge` has read all that it accepted
    }
  }
}

TEST_CASE("wire hostile: block lengths per kind are the page's", "[B3]") {
  struct Limits {
    int kind;
    int min;
    int max;
  };
  constexpr Limits kPage[] = {{1, 2, 2}, {2, 3, 18}, {3, 2, 251}, {4, 3, 18},
                              {5, 3, 3}, {6, 1, 1},  {7, 2, 2}};
  for (const Limits& limits : kPage) {
    for (int words = 1; words <= 251; ++words) {
      std::vector<std::byte> block(static_cast<std::size_t>(words) * 8);
      block[0] = static_cast<std::byte>(limits.kind);
      block[1] = static_cast<std::byte>(words);
      if (limits.kind == 2 && words > 2) block[16] = std::byte{1};
      if (limits.kind == 3) block[2] = static_cast<std::byte>(words - 1);
      for (std::size_t entry = 8; limits.kind == 3 && entry < block.size(); entry += 8) {
        block[entry + 4] = std::byte{1};  // status
        block[entry + 6] = std::byte{1};  // run
      }
      INFO("kind " << limits.kind << " words " << words);
      const bool right = words >= limits.min && words <= limits.max;
      REQUIRE(judge(control_with(block), Queue::control) ==
              (right ? std::nullopt : Verdict(DropReason::bad_field)));
    }
  }
}

TEST_CASE("wire hostile: a block of no words, and one that overruns the headers", "[B1][B3]") {
  CHECK(judge_blocks("00 00 00 00 00 00 00 00") == DropReason::bad_field);
  CHECK(judge_blocks("06 00 00 00 00 00 00 00") == DropReason::bad_field);
  CHECK(judge_blocks("06 02 00 00 00 00 00 00") == DropReason::too_short);
  CHECK(judge_blocks("ff 02 00 00 00 00 00 00") == DropReason::too_short);
  // Now the second of two blocks is too short.
  CHECK(judge_blocks("06 01 00 00 00 00 00 00 05 03 00 00 00 00 00 00") == DropReason::too_short);
}

TEST_CASE("wire hostile: unknown kinds are skipped by their length", "[B1]") {
  for (int kind = 0; kind < 256; ++kind) {
    if (kind >= 1 && kind <= 7) continue;
    std::vector<std::byte> blocks =
        test::from_hex("00 02 ff ff ff ff ff ff  00 00 00 00 00 00 00 00  06 01 01 01 09 00 00 00");
    blocks[0] = static_cast<std::byte>(kind);
    const std::vector<std::byte> bytes = control_with(blocks);
    PacketView packet;
    REQUIRE(!parse(bytes, Queue::control, false, packet));
    std::uint32_t sequence = 0;
    packet.blocks.visit([&](const NicStateBlock& block) { sequence = block.sequence; });
    CHECK(sequence == 9);
  }
}

TEST_CASE("wire hostile: fields of blocks out of range", "[B3][B12]") {
  // PATH_ACK: slot 16; a bitmap that does not hold `largest` itself.
  CHECK(judge_blocks("02 03 0f 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00") ==
        std::nullopt);
  CHECK(judge_blocks("02 03 10 00 00 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00") ==
        DropReason::bad_field);
  CHECK(judge_blocks("02 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 fe ff ff ff ff ff ff ff") ==
        DropReason::bad_field);
  // PATH_MARKS: slot 16.
  CHECK(judge_blocks("07 02 0f 00 00 00 00 00 00 00 00 00 00 00 00 00") == std::nullopt);
  CHECK(judge_blocks("07 02 10 00 00 00 00 00 00 00 00 00 00 00 00 00") == DropReason::bad_field);
  // STATUS: a count that differs from the length; status 0 and 12; run 0.
  CHECK(judge_blocks("03 02 01 00 00 00 00 00 00 00 00 00 06 00 01 00") == std::nullopt);
  CHECK(judge_blocks("03 02 00 00 00 00 00 00 00 00 00 00 01 00 01 00") == DropReason::bad_field);
  CHECK(judge_blocks("03 02 02 00 00 00 00 00 00 00 00 00 01 00 01 00") == DropReason::bad_field);
  CHECK(judge_blocks("03 02 01 01 00 00 00 00 00 00 00 00 01 00 01 00") == DropReason::bad_field);
  CHECK(judge_blocks("03 02 01 00 00 00 00 00 00 00 00 00 00 00 01 00") == DropReason::bad_field);
  CHECK(judge_blocks("03 02 01 00 00 00 00 00 00 00 00 00 0c 00 01 00") == DropReason::bad_field);
  CHECK(judge_blocks("03 02 01 00 00 00 00 00 00 00 00 00 01 00 00 00") == DropReason::bad_field);
  // 4096 numbers can be in use, but not 4097.
  CHECK(judge_blocks("03 02 01 00 00 00 00 00 00 00 00 00 01 00 00 10") == std::nullopt);
  CHECK(judge_blocks("03 02 01 00 00 00 00 00 00 00 00 00 01 00 01 10") == DropReason::bad_field);
  // NIC_STATE: NIC 16; state 2.
  CHECK(judge_blocks("06 01 0f 01 00 00 00 00") == std::nullopt);
  CHECK(judge_blocks("06 01 10 01 00 00 00 00") == DropReason::bad_field);
  CHECK(judge_blocks("06 01 00 02 00 00 00 00") == DropReason::bad_field);
}

// Parses the first sample of `type` with one byte (or two) changed and the checksum corrected.
Verdict judge_changed(PacketType type, std::size_t at, std::uint16_t value, std::size_t bytes = 1) {
  for (test::Sample& sample : test::wire_samples()) {
    if (sample.bytes[1] != static_cast<std::byte>(type)) continue;
    std::memcpy(sample.bytes.data() + at, &value, bytes);
    test::fix_checksum(sample.bytes);
    return judge(sample.bytes, sample.queue, true);
  }
  return DropReason::bad_type;
}

TEST_CASE("wire hostile: fields of headers out of range", "[T7]") {
  CHECK(judge_changed(PacketType::data, 22, 1023, 2) == std::nullopt);
  CHECK(judge_changed(PacketType::data, 22, 1024, 2) == DropReason::bad_field);  // path_back
  CHECK(judge_changed(PacketType::probe, 22, 1024, 2) == DropReason::bad_field);
  CHECK(judge_changed(PacketType::control, 22, 1024, 2) == std::nullopt);  // means nothing there
  CHECK(judge_changed(PacketType::data, 76, 1) == DropReason::bad_field);  // envelope kind
  CHECK(judge_changed(PacketType::envelope, 76, 2) == DropReason::bad_field);
  for (const PacketType type : {PacketType::hello, PacketType::welcome}) {
    CHECK(judge_changed(type, 108, 0) == DropReason::bad_field);  // nics
    CHECK(judge_changed(type, 108, 17) == DropReason::bad_field);
    CHECK(judge_changed(type, 108, 255) == DropReason::bad_field);
    CHECK(judge_changed(type, 144 + 46, 15) == std::nullopt);  // NIC index
    CHECK(judge_changed(type, 144 + 46, 16) == DropReason::bad_field);
    CHECK(judge_changed(type, 144 + 47, 2) == DropReason::bad_field);  // NIC state
  }
}

// Parses a changed PACKED packet of two messages of 8 bytes. Its row begins at 80, the second entry
// at 88.
Verdict judge_packed(const std::function<void(std::vector<std::byte>&)>& change) {
  std::vector<std::byte> bytes(80 + 8 + kPackedEntryBytes + 8);
  bytes[0] = std::byte{kVersion};
  bytes[1] = static_cast<std::byte>(PacketType::packed);
  bytes[20] = std::byte{10};
  bytes[56] = bytes[88 + 24] = std::byte{8};  // lengths
  change(bytes);
  return judge(bytes, Queue::data);
}

TEST_CASE("wire hostile: a packed row that is not what it says", "[T12]") {
  const auto set = [](std::size_t at, unsigned value) {
    return judge_packed([=](auto& bytes) { bytes[at] = static_cast<std::byte>(value); });
  };
  CHECK(judge_packed([](auto&) {}) == std::nullopt);
  CHECK(set(36, 1) == DropReason::bad_field);       // the first has fragment 1
  CHECK(set(76, 1) == DropReason::bad_field);       // the first cancels
  CHECK(set(56, 17) == DropReason::bad_field);      // the first leaves no room for a second
  CHECK(set(60, 1) == DropReason::bad_field);       // the first is longer than 32 bits can say
  CHECK(set(56, 7) == std::nullopt);                // the rest of a word is padding
  CHECK(set(56, 0) == DropReason::bad_field);       // the second has the wrong number
  CHECK(set(88 + 4, 1) == DropReason::bad_field);   // the second has fragment 1
  CHECK(set(88 + 44, 1) == DropReason::bad_field);  // the second cancels
  CHECK(set(88 + 24, 9) == DropReason::bad_field);  // the second is longer than the rest
  CHECK(set(88 + 24, 0) == DropReason::bad_field);  // bytes are left over
  CHECK(judge_packed([](auto& bytes) { bytes.resize(88); }) == DropReason::bad_field);  // alone
  for (std::size_t cut = 1; cut < 8 + kPackedEntryBytes + 8; ++cut) {
    INFO(cut << " bytes cut off");
    CHECK(judge_packed([=](auto& bytes) { bytes.resize(bytes.size() - cut); }) ==
          DropReason::bad_field);
  }
  CHECK(judge_packed([](auto& bytes) { bytes.push_back({}); }) == DropReason::bad_field);
}

TEST_CASE("wire hostile: session packets with no NIC record, and with one too many") {
  for (std::size_t nics = 0; nics <= 20; ++nics) {
    std::vector<std::byte> bytes(144 + nics * 48);
    bytes[0] = std::byte{kVersion};
    bytes[1] = static_cast<std::byte>(PacketType::hello);
    bytes[20] = static_cast<std::byte>(bytes.size() / 8);
    bytes[105] = std::byte{0x10};  // fragment_bytes
    bytes[108] = static_cast<std::byte>(nics);
    INFO(nics << " records");
    CHECK(judge(bytes, Queue::data) ==
          (nics >= 1 && nics <= 16 ? std::nullopt : Verdict(DropReason::bad_field)));
  }
}

TEST_CASE("wire hostile: a session packet with fragments too small to make headway") {
  for (test::Sample& sample : test::wire_samples()) {
    if (sample.name != "HELLO") continue;
    for (const std::uint32_t fragment_bytes : {0u, 1u, kMinFragmentBytes - 1, kMinFragmentBytes}) {
      std::memcpy(sample.bytes.data() + 104, &fragment_bytes, 4);
      CHECK(judge(sample.bytes, sample.queue) ==
            (fragment_bytes < kMinFragmentBytes ? Verdict(DropReason::bad_field) : std::nullopt));
    }
  }
}

TEST_CASE("wire hostile: reserved bits and bytes are ignored") {
  CHECK(judge_changed(PacketType::data, 21, 0xff) == std::nullopt);  // flags
  CHECK(judge_changed(PacketType::data, 61, 0xff) == std::nullopt);  // eflags
  CHECK(judge_changed(PacketType::data, 77, 0xffff, 2) == std::nullopt);
  CHECK(judge_changed(PacketType::data, 74, 0xff) == std::nullopt);    // collective: a hint
  CHECK(judge_changed(PacketType::hello, 109, 0xff) == std::nullopt);  // features
  CHECK(judge_changed(PacketType::closed, 37, 0xffff, 2) == std::nullopt);
  CHECK(judge_blocks("03 02 01 00 ff ff ff ff 00 00 00 00 01 ff 01 00") == std::nullopt);
}

}  // namespace
}  // namespace hawser::proto::wire
