// SPDX-License-Identifier: Apache-2.0
#include "proto/path/path_set.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "proto/base/sequence.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

// The paths to a READY peer with two NICs. It notes what their user is told.
struct Alone : Sending, PacketOwner, PathUser {
  Slab<OutgoingMessage> outgoing{1};
  Reporter reporter{turn, peers, outgoing};
  Senders senders{peers};
  TouchedPeers touched{peers};
  StandingVerdicts verdicts;
  PathSet paths;
  std::vector<std::uint32_t> arrived, late, lost;  // messages of the packets
  int announced = 0;

  explicit Alone(std::uint32_t record_blocks = 64)
      : paths({turn, peers, sender, reporter, senders, touched, verdicts, *this, *this, 1}, 4,
              record_blocks) {
    peer.paths.indices.fill(kNoIndex);
    peer.session.state = SessionState::ready;
    proto::set_session_bytes(peer.session, 1024);
    peer.response = ResponseTime(microseconds(100));
    for (std::size_t i = 0; i < 2; ++i) {
      peers.nic_of(peer, i).state = 1;
      peers.nic_of(peer, i).max_datagram = 2048 / wire::kWordBytes;
    }
    paths.pair_nics(peer);
    paths.open_paths(peer);
  }

  void packet_arrived(Peer&, const SentPacket& packet) override {
    arrived.push_back(packet.message);
  }
  void packet_came_late(Peer&, const SentPacket& packet) override {
    late.push_back(packet.message);
  }
  void packet_lost(Peer&, SentPacket& packet) override { lost.push_back(packet.message); }
  void announce(Peer&) override { ++announced; }
  void timers_changed(Peer&) override {}

  [[nodiscard]] Path& path(std::size_t slot) { return *paths.of(peer.paths, slot); }
  // A packet of that message leaves over the path.
  void send(Path& on, std::uint32_t message) {
    REQUIRE(paths.places_for_data(on, 1) == 1);
    TxPacket packet;
    packet.header_bytes = 64;
    packet.payload_bytes = 1000;
    sender.nics()[on.local_nic].give(turn.now(), 1064);
    paths.push(on, packet).message = message;
    paths.arm_pto(on);
  }
  // The peer says that these numbers of the path have arrived, the last one being the largest.
  void acknowledge(Path& on, std::vector<std::uint64_t> numbers) {
    std::array<std::uint64_t, 1> words{};
    for (const std::uint64_t number : numbers) words[0] |= 1ull << (numbers.back() - number);
    paths.on_path_ack(peer, {.slot = on.slot,
                             .generation = on.generation,
                             .largest = to_wire(numbers.back()),
                             .bitmap = words});
    peer.silence.acked_in_turn = true;
    touched.add(peer);
    paths.judge_acks();
  }
  void pass(Duration time) {
    (void)turn.begin(turn.now() + time);
    turn.end(turn.now() + time);
  }
};

}  // namespace

TEST_CASE("path set: a session begins with its home paths, which are UP") {
  Alone at;
  CHECK(at.peer.paths.bound == 3);
  for (std::size_t slot = 0; slot < 2; ++slot) {
    CHECK(at.path(slot).state == PathState::up);
    CHECK(at.paths.has_way(at.peer, at.path(slot)));
  }
  CHECK(at.path(0).local_nic != at.path(1).local_nic);
  CHECK(at.paths.next_timer(at.peer) == kNever);
}

TEST_CASE("path set: a packet that arrives is told once, and is in flight no more") {
  Alone at;
  Path& path = at.path(0);
  at.send(path, 7);
  CHECK(at.paths.in_flight() == 1);
  CHECK(at.paths.next_timer(at.peer) < kNever);
  const std::uint64_t number = path.sent.next() - 1;
  at.acknowledge(path, {number});
  at.acknowledge(path, {number});
  CHECK(at.arrived == std::vector<std::uint32_t>{7});
  CHECK(at.paths.in_flight() == 0);
  CHECK(at.lost.empty());
}

