// SPDX-License-Identifier: Apache-2.0
#include "proto/path/path_judge.hpp"

#include <algorithm>
#include <array>

#include "proto/peer/peer_table.hpp"

namespace hawser::proto {

// An UP path is alive if it was heard since a path of either of its NICs went DOWN. Otherwise it is
// UP only because nobody has tried it. Probes that an absent peer does not answer are no evidence:
// only probes count that were in vain though the peer was there.
PeerEvidence PathJudge::evidence_of(Peer& peer) {
  PeerEvidence evidence;
  std::array<Time, kMaxNics> remote_down_at{};
  paths_.for_each(peer.paths, [&](const Path& path) {
    remote_down_at[path.remote_nic] = later(remote_down_at[path.remote_nic], path.down_at);
  });
  paths_.for_each(peer.paths, [&](const Path& path) {
    // A driver has reported these dead: their paths add nothing.
    if (!nics_[path.local_nic].up || !peers_.is_up(peer, path.remote_nic)) return;
    const auto bit = static_cast<std::uint16_t>(1u << path.local_nic);
    if (path.state == PathState::up) {
      const Time doubted =
          later(nics_[path.local_nic].path_down_at, remote_down_at[path.remote_nic]);
      if (path.any_acked && path.heard_at >= doubted) evidence.alive[path.remote_nic] |= bit;
    } else if (path.state == PathState::down && path.told_down && path.counts.in_vain > 0) {
      evidence.down[path.remote_nic] |= bit;
    } else if (path.state == PathState::down && !path.told_down && path.counts.in_vain >= kInVain) {
      evidence.tried[path.remote_nic] |= bit;
    }
    for (std::size_t remote = 0; remote < kMaxNics; ++remote) {
      if ((path.tried >> remote & 1) != 0) evidence.tried[remote] |= bit;
    }
  });
  return evidence;
}

void PathJudge::support_by_peer(Peer& peer, const VerdictJudge& judge) {
  const VerdictJudge::OfPeer found = judge.judge(evidence_of(peer), peer.index);
  Verdict verdict{.reason = Reason::witnesses,
                  .peer = peers_.id_of(peer),
                  .endpoint_id = peer.identity.remote_id};
  for (std::uint32_t remote = 0; remote < peer.session.remote_nics; ++remote) {
    verdict.remote_nic = static_cast<std::uint8_t>(remote);
    verdict.blame = Blame::remote_nic;
    verdict.nic = 0;
    const bool told = !peers_.is_up(peer, remote);
    verdict.reason = told ? Reason::peer_said : Reason::witnesses;
    if (told || (found.dead >> remote & 1) != 0) {
      verdicts_.support(verdict, turn_.now());
      continue;
    }
    verdict.blame = Blame::link;
    for (std::uint32_t local = 0; local < nics_.size(); ++local) {
      if ((found.links[remote] >> local & 1) == 0) continue;
      verdict.nic = static_cast<std::uint8_t>(local);
      verdicts_.support(verdict, turn_.now());
    }
  }
}

bool PathJudge::any_session() {
  for (std::uint32_t i = 0; i < peers_.used(); ++i) {
    if (!peers_.is_known(i)) continue;
    const auto state = peers_.is_awake(i) ? peers_.at(i).session.state : peers_.resting(i).state;
    if (state == SessionState::ready) return true;
  }
  return false;
}

// The reason to withdraw a verdict that nothing supports any more. None: it stands.
Reason PathJudge::contradiction(const Verdict& verdict, std::uint16_t alive_local) {
  if (verdict.blame == Blame::local_nic) {
    if (verdict.reason == Reason::driver) return Reason::driver;
    if ((alive_local >> verdict.nic & 1) != 0) return Reason::works_again;
    return any_session() ? Reason::none : Reason::session_ended;
  }
  const std::uint32_t index = peers_.index_of(verdict.peer);
  if (index == kNoIndex) return Reason::session_ended;
  if (!peers_.is_awake(index)) {  // a peer at rest gives no new evidence
    const RestingPeer& resting = peers_.resting(index);
    const bool same_session =
        resting.state == SessionState::ready && resting.remote_id == verdict.endpoint_id;
    return same_session ? Reason::none : Reason::session_ended;
  }
  Peer& peer = peers_.at(index);
  if (peer.session.state != SessionState::ready || peer.identity.remote_id != verdict.endpoint_id) {
    return Reason::session_ended;
  }
  if (verdict.reason == Reason::peer_said) return Reason::peer_said;
  const std::uint16_t alive = evidence_of(peer).alive[verdict.remote_nic];
  if (verdict.blame == Blame::remote_nic) {
    return alive != 0 ? Reason::works_again : Reason::none;
  }
  if ((alive >> verdict.nic & 1) != 0) return Reason::works_again;
  return verdicts_.explains(verdict) ? Reason::wider_verdict : Reason::none;
}

void PathJudge::judge() {
  VerdictJudge judge;
  bool any_down = false;
  std::uint32_t ready = 0;
  peers_.for_each_awake([&](Peer& peer) {
    if (peer.session.state != SessionState::ready) return;
    ++ready;
    judge.see(evidence_of(peer), peer.index);
    paths_.for_each(peer.paths, [&](const Path& path) { any_down |= path.state != PathState::up; });
  });
  const std::uint16_t dead = judge.dead_local();
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    Verdict verdict{.blame = Blame::local_nic, .nic = static_cast<std::uint8_t>(nic)};
    verdict.reason = nics_[nic].up ? Reason::witnesses : Reason::driver;
    if (!nics_[nic].up || (dead >> nic & 1) != 0) verdicts_.support(verdict, turn_.now());
  }
  peers_.for_each_awake([&](Peer& peer) {
    if (peer.session.state == SessionState::ready) support_by_peer(peer, judge);
  });
  const std::uint16_t alive = judge.alive_local();
  const bool moving = verdicts_.settle(
      turn_.now(), [&](const Verdict& verdict) { return contradiction(verdict, alive); },
      [&](const Verdict& verdict, Event::Kind kind, Reason reason) {
        turn_.emit({.kind = kind,
                    .reason = reason,
                    .blame = verdict.blame,
                    .peer = verdict.peer,
                    .endpoint_id = verdict.endpoint_id,
                    .nic = verdict.nic,
                    .remote_nic = verdict.remote_nic});
      });
  verdicts_.end(turn_.now(), any_down, moving, ready);
}

}  // namespace hawser::proto
