// SPDX-License-Identifier: Apache-2.0
// The writer: its limits, runs of statuses, and that it writes no byte that it does not send.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "hawser/tunables.hpp"
#include "proto/wire/packet.hpp"
#include "test/proto/wire_roundtrip.hpp"
#include "test/proto/wire_samples.hpp"

namespace hawser::proto::wire {
namespace {

// A CONTROL packet under construction.
struct Control {
  PacketBuffer buffer;
  PacketWriter writer;

  explicit Control(std::size_t limit_bytes = PacketBuffer::kBytes) : writer(buffer, limit_bytes) {
    writer.begin(PacketType::control, 1, 2, 3);
  }

  PacketView view() {
    const std::uint32_t bytes = writer.finish(true);
    PacketView packet;
    REQUIRE(!parse({buffer.bytes, bytes}, Queue::control, true, packet));
    return packet;
  }

  std::vector<std::vector<StatusEntry>> status_blocks() {
    std::vector<std::vector<StatusEntry>> blocks;
    view().blocks.visit([&blocks](StatusView status) {
      blocks.emplace_back(status.entries.begin(), status.entries.end());
    });
    return blocks;
  }
};

TEST_CASE(
    "wire write: what does not fit below the limit is refused, and nothing of it is written") {
  const std::vector<std::uint64_t> bitmap(3, 1);
  using Append = bool (*)(PacketWriter&, std::span<const std::uint64_t>);
  struct Case {
    std::size_t bytes;
    Append append;
  };
  const Case cases[] = {
      {16, [](PacketWriter& w, auto) { return w.ack_info(1, 0, 2); }},
      {40, [](PacketWriter& w, auto words) { return w.path_ack(1, 2, 3, 4, 5, words); }},
      {16, [](PacketWriter& w, auto) { return w.status(1, MessageStatus::accepted); }},
      {40, [](PacketWriter& w, auto words) { return w.request(1, 2, words); }},
      {24, [](PacketWriter& w, auto) { return w.grant(1, 2, 3, 4, 5); }},
      {16, [](PacketWriter& w, auto) { return w.path_marks(1, 2, 3, 4); }},
      {8, [](PacketWriter& w, auto) { return w.nic_state(1, true, 2); }},
  };
  for (const Case& one : cases) {
    for (std::size_t limit = sizeof(CommonHeader); limit <= 32 + 48; ++limit) {
      Control control(limit);
      std::fill(control.buffer.bytes + 32, control.buffer.bytes + 1024, std::byte{0xaa});
      const bool fits = limit >= 32 + one.bytes;
      INFO("block of " << one.bytes << " bytes, limit " << limit);
      CHECK(control.writer.room() == limit - 32);
      REQUIRE(one.append(control.writer, bitmap) == fits);
      const std::size_t end = 32 + (fits ? one.bytes : 0);
      CHECK(control.writer.header_bytes() == end);
      CHECK(std::all_of(control.buffer.bytes + end, control.buffer.bytes + 1024,
                        [](std::byte b) { return b == std::byte{0xaa}; }));
    }
  }
}

TEST_CASE("wire write: a limit below the headers leaves no room and breaks nothing") {
  PacketBuffer buffer;
  PacketWriter writer(buffer, 40);
  writer.begin(PacketType::data, 1, 2, 3);
  writer.part(FragmentPart{1, 2});
  writer.part(EnvelopePart{});
  CHECK(writer.room() == 0);
  CHECK_FALSE(writer.nic_state(0, true, 1));
  CHECK(writer.finish(false) == kDataHeaderBytes);
}

TEST_CASE("wire write: bytes behind the headers are left alone, whatever the buffer held") {
  std::mt19937_64 random(6);
  for (int i = 0; i < 200; ++i) {
    const test::Sample sample = test::random_packet(random);
    PacketView packet;
    REQUIRE(!parse(sample.bytes, sample.queue, true, packet));
    // Write twice, over different old contents: the packet must not depend on them.
    std::vector<std::vector<std::byte>> results;
    for (const std::byte fill : {std::byte{0x55}, std::byte{0xaa}}) {
      PacketBuffer buffer;
      std::fill(std::begin(buffer.bytes), std::end(buffer.bytes), fill);
      PacketWriter writer(buffer);
      writer.begin(packet.type, 1, 2, 3);
      if (packet.fragment != nullptr) writer.part(*packet.fragment);
      if (packet.envelope != nullptr) writer.part(*packet.envelope);
      const std::uint32_t bytes = writer.finish(true, packet.payload);
      CHECK(std::all_of(buffer.bytes + bytes, std::end(buffer.bytes),
                        [fill](std::byte b) { return b == fill; }));
      results.emplace_back(buffer.bytes, buffer.bytes + bytes);
    }
    REQUIRE(results[0] == results[1]);
  }
}

TEST_CASE("wire write: statuses that continue a run lengthen it") {
  Control control;
  CHECK(control.writer.status(10, MessageStatus::accepted));
  CHECK(control.writer.status(11, MessageStatus::accepted));
  CHECK(control.writer.status(12, MessageStatus::accepted, 3));
  CHECK(control.writer.status(15, MessageStatus::delivered));  // another status
  CHECK(control.writer.status(17, MessageStatus::delivered));  // a gap
  CHECK(control.writer.status(16, MessageStatus::delivered));  // backwards
  const auto blocks = control.status_blocks();
  REQUIRE(blocks.size() == 1);
  REQUIRE(blocks[0].size() == 4);
  CHECK(blocks[0][0].message == 10);
  CHECK(blocks[0][0].run == 5);
  CHECK(blocks[0][1].message == 15);
  CHECK(blocks[0][1].run == 1);
  CHECK(blocks[0][2].message == 17);
  CHECK(blocks[0][3].message == 16);
}

TEST_CASE("wire write: runs go on across the wrap of message numbers, and never beyond 4096",
          "[B12]") {
  Control control;
  CHECK(control.writer.status(0xffffffff, MessageStatus::accepted));
  CHECK(control.writer.status(0, MessageStatus::accepted, 4094));
  CHECK(control.writer.status(4094, MessageStatus::accepted, 1));
  CHECK(control.writer.status(4095, MessageStatus::accepted, 1));
  const auto blocks = control.status_blocks();
  REQUIRE(blocks.size() == 1);
  REQUIRE(blocks[0].size() == 2);
  CHECK(blocks[0][0].message == 0xffffffff);
  CHECK(blocks[0][0].run == 4096);
  CHECK(blocks[0][1].message == 4095);
  CHECK(blocks[0][1].run == 1);
}

TEST_CASE("wire write: a status after another block opens a block of its own") {
  Control control;
  CHECK(control.writer.status(1, MessageStatus::accepted));
  CHECK(control.writer.nic_state(0, true, 1));
  CHECK(control.writer.status(2, MessageStatus::accepted));
  CHECK(control.writer.status(3, MessageStatus::accepted));
  const auto blocks = control.status_blocks();
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].size() == 1);
  REQUIRE(blocks[1].size() == 1);
  CHECK(blocks[1][0].message == 2);
  CHECK(blocks[1][0].run == 2);
}

