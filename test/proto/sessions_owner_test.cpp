// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "proto/session/sessions.hpp"
#include "test/proto/two_ends.hpp"

namespace hawser::proto {

TEST_CASE("sessions: a handshake makes both ends READY, once") {
  TwoEnds at;
  Peer& peer = at.call();
  CHECK(peer.session.state == SessionState::calling);
  CHECK(at.a.packets() == 1);
  at.exchange();
  CHECK(peer.session.state == SessionState::ready);
  CHECK(at.b.peer(TwoEnds::kA).session.state == SessionState::ready);
  CHECK(at.a.count_events(Event::Kind::peer_established) == 1);
  CHECK(at.b.count_events(Event::Kind::peer_established) == 1);
  CHECK(peer.session.remote_token == at.b.peer(TwoEnds::kA).session.token);
  CHECK(peer.session.fragment_bytes == at.b.peer(TwoEnds::kA).session.fragment_bytes);
  // The call is over: its timer doesn't fire again.
  at.a.expire(at.now + milliseconds(1000));
  CHECK(at.a.owners.turn.counters.handshakes_sent == 2);  // HELLO and WELCOME
}

TEST_CASE("sessions: a peer that never answers is called over all its NICs, and then given up") {
  TwoEnds at;
  Peer& peer = at.call();
  const Time began = at.now;
  std::vector<NicAddress> called;
  for (int i = 0; i < 1000 && peer.session.state == SessionState::calling; ++i) {
    at.now = at.a.owners.sessions.next_timer();
    REQUIRE(at.now != kNever);
    at.a.expire(at.now);
    for (test::RecordingNic* const nic : {&at.a.first, &at.a.second}) {
      for (const auto& packet : std::exchange(nic->sent, {})) called.push_back(packet.to);
    }
  }
  CHECK(peer.session.state == SessionState::failed);
  CHECK(peer.session.failure == Status::peer_unreachable);
  const Duration timeout = milliseconds(at.a.config.tunables.peer_timeout_ms);
  CHECK(at.now - began >= timeout);
  CHECK(at.now - began < timeout * 2);
  CHECK(std::ranges::count(called, at.b.first.address()) > 1);
  CHECK(std::ranges::count(called, at.b.second.address()) > 1);
  CHECK(at.a.count_events(Event::Kind::peer_failed) == 1);
  CHECK_FALSE(CallQueue::waits(peer));
}

TEST_CASE("sessions: an old packet of a session changes nothing") {
  TwoEnds at;
  at.call();
  const auto hello = at.a.first.sent.empty() ? at.a.second.sent.front() : at.a.first.sent.front();
  at.exchange();
  const Peer& peer = at.b.peer(TwoEnds::kA);
  const std::uint64_t token = peer.session.token;
  at.b.first.coming.push_back(hello);
  at.b.hear(at.now = at.now + milliseconds(1000));
  CHECK(at.b.dropped(DropReason::stale_session) == 1);
  CHECK(at.b.packets() == 0);
  CHECK(peer.session.state == SessionState::ready);
  CHECK(peer.session.token == token);
}

TEST_CASE("sessions: nobody gets in without the job's secret") {
  TwoEnds at(few_peers(1000), {});
  Peer& peer = at.call();
  at.exchange();
  CHECK(at.b.dropped(DropReason::bad_mac) == 1);
  CHECK(at.b.owners.peers.find(TwoEnds::kA) == kNoIndex);
  CHECK(peer.session.state == SessionState::calling);
}

TEST_CASE("sessions: a closing end tells its peer, and is closed once that has answered") {
  TwoEnds at;
  at.connect();
  at.a.owners.sessions.close();
  CHECK(at.a.owners.sessions.closing());
  for (int i = 0; i < 100 && !at.a.owners.sessions.closed(); ++i) {
    at.a.begin(at.now);
    at.a.owners.sessions.progress_closing();
    at.a.finish(at.now);
    at.exchange();
    at.now = later(at.now, earlier(at.a.owners.sessions.next_timer(), at.now + milliseconds(10)));
  }
  CHECK(at.a.owners.sessions.closed());
  CHECK(at.b.peer(TwoEnds::kA).session.state == SessionState::failed);
  CHECK(at.b.peer(TwoEnds::kA).session.failure == Status::peer_closed);
  CHECK(at.a.owners.sessions.next_timer() == kNever);
}

}  // namespace hawser::proto
