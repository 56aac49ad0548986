// SPDX-License-Identifier: Apache-2.0
// One packet per type, byte for byte as docs/internals/protocol.md draws it. The bytes are written
// by hand, without the structs and the writer.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "proto/wire/dump.hpp"
#include "proto/wire/packed.hpp"
#include "proto/wire/packet.hpp"
#include "test/proto/wire_bytes.hpp"

namespace hawser::proto::wire {
namespace {

using test::from_hex;

constexpr std::uint64_t kToken = 0x1122334455667788;
constexpr std::uint32_t kReceiver = 0x12345678;

const std::string kData =
    "01 10 23 07 78 56 34 12  88 77 66 55 44 33 22 11"  // version type slot generation receiver ...
    "24 7b fb 43 0a 05 ff 03  fe ff ff ff 09 00 00 00"  // CRC hwords flags back number floor
    "0d 0c 0b 0a 04 03 02 01"                           // message fragment
    "10 32 54 76 98 ba dc fe  ef cd ab 89 67 45 23 01"  // tag immediate
    "e5 d4 c3 b2 a1 01 01 80  ee ff c0 00 02 01 04 03"  // length eflags channel group step steps
    "06 05 01 07 00 00 00 00"                           // members collective priority kind
    "68 65 6c 6c 6f";                                   // hello

const std::string kPacked =
    "01 14 00 00 78 56 34 12  88 77 66 55 44 33 22 11"
    "00 00 00 00 0a 01 00 00  03 00 00 00 02 00 00 00"
    "05 00 00 00 00 00 00 00"                           // message 5
    "01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"  // tag immediate
    "05 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"  // length
    "00 00 00 00 00 00 00 00"
    "68 65 6c 6c 6f 00 00 00"  // hello
    "06 00 00 00 00 00 00 00"  // message 6
    "02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"  // which is empty
    "00 00 00 00 00 00 00 00"
    "07 00 00 00 00 00 00 00"  // message 7
    "03 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"
    "08 00 00 00 00 01 00 00  00 00 00 00 00 00 00 00"  // length eflags
    "00 00 00 00 00 00 00 00"
    "65 69 67 68 74 68 20 2e";

const std::string kGranted =
    "01 11 00 00 78 56 34 12  88 77 66 55 44 33 22 11"
    "00 00 00 00 06 02 00 00  01 00 00 00 02 00 00 00"
    "03 00 00 00 04 00 00 00"  // message fragment
    "05 00 00 00 06 00 00 00"  // rx_slot rx_generation
    "ff";

const std::string kProbe =
    "01 12 f0 01 78 56 34 12  88 77 66 55 44 33 22 11"
    "00 00 00 00 04 0a 01 00  07 00 00 00 00 00 00 00"
    "00 00 00 00";

const std::string kEnvelope =
    "01 13 00 00 78 56 34 12  88 77 66 55 44 33 22 11"
    "00 00 00 00 0a 00 00 00  00 00 00 00 00 00 00 00"
    "2a 00 00 00 00 00 00 00"
    "01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00"
    "00 00 00 00 01 00 03 00  00 00 00 00 00 00 00 00"
    "00 00 00 00 01 00 00 00";  // kind 1

const std::string kControl =
    "01 20 10 00 78 56 34 12  88 77 66 55 44 33 22 11"
    "00 00 00 00 18 00 00 00  00 00 00 00 05 00 00 00"
    "01 02 03 00 04 03 02 01  00 10 00 00 00 00 00 00"   // ACK_INFO behind turn allowance
    "02 04 03 07 fe ff ff ff  e8 03 00 00 02 00 00 00"   // PATH_ACK path 3.7 largest residence ce
    "01 00 00 00 00 00 00 80  ff 00 00 00 00 00 00 00"   // its bitmap
    "03 03 02 00 00 00 00 00"                            // STATUS, two entries
    "09 00 00 00 03 00 05 00  63 00 00 00 02 00 01 00"   // 9..13 DELIVERED, 99 NO_ROOM
    "04 03 00 00 08 00 00 00  40 00 00 00 00 00 00 00"   // REQUEST message base
    "05 00 00 00 00 00 00 00"                            // its bitmap
    "05 03 00 00 0b 00 00 00  0c 00 00 00 0d 00 00 00"   // GRANT message rx_slot rx_generation
    "0e 00 00 00 0f 00 00 00"                            // from up_to
    "06 01 02 01 10 00 00 00"                            // NIC_STATE nic 2 up
    "07 02 03 07 fe ff ff ff  05 00 00 00 00 00 00 80"   // PATH_MARKS path 3.7 largest marks
    "08 02 aa aa aa aa aa aa  aa aa aa aa aa aa aa aa";  // a kind that is not known

const std::string kHello =
    "01 01 20 00 ff ff ff ff  00 00 00 00 00 00 00 00"
    "00 00 00 00 18 00 00 00  00 00 00 00 00 00 00 00"
    "01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00"  // sender_id target_id
    "03 00 00 00 00 00 00 00  04 00 00 00 05 00 00 00"  // epoch counter my_index
    "06 00 00 00 00 00 00 00  07 00 00 00 00 00 00 00"  // my_token echo_epoch
    "08 00 00 00 09 00 00 00  0a 00 00 00 00 00 00 00"  // echo_counter sequence echo_token
    "0b 00 00 00 00 00 00 00  00 10 00 00 01 00 0c 00"  // first_number fragment_bytes nics absence
    "0d 00 00 00 00 00 00 00  0e 00 00 00 00 00 00 00"  // cookie unscheduled_bytes
    "f0 f1 f2 f3 f4 f5 f6 f7  f8 f9 fa fb fc fd fe ff"  // mac
    "02 04 a1 a2 00 00 00 00  7f 00 00 01 00 00 00 00"  // NIC record: address
    "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"
    "00 00 00 00 00 00 00 80  00 10 00 00 0a 02 02 01";  // receive_kib max_datagram index state

const std::string kClose =
    "01 03 00 00 02 00 00 00  88 77 66 55 44 33 22 11"
    "00 00 00 00 09 00 00 00  00 00 00 00 00 00 00 00"
    "15 00 00 00 02 01 00 00"  // sequence part flags
    "00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f"
    "03 02 01 00 00 00 00 00  07 00 00 00 04 00 01 00";

std::string closing_without_blocks(std::string_view type) {
  return "01 " + std::string(type) +
         " 00 00 02 00 00 00  88 77 66 55 44 33 22 11"
         "00 00 00 00 07 00 00 00  00 00 00 00 00 00 00 00"
         "15 00 00 00 00 00 00 00"
         "00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f";
}

PacketView parsed(const std::vector<std::byte>& bytes, Queue queue, bool check_checksum = false) {
  PacketView packet;
  const auto dropped = parse(bytes, queue, check_checksum, packet);
  if (dropped) FAIL("dropped: " << kDropReasonTexts[static_cast<std::size_t>(*dropped)].name);
  return packet;
}

// The datagram that the writer made, followed by `payload`.
std::vector<std::byte> written(PacketWriter& writer, PacketBuffer& buffer, bool with_checksum,
                               std::span<const std::byte> payload = {}) {
  const std::uint32_t bytes = writer.finish(with_checksum, payload);
  std::vector<std::byte> datagram(buffer.bytes, buffer.bytes + bytes);
  datagram.insert(datagram.end(), payload.begin(), payload.end());
  return datagram;
}

TEST_CASE("wire golden: DATA, with its CRC32C", "[H1][T4]") {
  const std::vector<std::byte> bytes = from_hex(kData);
  const PacketView packet = parsed(bytes, Queue::data, true);
  REQUIRE(packet.type == PacketType::data);
  CHECK(packet.header->path_slot() == 3);
  CHECK(packet.header->nic() == 2);
  CHECK(packet.header->generation == 7);
  CHECK(packet.header->receiver == kReceiver);
  CHECK(packet.header->token == kToken);
  CHECK(packet.header->checksum == 0x43fb7b24);
  CHECK(packet.header->flags == (kFlagAllSent | kFlagRetransmit));
  CHECK(packet.header->path_back == 1023);
  CHECK(packet.header->path_number == 0xfffffffe);
  CHECK(packet.header->floor == 9);
  REQUIRE(packet.fragment != nullptr);
  CHECK(packet.fragment->message == 0x0a0b0c0d);
  CHECK(packet.fragment->fragment == 0x01020304);
  REQUIRE(packet.envelope != nullptr);
  CHECK(packet.envelope->tag == 0xfedcba9876543210);
  CHECK(packet.envelope->immediate == 0x0123456789abcdef);
  CHECK(packet.envelope->length() == 0xa1b2c3d4e5);
  CHECK(packet.envelope->eflags == kEnvelopeDelivered);
  CHECK(packet.envelope->channel == 0x8001);
  CHECK(packet.envelope->group == 0x00c0ffee);
  CHECK(packet.envelope->step == 0x0102);
  CHECK(packet.envelope->steps == 0x0304);
  CHECK(packet.envelope->members == 0x0506);
  CHECK(packet.envelope->collective == 1);
  CHECK(packet.envelope->priority == 7);
  CHECK(packet.envelope->kind == EnvelopeKind::message);
  CHECK(packet.receive_slot == nullptr);
  CHECK(packet.session == nullptr);
  CHECK(packet.closing == nullptr);
  CHECK(packet.nics.empty());
  CHECK(packet.blocks.empty());
  REQUIRE(packet.payload.size() == 5);
  CHECK(std::memcmp(packet.payload.data(), "hello", 5) == 0);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  CommonHeader& header = writer.begin(PacketType::data, kReceiver, kToken, 9);
  header.slot = CommonHeader::slot_byte(3, 2);
  header.generation = 7;
  header.flags = kFlagAllSent | kFlagRetransmit;
  header.path_back = 1023;
  header.path_number = 0xfffffffe;
  writer.part(FragmentPart{0x0a0b0c0d, 0x01020304});
  EnvelopePart envelope{};
  envelope.tag = 0xfedcba9876543210;
  envelope.immediate = 0x0123456789abcdef;
  envelope.set_length(0xa1b2c3d4e5);
  envelope.eflags = kEnvelopeDelivered;
  envelope.channel = 0x8001;
  envelope.group = 0x00c0ffee;
  envelope.step = 0x0102;
  envelope.steps = 0x0304;
  envelope.members = 0x0506;
  envelope.collective = 1;
  envelope.priority = 7;
  writer.part(envelope);
  CHECK(written(writer, buffer, true, packet.payload) == bytes);

  CHECK(describe(packet) ==
        "DATA to 305419896 nic 2 path 3.7 number 4294967294 back 1023 floor 9 ALL_SENT RETRANSMIT"
        " | message 168496141 fragment 16909060"
        " | tag 0xfedcba9876543210 immediate 0x123456789abcdef length 694488913125 channel 32769"
        " DELIVERED group 12648430 of 1286 step 258/772 collective 1 priority 7 | 5 B");
}

TEST_CASE("wire golden: PACKED", "[H1][T12]") {
  const std::vector<std::byte> bytes = from_hex(kPacked);
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == PacketType::packed);
  PackedMessages messages(packet);
  const std::array<std::string_view, 3> expected{"hello", "", "eighth ."};
  for (std::uint32_t i = 0; i < expected.size(); ++i) {
    const PacketView& message = messages.message();
    INFO("message " << i);
    CHECK(message.type == PacketType::data);
    CHECK(message.fragment->message == 5 + i);
    CHECK(message.fragment->fragment == 0);
    CHECK(message.envelope->tag == 1 + i);
    CHECK(message.envelope->eflags == (i == 2 ? kEnvelopeDelivered : 0));
    REQUIRE(message.payload.size() == expected[i].size());
    CHECK(std::equal(message.payload.begin(), message.payload.end(),
                     std::as_bytes(std::span(expected[i])).begin()));
    CHECK(messages.next() == (i < 2));
  }

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  CommonHeader& header = writer.begin(PacketType::packed, kReceiver, kToken, 2);
  header.flags = kFlagAllSent;
  header.path_number = 3;
  const auto envelope = [&](std::uint32_t i) {
    EnvelopePart part{};
    part.tag = 1 + i;
    part.set_length(expected[i].size());
    if (i == 2) part.eflags = kEnvelopeDelivered;
    return part;
  };
  writer.part(FragmentPart{5, 0});
  writer.part(envelope(0));
  PackedRow row(buffer, writer.header_bytes(), PacketBuffer::kBytes);
  REQUIRE(row.add_first(std::as_bytes(std::span(expected[0]))));
  for (std::uint32_t i : {1u, 2u}) {
    REQUIRE(row.has_room_for(expected[i].size()));
    row.add(5 + i, envelope(i), std::as_bytes(std::span(expected[i])));
  }
  CHECK(written(writer, buffer, false, row.bytes()) == bytes);
  CHECK(describe(packet) ==
        "PACKED to 305419896 nic 0 path 0.0 number 3 back 0 floor 2 ALL_SENT"
        " | message 5 fragment 0 | tag 0x1 immediate 0x0 length 5 channel 0"
        " | message 6 fragment 0 | tag 0x2 immediate 0x0 length 0 channel 0"
        " | message 7 fragment 0 | tag 0x3 immediate 0x0 length 8 channel 0 DELIVERED | 112 B");
}

TEST_CASE("wire write: a packed row takes what fits and nothing else") {
  PacketBuffer buffer;
  const std::vector<std::byte> bytes(24, std::byte{7});
  PackedRow narrow(buffer, 80, 80 + 16);
  CHECK_FALSE(narrow.add_first(bytes));
  CHECK(narrow.bytes().empty());
  PackedRow row(buffer, 80, 80 + 24 + 48 + 24);
  REQUIRE(row.add_first(bytes));
  CHECK(row.has_room_for(24));
  CHECK_FALSE(row.has_room_for(25));
  CHECK_FALSE(row.has_room_for(~std::uint64_t{0} - 100));
  row.add(1, EnvelopePart{}, bytes);
  CHECK_FALSE(row.has_room_for(0));
}

TEST_CASE("wire golden: GRANTED", "[H1]") {
  const std::vector<std::byte> bytes = from_hex(kGranted);
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == PacketType::granted);
  CHECK(packet.header->flags == kFlagAckNow);
  CHECK(packet.envelope == nullptr);
  REQUIRE(packet.fragment != nullptr);
  CHECK(packet.fragment->message == 3);
  CHECK(packet.fragment->fragment == 4);
  REQUIRE(packet.receive_slot != nullptr);
  CHECK(packet.receive_slot->rx_slot == 5);
  CHECK(packet.receive_slot->rx_generation == 6);
  CHECK(packet.payload.size() == 1);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  CommonHeader& header = writer.begin(PacketType::granted, kReceiver, kToken, 2);
  header.flags = kFlagAckNow;
  header.path_number = 1;
  writer.part(FragmentPart{3, 4});
  writer.part(ReceiveSlotPart{5, 6});
  CHECK(written(writer, buffer, false, packet.payload) == bytes);
}