TEST_CASE("wire write: a buffer begun anew remembers no status of the packet before") {
  Control control;
  CHECK(control.writer.status(1, MessageStatus::accepted));
  control.writer.begin(PacketType::control, 1, 2, 3);
  CHECK(control.writer.ack_info(1, 0, 2));  // as long as that STATUS block was
  CHECK(control.writer.status(2, MessageStatus::accepted));
  const auto blocks = control.status_blocks();
  REQUIRE(blocks.size() == 1);
  REQUIRE(blocks[0].size() == 1);
  CHECK(blocks[0][0].message == 2);
  CHECK(blocks[0][0].run == 1);
}

TEST_CASE("wire write: statuses takes as many as fit and says how many") {
  std::vector<StatusEntry> entries(300);
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    entries[i] = {7 * i, MessageStatus::delivered, 0, 1};
  }
  Control control;
  // The packet has 1024 bytes: the header, the block's own word, and entries.
  CHECK(control.writer.statuses(entries) == (1024 - 32 - 8) / 8);
  CHECK(control.writer.room() == 0);
  CHECK(control.writer.statuses(entries) == 0);
  CHECK_FALSE(control.writer.status(0, MessageStatus::accepted));
  // A run can grow without room.
  CHECK(control.writer.status(7 * 122 + 1, MessageStatus::delivered));
  const auto blocks = control.status_blocks();
  REQUIRE(blocks.size() == 1);
  REQUIRE(blocks[0].size() == 123);
  CHECK(blocks[0][122].message == 7 * 122);
  CHECK(blocks[0][122].run == 2);

  Control tight(32 + 15);
  CHECK(tight.writer.statuses(entries) == 0);
  CHECK(tight.writer.header_bytes() == 32);
  CHECK(tight.writer.statuses({}) == 0);
}

