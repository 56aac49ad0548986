// SPDX-License-Identifier: Apache-2.0
#include "proto/endpoint/receiver.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <span>
#include <vector>

#include "proto/wire/layout.hpp"
#include "test/proto/two_ends.hpp"

namespace hawser::proto {
namespace {

constexpr std::array kText{std::byte{5}, std::byte{6}, std::byte{7}};

// A session in which `a` has sent three bytes that have not arrived yet.
struct ThreeBytes : TwoEnds {
  Peer& peer = connect();
  std::array<std::byte, 3> room{};

  explicit ThreeBytes(const Tunables& tunables = few_peers(1000)) : TwoEnds(tunables) {
    b.receive(room);
    a.send(peer, kText);
    a.transmit(now);
    REQUIRE(a.packets() == 1);
  }
  [[nodiscard]] test::RecordingNic::Packet packet() const {
    return a.first.sent.empty() ? a.second.sent.front() : a.first.sent.front();
  }
  void arrive(test::RecordingNic::Packet packet) {
    b.second.coming.push_back(std::move(packet));  // it asks for no checksum
    b.hear(now = now + microseconds(10));
  }
};

}  // namespace

TEST_CASE("receiver: a packet arrives once") {
  ThreeBytes at;
  at.arrive(at.packet());
  const auto done = at.b.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().status == Status::ok);
  CHECK(at.room == kText);
  CHECK(at.b.owners.outbox.is_scheduled(at.b.peer(TwoEnds::kA)));
  at.arrive(at.packet());
  CHECK(at.b.completions().empty());
  CHECK(at.b.dropped(DropReason::old_path_number) == 1);
}

TEST_CASE("receiver: a packet of another session changes nothing") {
  ThreeBytes at;
  const Time heard = at.b.peer(TwoEnds::kA).session.last_heard;
  auto packet = at.packet();
  wire::CommonHeader header;
  std::memcpy(&header, packet.words.data(), sizeof header);
  SECTION("its token is wrong") {
    header.token ^= 1;
    std::memcpy(packet.words.data(), &header, sizeof header);
    at.arrive(packet);
    CHECK(at.b.dropped(DropReason::wrong_token) == 1);
  }
  SECTION("nobody has its name") {
    header.receiver ^= 1;
    std::memcpy(packet.words.data(), &header, sizeof header);
    at.arrive(packet);
    CHECK(at.b.dropped(DropReason::unknown_receiver) == 1);
  }
  CHECK(at.b.completions().empty());
  CHECK(at.b.peer(TwoEnds::kA).session.last_heard == heard);
  at.arrive(at.packet());
  CHECK(at.b.completions().size() == 1);
}

TEST_CASE("receiver: a turn takes what its budget allows of each NIC, and a late one more") {
  Tunables tunables = few_peers(1000);
  tunables.poll_budget_packets = 1;  // a burst is taken whole
  ThreeBytes at(tunables);
  const auto come = [&](std::size_t packets) {
    for (std::size_t i = 0; i < packets; ++i) at.b.first.coming.emplace_back();
  };
  come(2 * Nic::kMaxRxBurst);
  at.b.hear(at.now);
  CHECK(at.b.first.coming.size() == Nic::kMaxRxBurst);
  at.b.hear(at.now);
  CHECK(at.b.first.coming.empty());
  come(2 * Nic::kMaxRxBurst);
  at.b.owners.turn.end(at.now);  // a turn was due then
  at.b.hear(at.now + milliseconds(1000));
  CHECK(at.b.owners.turn.is_late());
  CHECK(at.b.first.coming.empty());
}

}  // namespace hawser::proto