TEST_CASE("wire golden: PROBE", "[H1]") {
  const std::vector<std::byte> bytes = from_hex(kProbe);
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == PacketType::probe);
  CHECK(packet.header->nic() == 15);
  CHECK(packet.header->path_slot() == 0);
  CHECK(packet.header->generation == 1);
  CHECK(packet.header->path_back == 1);
  CHECK(packet.header->path_number == 7);
  CHECK(packet.fragment == nullptr);
  CHECK(packet.payload.size() == 4);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  CommonHeader& header = writer.begin(PacketType::probe, kReceiver, kToken, 0);
  header.slot = CommonHeader::slot_byte(0, 15);
  header.generation = 1;
  header.flags = kFlagAckNow | kFlagSprayed;
  header.path_back = 1;
  header.path_number = 7;
  CHECK(written(writer, buffer, false, packet.payload) == bytes);
  CHECK(describe(packet).find(" floor 0 ACK_NOW SPRAYED") != std::string::npos);
}

TEST_CASE("wire golden: ENVELOPE", "[T3][T4][T7]") {
  const std::vector<std::byte> bytes = from_hex(kEnvelope);
  const PacketView packet = parsed(bytes, Queue::control);
  REQUIRE(packet.type == PacketType::envelope);
  REQUIRE(packet.fragment != nullptr);
  CHECK(packet.fragment->message == 42);
  REQUIRE(packet.envelope != nullptr);
  CHECK(packet.envelope->tag == 1);
  CHECK(packet.envelope->immediate == 2);
  CHECK(packet.envelope->length() == std::uint64_t{1} << 32);
  CHECK(packet.envelope->channel == 3);
  CHECK(packet.envelope->kind == EnvelopeKind::cancel);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::envelope, kReceiver, kToken, 0);
  writer.part(FragmentPart{42, 0});
  EnvelopePart& envelope = writer.part(EnvelopePart{});
  envelope.tag = 1;
  envelope.immediate = 2;
  envelope.set_length(std::uint64_t{1} << 32);
  envelope.channel = 3;
  envelope.kind = EnvelopeKind::cancel;
  CHECK(written(writer, buffer, false) == bytes);
}

