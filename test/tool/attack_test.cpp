// SPDX-License-Identifier: Apache-2.0
#include "tool/attack/attack.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <vector>

#include "proto/wire/packet.hpp"
#include "tool/attack/observer.hpp"
#include "tool/attack/packets.hpp"
#include "tool/attack/targets.hpp"
#include "tool/error.hpp"
#include "tool/run/report.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("attack: kinds and rates") {
  CHECK(parse_attack("garbage").kind == AttackKind::garbage);
  CHECK(parse_attack("garbage").packets_per_s == 0);
  CHECK(parse_attack("replay:50k").packets_per_s == 50'000);
  CHECK(to_text(parse_attack("forged:2M")) == "forged:2000000");
  CHECK(parse_attack("forged").observes());
  CHECK_FALSE(parse_attack("truncated").observes());
  for (const char* bad : {"", "noise", "garbage:", "garbage:fast", "Garbage", ":5"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_attack(bad), InputError);
  }
}

TEST_CASE("attack: a result comes through a line as it was") {
  RankMessage message;
  message.attack = AttackResult{AttackKind::replay, 1, 2, 3, 4, 5};
  const auto back = from_line(to_lines(message));
  REQUIRE(back);
  REQUIRE(back->attack);
  CHECK(back->attack->kind == AttackKind::replay);
  CHECK(to_lines(*back) == to_lines(message));
}

// The reason for which a receiver drops a packet before it looks at sessions, or none.
std::optional<DropReason> verdict(std::span<const std::byte> packet, proto::Queue queue) {
  proto::wire::PacketView view;
  return proto::wire::parse(packet, queue, true, view);
}

TEST_CASE("attack: garbage reaches every check of a stranger's packets, and stays in its room") {
  PacketForge forge(1);
  std::vector<std::byte> room(kMaxDatagramBytes);
  std::map<DropReason, int> reasons;
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = forge.garbage(room);
    REQUIRE(bytes > 0);
    REQUIRE(bytes <= room.size());
    const auto reason = verdict(std::span(room).first(bytes), proto::Queue::data);
    reason ? static_cast<void>(++reasons[*reason]) : static_cast<void>(++taken);
  }
  CHECK(reasons[DropReason::too_short] > 0);
  CHECK(reasons[DropReason::bad_version] > 0);
  CHECK(reasons[DropReason::bad_field] > 0);
  CHECK(taken > 0);  // only the tokens of these are wrong
}

TEST_CASE("attack: garbage of every type is right but for its session") {
  using proto::wire::PacketType;
  PacketForge forge(4);
  std::vector<std::byte> room(kMaxDatagramBytes);
  std::map<PacketType, int> taken;
  proto::wire::PacketView view;
  for (int i = 0; i < 50'000; ++i) {
    const auto made = std::span(room).first(forge.garbage(room));
    if (!proto::wire::parse(made, proto::Queue::data, true, view)) ++taken[view.type];
  }
  for (const PacketType type : {PacketType::write, PacketType::read, PacketType::atomic,
                                PacketType::granted, PacketType::challenge}) {
    INFO(int{static_cast<std::uint8_t>(type)});
    CHECK(taken[type] > 0);
  }
}

TEST_CASE("attack: truncated packets have less than they say") {
  PacketForge forge(2);
  std::vector<std::byte> room(kMaxDatagramBytes);
  std::map<DropReason, int> reasons;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = forge.truncated(room);
    REQUIRE(bytes <= room.size());
    const auto reason = verdict(std::span(room).first(bytes), proto::Queue::data);
    if (reason) ++reasons[*reason];
  }
  CHECK(reasons[DropReason::too_short] > 0);
  CHECK(reasons[DropReason::bad_checksum] > 0);
}

// A packet with a right checksum.
std::vector<std::byte> packet(std::size_t bytes, std::uint8_t fill) {
  std::vector<std::byte> made(bytes, std::byte{fill});
  put_checksum_right(made);
  return made;
}

TEST_CASE("attack: a forgery differs, and its checksum is right") {
  PacketForge forge(3);
  const std::vector<std::byte> seen = packet(500, 7);
  int changed = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::byte> forged = seen;
    forge.forge(forged);
    changed += forged != seen;
    CHECK(first_packet(forged, 4096) == forged.size());
  }
  CHECK(changed > 900);  // two changes may cancel out
  std::vector<std::byte> tiny(1);
  forge.forge(tiny);
}

TEST_CASE("attack: the first of several packets that were sent as one") {
  constexpr std::uint64_t kFragment = 1024;
  for (const std::size_t full : {std::size_t{80} + kFragment, std::size_t{48} + kFragment}) {
    std::vector<std::byte> sent = packet(full, 1);
    CHECK(first_packet(sent, kFragment) == full);
    const std::vector<std::byte> second = packet(full - 100, 2);
    sent.insert(sent.end(), second.begin(), second.end());
    CHECK(first_packet(sent, kFragment) == full);
    sent[3] ^= std::byte{1};
    CHECK(first_packet(sent, kFragment) == 0);
  }
  CHECK(first_packet({}, kFragment) == 0);
}

TEST_CASE("attack: sockets of ranks, of the kernel's table") {
  constexpr std::string_view kTable =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode ref pointer drops\n"
      "  300: 0100017F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "111 2 0000000000000000 0\n"
      "  301: 0200017F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "222 2 0000000000000000 0\n"
      "  301: 0200017F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 "
      "333 2 0000000000000000 0\n"
      "broken line\n";
  const auto sockets = parse_udp_table(kTable, {"222", "333"});
  REQUIRE(sockets.size() == 1);
  CHECK(sockets[0].sin_addr.s_addr == inet_addr("127.1.0.2"));
  CHECK(ntohs(sockets[0].sin_port) == 8081);
  CHECK(parse_udp_table("", {"1"}).empty());
  CHECK(parse_udp_table(kTable, {}).empty());
}

TEST_CASE("attack: datagrams in what a packet socket gives") {
  std::vector<std::byte> ip(20 + 8 + 3);
  ip[0] = std::byte{0x45};
  ip[9] = std::byte{17};
  const std::uint32_t to = inet_addr("127.1.2.3");
  std::memcpy(&ip[16], &to, sizeof to);
  ip[22] = std::byte{0x1f};
  ip[23] = std::byte{0x90};
  const auto sight = parse_ipv4(ip);
  REQUIRE(sight);
  CHECK(sight->to.sin_addr.s_addr == to);
  CHECK(ntohs(sight->to.sin_port) == 8080);
  CHECK(sight->payload.size() == 3);
  for (std::size_t bytes = 0; bytes < 28; ++bytes)
    CHECK_FALSE(parse_ipv4(std::span(ip).first(bytes)));
  ip[9] = std::byte{6};  // TCP
  CHECK_FALSE(parse_ipv4(ip));
  ip[9] = std::byte{17};
  ip[0] = std::byte{0x4f};  // a header longer than the whole packet
  CHECK_FALSE(parse_ipv4(ip));
}

}  // namespace
}  // namespace hawser::tool
