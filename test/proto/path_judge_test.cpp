// SPDX-License-Identifier: Apache-2.0
#include "proto/path/path_judge.hpp"

#include <catch2/catch.hpp>
#include <span>
#include <vector>

#include "proto/peer/peer_lists.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

// A judge over the paths to one READY peer.
struct Court : Sending, PacketOwner, PathUser {
  Slab<OutgoingMessage> outgoing{1};
  Reporter reporter{turn, peers, outgoing};
  Senders senders{peers};
  TouchedPeers touched{peers};
  StandingVerdicts verdicts;
  PathSet paths{
      {turn, peers, sender, reporter, senders, touched, verdicts, *this, *this, 1}, 4, 64};
  PathJudge court{turn, peers, paths, sender.nics(), verdicts};

  Court() {
    peer.paths.indices.fill(kNoIndex);
    peer.session.state = SessionState::ready;
    proto::set_session_bytes(peer.session, 1024);
    peer.response = ResponseTime(microseconds(100));
    for (std::size_t i = 0; i < 2; ++i) peers.nic_of(peer, i).state = 1;
    paths.pair_nics(peer);
    paths.open_paths(peer);
  }
  void packet_arrived(Peer&, const SentPacket&) override {}
  void packet_came_late(Peer&, const SentPacket&) override {}
  void packet_lost(Peer&, SentPacket&) override {}
  void announce(Peer&) override {}
  void timers_changed(Peer&) override {}

  // Judges until nothing is to be told any more, and returns what was told.
  std::vector<Event> judge() {
    std::vector<Event> told;
    for (std::uint32_t i = 0; i < 3 * StandingVerdicts::kLooks; ++i) {
      (void)turn.begin(turn.now() + StandingVerdicts::kHold);
      court.judge();
      for (Event event; turn.poll_events(std::span(&event, 1)) > 0;) told.push_back(event);
    }
    return told;
  }
};

}  // namespace

TEST_CASE("path judge: nothing is wrong, so nobody is to blame") {
  Court at;
  CHECK(at.judge().empty());
  CHECK(at.verdicts.at() == kNever);
}

TEST_CASE("path judge: a NIC that its driver reports down, until it is back") {
  Court at;
  at.sender.nics()[1].up = false;
  const auto told = at.judge();
  REQUIRE(told.size() == 1);
  CHECK(told.front().kind == Event::Kind::verdict_reached);
  CHECK(told.front().blame == Blame::local_nic);
  CHECK(told.front().nic == 1);
  CHECK(told.front().reason == Reason::driver);
  at.sender.nics()[1].up = true;
  const auto after = at.judge();
  REQUIRE(after.size() == 1);
  CHECK(after.front().kind == Event::Kind::verdict_withdrawn);
  CHECK(after.front().reason == Reason::driver);
}

TEST_CASE("path judge: a NIC that the peer reports down, until the session ends") {
  Court at;
  at.peers.nic_of(at.peer, 1).state = 0;
  const auto told = at.judge();
  REQUIRE(told.size() == 1);
  CHECK(told.front().blame == Blame::remote_nic);
  CHECK(told.front().remote_nic == 1);
  CHECK(told.front().peer == at.peers.id_of(at.peer));
  CHECK(told.front().reason == Reason::peer_said);
  at.peer.session.state = SessionState::failed;
  const auto after = at.judge();
  REQUIRE(after.size() == 1);
  CHECK(after.front().kind == Event::Kind::verdict_withdrawn);
  CHECK(after.front().reason == Reason::session_ended);
}

// Both of its paths are DOWN and were probed in vain, while a path of the other local NIC to the
// same remote one is alive.
TEST_CASE("path judge: probes in vain from one NIC, while another reaches the same partner") {
  Court at;
  Path& first = *at.paths.of(at.peer.paths, 0);
  Path& second = *at.paths.of(at.peer.paths, 1);
  second.any_acked = true;
  second.heard_at = at.turn.now() + milliseconds(1);
  first.state = PathState::down;
  first.told_down = true;
  first.counts.in_vain = kInVain;
  const auto told = at.judge();
  // Nothing shows yet whether the near NIC, the far one or the way between them is at fault.
  CHECK(told.empty());
  CHECK(at.verdicts.at() < kNever);  // so it looks again
}

}  // namespace hawser::proto