TEST_CASE("wire golden: HELLO and WELCOME", "[S1][S2]") {
  std::vector<std::byte> bytes = from_hex(kHello);
  const auto type = GENERATE(PacketType::hello, PacketType::welcome);
  bytes[1] = static_cast<std::byte>(type);
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == type);
  CHECK(packet.header->nic() == 2);
  CHECK(packet.header->receiver == kNoReceiver);
  REQUIRE(packet.session != nullptr);
  const SessionPart& session = *packet.session;
  CHECK(session.sender_id == 1);
  CHECK(session.target_id == 2);
  CHECK(session.epoch == 3);
  CHECK(session.counter == 4);
  CHECK(session.my_index == 5);
  CHECK(session.my_token == 6);
  CHECK(session.echo_epoch == 7);
  CHECK(session.echo_counter == 8);
  CHECK(session.sequence == 9);
  CHECK(session.echo_token == 10);
  CHECK(session.first_number == 11);
  CHECK(session.fragment_bytes == 4096);
  CHECK(session.absence_ms == 12);
  CHECK(session.cookie == 13);
  CHECK(session.unscheduled_bytes == 14);
  CHECK(session.mac[0] == std::byte{0xf0});
  CHECK(session.mac[15] == std::byte{0xff});
  REQUIRE(packet.nics.size() == 1);
  const NicRecord& nic = packet.nics[0];
  CHECK(nic.address.bytes[0] == std::byte{2});
  CHECK(nic.address.bytes[39] == std::byte{0x80});
  CHECK(nic.receive_kib == 4096);
  CHECK(nic.max_datagram == 522);
  CHECK(nic.index == 2);
  CHECK(nic.state == 1);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(type, kNoReceiver, 0, 0).slot = CommonHeader::slot_byte(0, 2);
  SessionPart part{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 4096, 1, 0, 12, 13, 14, {}};
  for (std::uint8_t i = 0; i < 16; ++i) part.mac[i] = static_cast<std::byte>(0xf0 + i);
  writer.part(part);
  NicRecord record{{}, 4096, 522, 2, 1};
  const std::vector<std::byte> address = from_hex("02 04 a1 a2 00 00 00 00 7f 00 00 01");
  std::copy(address.begin(), address.end(), record.address.bytes.begin());
  record.address.bytes[39] = std::byte{0x80};
  writer.part(record);
  CHECK(written(writer, buffer, false) == bytes);
}

