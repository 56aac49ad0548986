// SPDX-License-Identifier: Apache-2.0
// Verdicts of an endpoint (docs/internals/protocol.md §10): the evidence of its paths, the time for
// judging it, and the verdicts that stand. verdicts.hpp is the judgement itself.
//
// Timer: `judge_at`, armed when a path, a NIC or a session changes for the worse. It stays armed
// while a path is DOWN or a verdict stands, but not while all peers rest. The interval grows while
// nothing changes.
//
// A verdict is told once it has lasted for kHold and kLooks judgements. It stands until something
// contradicts it; the loss of a witness is no contradiction.
#include <algorithm>
#include <array>

#include "proto/endpoint/core.hpp"
#include "proto/path/verdicts.hpp"

namespace hawser::proto {

namespace {

constexpr Duration kHold = milliseconds(100);
constexpr std::uint32_t kLooks = 4;
constexpr Duration kFirstLook = milliseconds(10);
constexpr Duration kLastLook = milliseconds(1000);
// Judging walks over all paths. It should take only a small part of a core.
constexpr Duration kPerPeer = microseconds(50);

bool same(const Verdict& a, const Verdict& b) {
  return a.blame == b.blame && a.peer == b.peer && a.nic == b.nic && a.remote_nic == b.remote_nic;
}

}  // namespace

void Endpoint::Core::want_verdicts() {
  judge_interval = kFirstLook;
  judge_at =
      earlier(judge_at, later(turn.now() + judge_interval, judged_at + kPerPeer * peers.awake()));
}

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
    if (!nics[path.local_nic].up || !is_up(peer, path.remote_nic)) return;
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

void Endpoint::Core::support(const Verdict& verdict) {
  const auto end = verdicts.begin() + verdict_count;
  const auto found = std::find_if(verdicts.begin(), end, [&](const StandingVerdict& standing) {
    return same(standing.verdict, verdict);
  });
  if (found != end) {
    found->supported = true;
    ++found->looks;
    return;
  }
  if (verdict_count == verdicts.size()) return;  // more broken links than one can read about
  StandingVerdict& fresh = verdicts[verdict_count++];
  fresh = {.verdict = verdict, .since = turn.now(), .looks = 1, .supported = true};
  fresh.verdict.since_ns = static_cast<std::uint64_t>(turn.now().ns);
}

void Endpoint::Core::support_by_peer(Peer& peer, const VerdictJudge& judge) {
  const VerdictJudge::OfPeer found = judge.judge(evidence_of(peer), index_of(peer));
  Verdict verdict{.reason = Reason::witnesses, .peer = id_of(peer), .endpoint_id = peer.remote_id};
  for (std::uint32_t remote = 0; remote < peer.remote_nics; ++remote) {
    verdict.remote_nic = static_cast<std::uint8_t>(remote);
    verdict.blame = Blame::remote_nic;
    verdict.nic = 0;
    const bool told = !is_up(peer, remote);
    verdict.reason = told ? Reason::peer_said : Reason::witnesses;
    if (told || (found.dead >> remote & 1) != 0) {
      support(verdict);
      continue;
    }
    verdict.blame = Blame::link;
    for (std::uint32_t local = 0; local < nics.size(); ++local) {
      if ((found.links[remote] >> local & 1) == 0) continue;
      verdict.nic = static_cast<std::uint8_t>(local);
      support(verdict);
    }
  }
}

bool Endpoint::Core::any_session() {
  for (std::uint32_t i = 0; i < peers.used(); ++i) {
    if (!peers.is_known(i)) continue;
    const auto state = peers.is_awake(i) ? peers.at(i).state : peers.resting(i).state;
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
  if (peer.state != SessionState::ready || peer.remote_id != verdict.endpoint_id) {
    return Reason::session_ended;
  }
  if (verdict.reason == Reason::peer_said) return Reason::peer_said;
  const std::uint16_t alive = evidence_of(peer).alive[verdict.remote_nic];
  if (verdict.blame == Blame::remote_nic) {
    return alive != 0 ? Reason::works_again : Reason::none;
  }
  if ((alive >> verdict.nic & 1) != 0) return Reason::works_again;
  for (std::size_t i = 0; i < verdict_count; ++i) {
    const Verdict& other = verdicts[i].verdict;
    const bool explains = (other.blame == Blame::local_nic && other.nic == verdict.nic) ||
                          (other.blame == Blame::remote_nic && other.peer == verdict.peer &&
                           other.remote_nic == verdict.remote_nic);
    if (explains && verdicts[i].told) return Reason::wider_verdict;
  }
  return Reason::none;
}

void Endpoint::Core::tell(const StandingVerdict& standing, Event::Kind kind, Reason reason) {
  const Verdict& verdict = standing.verdict;
  turn.emit({.kind = kind,
             .reason = reason,
             .blame = verdict.blame,
             .peer = verdict.peer,
             .endpoint_id = verdict.endpoint_id,
             .nic = verdict.nic,
             .remote_nic = verdict.remote_nic});
}

// True if a verdict was told, withdrawn, or is about to be told.
bool Endpoint::Core::settle_verdicts(std::uint16_t alive_local) {
  bool moving = false;
  for (std::size_t i = 0; i < verdict_count;) {
    StandingVerdict& standing = verdicts[i];
    Reason against = Reason::none;
    if (!standing.supported) against = contradiction(standing.verdict, alive_local);
    if (against != Reason::none || (!standing.supported && !standing.told)) {
      if (standing.told) tell(standing, Event::Kind::verdict_withdrawn, against);
      std::move(verdicts.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                verdicts.begin() + static_cast<std::ptrdiff_t>(verdict_count),
                verdicts.begin() + static_cast<std::ptrdiff_t>(i));
      --verdict_count;
      moving = true;
      continue;
    }
    if (!standing.told) {
      moving = true;
      if (turn.now() - standing.since >= kHold && standing.looks >= kLooks) {
        standing.told = true;
        tell(standing, Event::Kind::verdict_reached, standing.verdict.reason);
      }
    }
    standing.supported = false;
    ++i;
  }
  return moving;
}

void Endpoint::Core::judge_paths() {
  VerdictJudge judge;
  bool any_down = false;
  std::uint32_t ready = 0;
  for_each_peer([&](Peer& peer) {
    if (peer.state != SessionState::ready) return;
    ++ready;
    judge.see(evidence_of(peer), index_of(peer));
    for_each_path(peer, [&](const Path& path) { any_down |= path.state != PathState::up; });
  });
  const std::uint16_t dead = judge.dead_local();
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    Verdict verdict{.blame = Blame::local_nic, .nic = static_cast<std::uint8_t>(nic)};
    verdict.reason = nics[nic].up ? Reason::witnesses : Reason::driver;
    if (!nics[nic].up || (dead >> nic & 1) != 0) support(verdict);
  }
  for_each_peer([&](Peer& peer) {
    if (peer.state == SessionState::ready) support_by_peer(peer, judge);
  });
  const bool moving = settle_verdicts(judge.alive_local());
  judge_at = kNever;
  judged_at = turn.now();
  if (!any_down && (verdict_count == 0 || (ready == 0 && !moving))) return;
  judge_interval = moving ? kFirstLook : std::min(judge_interval * 2, kLastLook);
  judge_at = turn.now() + std::max(judge_interval, kPerPeer * ready);
}

}  // namespace hawser::proto
