// SPDX-License-Identifier: Apache-2.0
// PathJudge decides whose fault it is that paths are DOWN (docs/internals/protocol.md §10). It
// gathers the evidence of all paths, and what contradicts a verdict. verdicts.hpp is the judgement
// itself, and standing_verdicts.hpp keeps the verdicts that stand and the time of the next
// judgement.
#pragma once

#include <cstdint>
#include <span>

#include "hawser/events.hpp"
#include "proto/base/turn.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path_set.hpp"
#include "proto/path/standing_verdicts.hpp"
#include "proto/path/verdicts.hpp"

namespace hawser::proto {

class PathJudge {
 public:
  // All of them outlive it.
  PathJudge(Turn& turn, PeerTable& peers, PathSet& paths, std::span<const LocalNic> nics,
            StandingVerdicts& verdicts)
      : turn_(turn), peers_(peers), paths_(paths), nics_(nics), verdicts_(verdicts) {}

  // Judges anew, and reports the verdicts that are reached or withdrawn.
  void judge();

 private:
  [[nodiscard]] PeerEvidence evidence_of(Peer& peer);
  void support_by_peer(Peer& peer, const VerdictJudge& judge);
  [[nodiscard]] bool any_session();
  [[nodiscard]] Reason contradiction(const Verdict& verdict, std::uint16_t alive_local);

  Turn& turn_;
  PeerTable& peers_;
  PathSet& paths_;
  const std::span<const LocalNic> nics_;
  StandingVerdicts& verdicts_;
};

}  // namespace hawser::proto