TEST_CASE("wire golden: CLOSE", "[S4]") {
  const std::vector<std::byte> bytes = from_hex(kClose);
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == PacketType::close);
  REQUIRE(packet.closing != nullptr);
  CHECK(packet.closing->sequence == 21);
  CHECK(packet.closing->part == 2);
  CHECK(packet.closing->flags == kClosingLast);
  CHECK(packet.closing->mac[15] == std::byte{0x0f});
  int entries = 0;
  packet.blocks.visit([&](StatusView view) {
    for (const StatusEntry& entry : view.entries) {
      ++entries;
      CHECK(entry.message == 7);
      CHECK(entry.status == MessageStatus::truncated);
      CHECK(entry.run == 1);
    }
  });
  CHECK(entries == 1);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::close, 2, kToken, 0);
  ClosingPart& part = writer.part(ClosingPart{21, 2, kClosingLast, 0, {}});
  for (std::uint8_t i = 0; i < 16; ++i) part.mac[i] = static_cast<std::byte>(i);
  CHECK(writer.status(7, MessageStatus::truncated));
  CHECK(written(writer, buffer, false) == bytes);
}

TEST_CASE("wire golden: CLOSED and RESET", "[S4]") {
  const auto [type, value] =
      GENERATE(std::pair{PacketType::closed, "04"}, std::pair{PacketType::reset, "05"});
  const std::vector<std::byte> bytes = from_hex(closing_without_blocks(value));
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == type);
  REQUIRE(packet.closing != nullptr);
  CHECK(packet.closing->sequence == 21);

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(type, 2, kToken, 0);
  ClosingPart& part = writer.part(ClosingPart{21, 0, 0, 0, {}});
  for (std::uint8_t i = 0; i < 16; ++i) part.mac[i] = static_cast<std::byte>(i);
  CHECK(written(writer, buffer, false) == bytes);
}