TEST_CASE("path set: a packet that many overtook is lost, and told if it comes late") {
  Alone at;
  Path& path = at.path(0);
  at.pass(microseconds(10));
  const std::uint64_t first = path.sent.next();
  for (std::uint32_t i = 0; i < 8; ++i) at.send(path, i);
  at.pass(milliseconds(1));
  at.acknowledge(path,
                 {first + 1, first + 2, first + 3, first + 4, first + 5, first + 6, first + 7});
  for (int i = 0; i < 10 && at.lost.empty(); ++i) {  // with lanes only time decides
    at.pass(at.paths.next_timer(at.peer) - at.turn.now());
    at.paths.expire(at.peer);
  }
  CHECK(at.lost == std::vector<std::uint32_t>{0});
  CHECK(at.arrived.size() == 7);
  at.acknowledge(path, {first});
  CHECK(at.late == std::vector<std::uint32_t>{0});
  CHECK(at.arrived.size() == 7);
}

TEST_CASE("path set: a probe is told to nobody") {
  Alone at;
  Path& path = at.path(1);
  REQUIRE(at.paths.send_probe(at.peer, path, true));
  const auto& nic = path.local_nic == 0 ? at.first : at.second;
  REQUIRE(nic.sent.size() == 1);
  CHECK(nic.sent.front().payload_bytes == 1024);
  CHECK(at.paths.in_flight() == 1);
  at.acknowledge(path, {path.sent.next() - 1});
  CHECK(at.arrived.empty());
  CHECK(at.paths.in_flight() == 0);
}

TEST_CASE("path set: a path that has no number for a probe loses its oldest packets only") {
  // The numbers run out first, or the records.
  for (const std::uint32_t record_blocks : {136u, 64u}) {
    INFO(record_blocks << " blocks of records");
    Alone at(record_blocks);
    Path& path = at.path(0);
    std::uint32_t sent = 0;
    while (at.paths.places_for_data(path, 1) == 1) at.send(path, sent++);
    REQUIRE(sent > 500);
    // The peer is away, and answers no probe. The other path's timeouts may send probes here, too.
    for (std::uint8_t timeout = 1; timeout <= 16; ++timeout) {
      const std::uint64_t next = path.sent.next();
      for (int i = 0; i < 100 && path.unanswered < timeout; ++i) {
        at.pass(at.paths.next_timer(at.peer) - at.turn.now());
        at.paths.expire(at.peer);
      }
      REQUIRE(path.unanswered == timeout);
      CHECK(path.sent.next() > next);
      CHECK(path.packets_in_flight + 8u > sent + kKeptForProbes);
    }
    CHECK(at.lost.size() > 8);
    for (std::uint32_t i = 0; i < at.lost.size(); ++i) CHECK(at.lost[i] == i);
    // The peer is back, and the first answer shows that it has nothing of the rest.
    at.acknowledge(path, {path.sent.next() - 1});
    CHECK(at.lost.size() == sent);
  }
}

TEST_CASE("path set: what is in flight on a path that goes down is lost") {
  Alone at;
  Path& path = at.path(0);
  at.send(path, 3);
  at.send(path, 4);
  at.paths.path_down(at.peer, path, Reason::driver);
  CHECK(at.lost == std::vector<std::uint32_t>{3, 4});
  CHECK(at.paths.in_flight() == 0);
  CHECK(path.state == PathState::down);
  CHECK(at.verdicts.at() < kNever);
  CHECK(path.probe.timer.at() < kNever);
  CHECK(at.paths.next_timer(at.peer) <= path.probe.timer.at());  // a bridge may be probed first
}

