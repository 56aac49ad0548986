// SPDX-License-Identifier: Apache-2.0
// Verdicts of an endpoint (docs/internals/protocol.md §10): the evidence of its paths, and what
// contradicts a verdict. verdicts.hpp is the judgement itself, and standing_verdicts.hpp keeps the
// verdicts that stand and the time of the next judgement.
#include <algorithm>
#include <array>

#include "proto/endpoint/core.hpp"
#include "proto/path/verdicts.hpp"

namespace hawser::proto {

void Endpoint::Core::want_verdicts() { verdicts.want(turn.now(), peers.awake()); }

// An UP path is alive if it was heard since a path of either of its NICs went DOWN. Otherwise it is
// UP only because nobody has tried it. Probes that an absent peer does not answer are no evidence:
// only probes count that were in vain though the peer was there.
PeerEvidence Endpoint::Core::evidence_of(Peer& peer) {
  PeerEvidence evidence;
  std::array<Time, kMaxNics> remote_down_at{};
  for_each_path(peer, [&](const Path& path) {
    remote_down_at[path.remote_nic] = later(remote_down_at[path.remote_nic], path.down_at);
  });
  for_each_path(peer, [&](const Path& path) {
    // A driver has reported these dead: their paths add nothing.
    if (!nics[path.local_nic].up || !peers.is_up(peer, path.remote_nic)) return;
    const auto bit = static_cast<std::uint16_t>(1u << path.local_nic);
    if (path.state == PathState::up) {
      const Time doubted =
          later(nics[path.local_nic].path_down_at, remote_down_at[path.remote_nic]);
      if (path.any_acked && path.heard_at >= doubted) evidence.alive[path.remote_nic] |= bit;
    } else if (path.state == PathState::down && path.told_down && path.in_vain > 0) {
      evidence.down[path.remote_nic] |= bit;
    } else if (path.state == PathState::down && !path.told_down && path.in_vain >= kInVain) {
      evidence.tried[path.remote_nic] |= bit;
    }
    for (std::size_t remote = 0; remote < kMaxNics; ++remote) {
      if ((path.tried >> remote & 1) != 0) evidence.tried[remote] |= bit;
    }
  });
  return evidence;
}

void Endpoint::Core::support_by_peer(Peer& peer, const VerdictJudge& judge) {
  const VerdictJudge::OfPeer found = judge.judge(evidence_of(peer), peer.index);
  Verdict verdict{.reason = Reason::witnesses,
                  .peer = peers.id_of(peer),
                  .endpoint_id = peer.identity.remote_id};
  for (std::uint32_t remote = 0; remote < peer.session.remote_nics; ++remote) {
    verdict.remote_nic = static_cast<std::uint8_t>(remote);
    verdict.blame = Blame::remote_nic;
    verdict.nic = 0;
    const bool told = !peers.is_up(peer, remote);
    verdict.reason = told ? Reason::peer_said : Reason::witnesses;
    if (told || (found.dead >> remote & 1) != 0) {
      verdicts.support(verdict, turn.now());
      continue;
    }
    verdict.blame = Blame::link;
    for (std::uint32_t local = 0; local < nics.size(); ++local) {
      if ((found.links[remote] >> local & 1) == 0) continue;
      verdict.nic = static_cast<std::uint8_t>(local);
      verdicts.support(verdict, turn.now());
    }
  }
}

bool Endpoint::Core::any_session() {
  for (std::uint32_t i = 0; i < peers.used(); ++i) {
    if (!peers.is_known(i)) continue;
    const auto state = peers.is_awake(i) ? peers.at(i).session.state : peers.resting(i).state;
    if (state == SessionState::ready) return true;
  }
  return false;
}

// The reason to withdraw a verdict that nothing supports any more. None: it stands.
Reason Endpoint::Core::contradiction(const Verdict& verdict, std::uint16_t alive_local) {
  if (verdict.blame == Blame::local_nic) {
    if (verdict.reason == Reason::driver) return Reason::driver;
    if ((alive_local >> verdict.nic & 1) != 0) return Reason::works_again;
    return any_session() ? Reason::none : Reason::session_ended;
  }
  const std::uint32_t index = peers.index_of(verdict.peer);
  if (index == kNoIndex) return Reason::session_ended;
  if (!peers.is_awake(index)) {  // a peer at rest gives no new evidence
    const RestingPeer& resting = peers.resting(index);
    const bool same_session =
        resting.state == SessionState::ready && resting.remote_id == verdict.endpoint_id;
    return same_session ? Reason::none : Reason::session_ended;
  }
  Peer& peer = peers.at(index);
  if (peer.session.state != SessionState::ready || peer.identity.remote_id != verdict.endpoint_id) {
    return Reason::session_ended;
  }
  if (verdict.reason == Reason::peer_said) return Reason::peer_said;
  const std::uint16_t alive = evidence_of(peer).alive[verdict.remote_nic];
  if (verdict.blame == Blame::remote_nic) {
    return alive != 0 ? Reason::works_again : Reason::none;
  }
  if ((alive >> verdict.nic & 1) != 0) return Reason::works_again;
  return verdicts.explains(verdict) ? Reason::wider_verdict : Reason::none;
}

void Endpoint::Core::judge_paths() {
  VerdictJudge judge;
  bool any_down = false;
  std::uint32_t ready = 0;
  for_each_peer([&](Peer& peer) {
    if (peer.session.state != SessionState::ready) return;
    ++ready;
    judge.see(evidence_of(peer), peer.index);
    for_each_path(peer, [&](const Path& path) { any_down |= path.state != PathState::up; });
  });
  const std::uint16_t dead = judge.dead_local();
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    Verdict verdict{.blame = Blame::local_nic, .nic = static_cast<std::uint8_t>(nic)};
    verdict.reason = nics[nic].up ? Reason::witnesses : Reason::driver;
    if (!nics[nic].up || (dead >> nic & 1) != 0) verdicts.support(verdict, turn.now());
  }
  for_each_peer([&](Peer& peer) {
    if (peer.session.state == SessionState::ready) support_by_peer(peer, judge);
  });
  const std::uint16_t alive = judge.alive_local();
  const bool moving = verdicts.settle(
      turn.now(), [&](const Verdict& verdict) { return contradiction(verdict, alive); },
      [&](const Verdict& verdict, Event::Kind kind, Reason reason) {
        turn.emit({.kind = kind,
                   .reason = reason,
                   .blame = verdict.blame,
                   .peer = verdict.peer,
                   .endpoint_id = verdict.endpoint_id,
                   .nic = verdict.nic,
                   .remote_nic = verdict.remote_nic});
      });
  verdicts.end(turn.now(), any_down, moving, ready);
}

}  // namespace hawser::proto
