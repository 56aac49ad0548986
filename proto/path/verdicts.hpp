// SPDX-License-Identifier: Apache-2.0
// Which NIC or link is to blame for paths on which nothing passes: a local NIC, a remote one, or
// the link between two (docs/internals/protocol.md §10, hawser/events.hpp).
//
// A pure function of the paths' evidence. It makes two passes over the peers, so that its memory
// doesn't grow with them:
//
//   VerdictJudge judge;
//   for each peer: judge.see(evidence, peer);       // rows, and which local NICs live by whom
//   ... judge.dead_local() ...
//   for each peer: judge.judge(evidence, peer);     // columns and cells
//
// A row is dead if three things hold: none of its cells is alive, one has worked and is down, and
// two of the dead ones are witnesses. A witness's remote NIC is alive by another local one. A
// column is dead likewise, while some other NIC of its peer is alive: a peer that is not heard at
// all says nothing about NICs. A cell that is down, in no dead row or column, is a link's if both
// its NICs are alive elsewhere. A path tried in vain is a witness, but blames nobody: it may never
// have worked. Paths that are idle or in doubt are in no mask.
#pragma once

#include <array>
#include <cstdint>

#include "proto/nic.hpp"

namespace hawser::proto {

// The evidence of the paths to one peer: by remote NIC, a bit per local one.
struct PeerEvidence {
  static constexpr std::size_t kNics = 16;
  std::array<std::uint16_t, kNics> alive{};
  std::array<std::uint16_t, kNics> down{};   // it has worked
  std::array<std::uint16_t, kNics> tried{};  // it never has, and probes were not answered
};

class VerdictJudge {
 public:
  static constexpr std::uint32_t kWitnesses = 2;

  struct OfPeer {
    std::uint16_t dead = 0;                                  // remote NICs, a bit each
    std::array<std::uint16_t, PeerEvidence::kNics> links{};  // as in PeerEvidence
  };

  // First pass; each peer once.
  void see(const PeerEvidence& evidence, std::uint32_t peer);
  // After the first pass, a bit per local NIC.
  [[nodiscard]] std::uint16_t alive_local() const { return alive_; }
  [[nodiscard]] std::uint16_t dead_local() const;
  // Second pass, with the evidence of the first.
  [[nodiscard]] OfPeer judge(const PeerEvidence& evidence, std::uint32_t peer) const;

 private:
  [[nodiscard]] std::uint16_t alive_elsewhere(std::uint32_t column) const;

  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Row {
    std::array<std::uint32_t, 2> alive_by{kNone, kNone};  // two columns: one may be in question
    std::uint32_t witnesses = 0;
  };
  std::array<Row, PeerEvidence::kNics> rows_{};
  std::uint16_t alive_ = 0;
  std::uint16_t down_ = 0;
};

}  // namespace hawser::proto