TEST_CASE("wire golden: CHALLENGE", "[S3]") {
  const std::vector<std::byte> bytes = from_hex(
      "01 06 30 00 02 00 00 00  88 77 66 55 44 33 22 11"
      "00 00 00 00 07 00 00 00  00 00 00 00 00 00 00 00"
      "10 32 54 76 98 ba dc fe"  // cookie
      "00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f");
  const PacketView packet = parsed(bytes, Queue::data);
  REQUIRE(packet.type == PacketType::challenge);
  CHECK(packet.header->nic() == 3);
  CHECK(packet.closing == nullptr);
  REQUIRE(packet.challenge != nullptr);
  CHECK(packet.challenge->cookie == 0xfedcba9876543210);
  CHECK(packet.challenge->mac[15] == std::byte{0x0f});

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::challenge, 2, kToken, 0).slot = CommonHeader::slot_byte(0, 3);
  ChallengePart& part = writer.part(ChallengePart{0xfedcba9876543210, {}});
  for (std::uint8_t i = 0; i < 16; ++i) part.mac[i] = static_cast<std::byte>(i);
  CHECK(written(writer, buffer, false) == bytes);
  CHECK(describe(packet) == "CHALLENGE to 2 nic 3 floor 0 | cookie 0xfedcba9876543210");
}

