// SPDX-License-Identifier: Apache-2.0
#include "proto/path/verdicts.hpp"

#include <bit>

namespace hawser::proto {
namespace {

template <class Visit>
void for_each_bit(std::uint16_t bits, Visit&& visit) {
  for (; bits != 0; bits = static_cast<std::uint16_t>(bits & (bits - 1))) {
    visit(static_cast<std::size_t>(std::countr_zero(bits)));
  }
}

constexpr std::uint16_t bit(std::size_t i) { return static_cast<std::uint16_t>(1u << i); }

std::uint16_t dead_cells(const PeerEvidence& evidence, std::size_t nic) {
  return static_cast<std::uint16_t>((evidence.down[nic] | evidence.tried[nic]) &
                                    ~evidence.alive[nic]);
}

}  // namespace

void VerdictJudge::see(const PeerEvidence& evidence, std::uint32_t peer) {
  for (std::size_t nic = 0; nic < PeerEvidence::kNics; ++nic) {
    const auto column = static_cast<std::uint32_t>(peer * PeerEvidence::kNics + nic);
    const std::uint16_t alive = evidence.alive[nic];
    alive_ |= alive;
    down_ |= evidence.down[nic];
    for_each_bit(alive, [&](std::size_t local) {
      auto& by = rows_[local].alive_by;
      by[by[0] == kNone ? 0 : 1] = column;
    });
    for_each_bit(dead_cells(evidence, nic), [&](std::size_t local) {
      if ((alive & ~bit(local)) != 0) ++rows_[local].witnesses;
    });
  }
}

std::uint16_t VerdictJudge::dead_local() const {
  std::uint16_t dead = 0;
  for_each_bit(static_cast<std::uint16_t>(down_ & ~alive_), [&](std::size_t local) {
    if (rows_[local].witnesses >= kWitnesses) dead |= bit(local);
  });
  return dead;
}

// Local NICs that a column other than this one shows alive.
std::uint16_t VerdictJudge::alive_elsewhere(std::uint32_t column) const {
  std::uint16_t alive = 0;
  for_each_bit(alive_, [&](std::size_t local) {
    const auto& by = rows_[local].alive_by;
    if (by[0] != column || by[1] != kNone) alive |= bit(local);
  });
  return alive;
}

VerdictJudge::OfPeer VerdictJudge::judge(const PeerEvidence& evidence, std::uint32_t peer) const {
  OfPeer of_peer;
  std::uint16_t any_alive = 0;
  for (const std::uint16_t alive : evidence.alive) any_alive |= alive;
  if (any_alive == 0) return of_peer;
  const std::uint16_t dead_rows = dead_local();
  for (std::size_t nic = 0; nic < PeerEvidence::kNics; ++nic) {
    if (evidence.down[nic] == 0) continue;
    const std::uint16_t elsewhere =
        alive_elsewhere(static_cast<std::uint32_t>(peer * PeerEvidence::kNics + nic));
    const std::uint16_t alive = evidence.alive[nic];
    const auto witnesses = static_cast<std::uint16_t>(dead_cells(evidence, nic) & elsewhere);
    if (alive == 0) {
      if (std::popcount(witnesses) >= static_cast<int>(kWitnesses)) of_peer.dead |= bit(nic);
      continue;
    }
    // The remote NIC is alive by some other local one.
    of_peer.links[nic] =
        static_cast<std::uint16_t>(evidence.down[nic] & ~alive & elsewhere & ~dead_rows);
  }
  return of_peer;
}

}  // namespace hawser::proto