TEST_CASE("wire write: finish may be called again after a change") {
  Control control;
  control.writer.finish(true);
  control.writer.header().path_number = 77;
  CHECK(control.writer.nic_state(1, false, 2));
  CHECK(control.view().header->path_number == 77);
}

TEST_CASE("wire write: without a checksum the field is 0") {
  Control control;
  const std::uint32_t bytes = control.writer.finish(false);
  PacketView packet;
  REQUIRE(!parse({control.buffer.bytes, bytes}, Queue::control, false, packet));
  CHECK(packet.header->checksum == 0);
  CHECK(parse({control.buffer.bytes, bytes}, Queue::control, true, packet) ==
        DropReason::bad_checksum);
}

TEST_CASE("wire write: the largest session packet fits a buffer") {
  PacketBuffer buffer;
  PacketWriter writer(buffer);
  writer.begin(PacketType::hello, kNoReceiver, 0, 0);
  SessionPart& session = writer.part(SessionPart{});
  session.nics = kMaxNics;
  session.fragment_bytes = kMinFragmentBytes;
  for (std::uint8_t i = 0; i < kMaxNics; ++i) writer.part(NicRecord{}).index = i;
  const std::uint32_t bytes = writer.finish(true);
  CHECK(bytes == 912);
  PacketView packet;
  REQUIRE(!parse({buffer.bytes, bytes}, Queue::data, true, packet));
  CHECK(packet.nics.size() == kMaxNics);
  CHECK(packet.nics.back().index == kMaxNics - 1);
}

TEST_CASE("wire parse: a payload that comes apart is that of a packet that may have one, once") {
  const std::vector<std::byte> payload(100);
  std::mt19937_64 random(11);
  bool refused = false;
  bool taken = false;
  for (int i = 0; i < 1000; ++i) {
    const test::Sample sample = test::random_packet(random);
    PacketView packet;
    REQUIRE(!parse(sample.bytes, sample.queue, true, packet));
    const bool has_place = packet.type == PacketType::data || packet.type == PacketType::granted ||
                           packet.type == PacketType::probe || packet.type == PacketType::write;
    const bool fits = has_place && packet.payload.empty();
    CAPTURE(sample.name);
    REQUIRE(attach(payload, packet) == fits);
    if (fits) CHECK(packet.payload.data() == payload.data());
    (fits ? taken : refused) = true;
  }
  CHECK(refused);
  CHECK(taken);
}

TEST_CASE("wire write: lengths up to 2^40 - 1 go through the envelope", "[T5]") {
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xffffffff},
                                     std::uint64_t{1} << 32, kMaxWireLength}) {
    EnvelopePart part{};
    part.eflags = 0xff;
    part.set_length(length);
    CHECK(part.length() == length);
    CHECK(part.eflags == 0xff);
  }
  CHECK(kMaxWireLength >= kMaxMessageBytes);
}

TEST_CASE("wire write: every random packet survives the round trip") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    const test::Sample sample = test::random_packet(random);
    INFO("packet " << i << ": " << sample.name);
    REQUIRE(test::check_round_trip(sample.bytes, sample.queue, true));
  }
}

TEST_CASE("wire write: the constants that the codec shares with the tunables agree") {
  for (const TunableRow& row : kTunables) {
    if (row.name == "fragment_bytes") CHECK(row.minimum >= kMinFragmentBytes);
    if (row.name == "max_path_slots") CHECK(row.maximum <= kMaxSlots);
  }
}

}  // namespace
}  // namespace hawser::proto::wire