struct ControlReader {
  std::string order;

  void operator()(const AckInfoBlock& block) {
    order += 'a';
    CHECK(block.turn == 0x01020304);
    CHECK(block.behind == 3);
    CHECK(block.allowance_kib == 4096);
  }
  void operator()(const PathAckView& view) {
    order += 'p';
    CHECK(view.slot == 3);
    CHECK(view.generation == 7);
    CHECK(view.largest == 0xfffffffe);
    CHECK(view.residence_ns == 1000);
    CHECK(view.ce_count == 2);
    REQUIRE(view.bitmap.size() == 2);
    CHECK(view.bitmap[0] == 0x8000000000000001);
    CHECK(view.bitmap[1] == 0xff);
  }
  void operator()(const StatusView& view) {
    order += 's';
    REQUIRE(view.entries.size() == 2);
    CHECK(view.entries[0].message == 9);
    CHECK(view.entries[0].status == MessageStatus::delivered);
    CHECK(view.entries[0].run == 5);
    CHECK(view.entries[1].message == 99);
    CHECK(view.entries[1].status == MessageStatus::no_room);
    CHECK(view.entries[1].run == 1);
  }
  void operator()(const RequestView& view) {
    order += 'r';
    CHECK(view.message == 8);
    CHECK(view.base == 64);
    REQUIRE(view.bitmap.size() == 1);
    CHECK(view.bitmap[0] == 5);
  }
  void operator()(const GrantBlock& block) {
    order += 'g';
    CHECK(block.message == 11);
    CHECK(block.rx_slot == 12);
    CHECK(block.rx_generation == 13);
    CHECK(block.from == 14);
    CHECK(block.up_to == 15);
  }
  void operator()(const NicStateBlock& block) {
    order += 'n';
    CHECK(block.nic == 2);
    CHECK(block.state == 1);
    CHECK(block.sequence == 16);
  }
  void operator()(const PathMarksBlock& block) {
    order += 'm';
    CHECK(block.slot == 3);
    CHECK(block.generation == 7);
    CHECK(block.largest == 0xfffffffe);
    CHECK(block.marks == 0x8000000000000005);
  }
};