TEST_CASE("path set: a path comes back once two full probes are answered") {
  Alone at;
  Path& path = at.path(0);
  at.paths.path_down(at.peer, path, Reason::driver);
  for (int i = 0; i < 100 && path.state != PathState::up; ++i) {
    at.pass(at.paths.next_timer(at.peer) - at.turn.now() + microseconds(1));
    at.paths.expire(at.peer);
    for (std::size_t slot = 0; slot < 4; ++slot) {
      Path* const one = at.paths.of(at.peer.paths, slot);
      if (one != nullptr && one->packets_in_flight > 0)
        at.acknowledge(*one, {one->sent.next() - 1});
    }
  }
  CHECK(path.state == PathState::up);
  CHECK(at.turn.counters.paths_returned == 1);
}

// The peer was away. Its ring kept the first probe, and the second may be lost. The first sample of
// the answer time includes the absence, so the path must not wait that long for the second probe.
TEST_CASE("path set: a path that answers is probed at once, whatever else is in flight") {
  Alone at;
  Path& path = at.path(0);
  at.paths.path_down(at.peer, path, Reason::driver);
  const std::uint64_t first = path.sent.next();
  for (std::uint64_t probes = 1; probes <= 2; ++probes) {
    at.pass(path.probe.timer.at() - at.turn.now());
    at.paths.expire(at.peer);
    REQUIRE(path.sent.next() == first + probes);
  }
  at.pass(milliseconds(500));
  REQUIRE(path.packets_in_flight == 1);
  at.acknowledge(path, {first});
  REQUIRE(path.state == PathState::probing);
  CHECK(path.response.overdue(at.turn.granularity) > microseconds(500));
  CHECK(path.probe.timer.at() == at.turn.now());
  at.pass(microseconds(1));
  at.paths.expire(at.peer);
  CHECK(path.state == PathState::probing);
  REQUIRE(path.sent.next() == first + 3);
  const bool comes_late = GENERATE(false, true);
  at.acknowledge(path, {comes_late ? first + 1 : first + 2});
  CHECK(path.state == PathState::up);
}

TEST_CASE("path set: a released path gives everything back") {
  Alone at;
  at.send(at.path(0), 1);
  at.send(at.path(1), 2);
  for (std::size_t slot = 0; slot < 2; ++slot) at.paths.release_path(at.peer, at.path(slot));
  CHECK(at.paths.in_flight() == 0);
  CHECK(at.peer.paths.bound == 0);
  CHECK(at.lost.size() == 2);
  CHECK(at.paths.all().size() == 0);
  // New paths go on above the old numbers.
  const std::uint64_t start = at.peer.slots.path_start;
  CHECK(start > 0);
  at.paths.open_paths(at.peer);
  CHECK(at.path(0).sent.next() == start);
}

TEST_CASE("path set: a request marks what the receiver misses") {
  Alone at;
  Path& path = at.path(0);
  at.send(path, 5);
  at.send(path, 6);
  int seen = 0;
  at.paths.for_each_in_flight(at.peer.paths, [&](Path& on, SentPacket& record) {
    ++seen;
    if (record.message != 6) return true;
    PathSet::miss(at.peer.silence, on, record);
    return false;
  });
  CHECK(seen == 2);
  CHECK(path.any_requested);
  at.touched.add(at.peer);
  at.pass(milliseconds(10));
  at.touched.add(at.peer);
  at.paths.judge_acks();
  CHECK(at.lost == std::vector<std::uint32_t>{6});
}

TEST_CASE("path set: reordering that was proven is doubted again after long order") {
  Alone at;
  Path& path = at.path(0);
  path.reordering_proven = true;
  path.proven_epoch = order_epoch(path.sent.next());
  const std::uint64_t first = path.sent.next();
  while (path.reordering_proven && path.sent.next() - first < 8 * kPathNumbers) {
    at.send(path, 1);
    at.acknowledge(path, {path.sent.next() - 1});
    at.pass(microseconds(1));
  }
  CHECK_FALSE(path.reordering_proven);
  CHECK(path.sent.next() - first > kPathNumbers);
}

}  // namespace hawser::proto