TEST_CASE("wire golden: CONTROL with every block, and one that is not known", "[B1]") {
  std::vector<std::byte> bytes = from_hex(kControl);
  const PacketView packet = parsed(bytes, Queue::control);
  REQUIRE(packet.type == PacketType::control);
  CHECK(packet.header->nic() == 1);
  ControlReader reader;
  packet.blocks.visit(reader);
  CHECK(reader.order == "apsrgnm");
  CHECK(
      describe(packet) ==
      "CONTROL to 305419896 nic 1 floor 5 | ACK_INFO turn 16909060 behind 3 allowance_kib 4096"
      " | PATH_ACK path 3.7 largest 4294967294 residence_ns 1000 ce 2 has 10 of 128"
      " [8000000000000001 ff] | STATUS 9+4 DELIVERED 99 NO_ROOM"
      " | REQUEST message 8 base 64 has 2 of 64 [5] | GRANT message 11 rx 12.13 fragments 14 to 15"
      " | NIC_STATE 2 up sequence 16"
      " | PATH_MARKS path 3.7 largest 4294967294 has 3 of 64 [8000000000000005]");

  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::control, kReceiver, kToken, 5).slot = CommonHeader::slot_byte(0, 1);
  const std::uint64_t arrived[] = {0x8000000000000001, 0xff};
  const std::uint64_t missing[] = {5};
  CHECK(writer.ack_info(0x01020304, 3, 4096));
  CHECK(writer.path_ack(3, 7, 0xfffffffe, 1000, 2, arrived));
  CHECK(writer.status(9, MessageStatus::delivered, 5));
  CHECK(writer.status(99, MessageStatus::no_room));
  CHECK(writer.request(8, 64, missing));
  CHECK(writer.grant(11, 12, 13, 14, 15));
  CHECK(writer.nic_state(2, true, 16));
  CHECK(writer.path_marks(3, 7, 0xfffffffe, 0x8000000000000005));
  bytes.resize(bytes.size() - 16);  // the writer has no word for the unknown block
  bytes[20] = std::byte{0x16};
  CHECK(written(writer, buffer, false) == bytes);
}

TEST_CASE("wire golden: the table of types is the page's", "[T1]") {
  struct Row {
    std::uint8_t value;
    const char* name;
    Queue queue;
    bool sequenced;
    std::size_t bytes;
    bool blocks;
    bool payload;
  };
  constexpr Row kPage[] = {
      {1, "HELLO", Queue::data, false, 144, false, false},
      {2, "WELCOME", Queue::data, false, 144, false, false},
      {3, "CLOSE", Queue::data, false, 56, true, false},
      {4, "CLOSED", Queue::data, false, 56, false, false},
      {5, "RESET", Queue::data, false, 56, false, false},
      {6, "CHALLENGE", Queue::data, false, 56, false, false},
      {16, "DATA", Queue::data, true, 80, true, true},
      {17, "GRANTED", Queue::data, true, 48, true, true},
      {18, "PROBE", Queue::data, true, 32, true, true},
      {19, "ENVELOPE", Queue::control, false, 80, true, false},
      {20, "PACKED", Queue::data, true, 80, true, true},
      {24, "WRITE", Queue::data, true, 80, true, true},
      {25, "READ", Queue::data, true, 80, true, false},
      {26, "ATOMIC", Queue::data, true, 104, true, false},
      {32, "CONTROL", Queue::control, false, 32, true, false},
  };
  std::size_t found = 0;
  for (int value = 0; value < 256; ++value) {
    const PacketRule& rule = rule_of(static_cast<PacketType>(value));
    const Row* row = nullptr;
    for (const Row& candidate : kPage) {
      if (candidate.value == value) row = &candidate;
    }
    INFO("type " << value);
    REQUIRE((rule.own_words != 0) == (row != nullptr));
    if (row == nullptr) continue;
    ++found;
    CHECK(rule.name == row->name);
    CHECK(rule.queue == row->queue);
    CHECK(rule.sequenced == row->sequenced);
    CHECK(rule.own_words * kWordBytes == row->bytes);
    CHECK(rule.blocks == row->blocks);
    CHECK(rule.payload == row->payload);
  }
  CHECK(found == kPacketRules.size());
}

}  // namespace
}  // namespace hawser::proto::wire
