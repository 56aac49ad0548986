// SPDX-License-Identifier: Apache-2.0
// The parts of a peer that belong to its paths (docs/internals/protocol.md §8 to §10). They say
// which slots have a path, how silence is judged, and what a slot remembers while it has none.
//
// Plain data: the sources of this folder hold the rules.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "proto/base/slab.hpp"
#include "proto/base/time.hpp"
#include "proto/path/path.hpp"

namespace hawser::proto {

// The paths to a peer. Each packet needs them.
struct PeerPaths {
  std::array<std::uint32_t, kMaxPaths> indices{};    // of its paths, or kNoIndex, by slot
  std::array<std::uint32_t, kMaxPaths> receiving{};  // the same for the receive paths
  Time crowded_at{};            // when more than the home paths were last needed
  Time trim_at{};               // when to look for paths that are not needed
  std::uint64_t allowance = 0;  // bytes in flight per remote NIC, as the peer last said
  std::uint16_t unproven = 0;   // a bit for each first slot that must be proven once it is bound
  std::uint16_t bound = 0;      // a bit per slot that has a path
  std::uint16_t nic_news = 0;   // the newest change of our NICs that its paths know (NicNews)
  std::uint8_t pair_count = 0;  // of PeerSlots::pairs
  std::uint8_t turn_slot = 0;   // where the next choice of a path begins
};

// Calls visit(slot) for each slot with a path, lowest first; a visit may bind and release any.
template <class Visit>
void for_each_bound(const PeerPaths& peer, Visit&& visit) {
  for (std::uint32_t slot = 0; peer.bound >> slot != 0; ++slot) {
    slot += static_cast<std::uint32_t>(std::countr_zero(std::uint32_t{peer.bound} >> slot));
    visit(slot);
  }
}

// Calls visit(path) for each path, as above.
template <class Visit>
void for_each_path(Slab<Path>& paths, const PeerPaths& peer, Visit&& visit) {
  for_each_bound(peer, [&](std::uint32_t slot) { visit(paths.at(peer.indices[slot])); });
}

// Silence (§10). The peer would have taken out of its rings whatever was sent until `settled_sent`.
// Whatever arrived by turn `doubt_turn` was sent until `doubt_sent`. A turn that began later and
// emptied the rings settles it.
struct PeerSilence {
  std::uint32_t ack_turn = 0;
  std::uint32_t doubt_turn = 0;
  bool any_turn = false;
  bool acked_in_turn = false;  // gaps and silence are judged once this turn has received everything
  std::uint16_t behind = 0;    // turns, from the newest ACK_INFO
  Time ack_info_at{};          // the newest ACK_INFO
  Time doubt_sent{};
  Duration fastest = kNoSample;  // shortest response time that this turn's acknowledgements show
  Time newest_acked_sent{};
  Time settled_sent{};
};

// The facts of a slot that outlive its binding. Ordinary packets don't need them.
struct PeerSlots {
  std::array<NicPair, kMaxPaths> pairs{};  // of the first slots
  std::array<std::uint8_t, kMaxPaths> generations{};
  std::array<std::uint8_t, kMaxPaths> epochs{};  // of path numbers, in which slots began
  std::uint64_t path_start = 0;                  // the first number of newly bound paths
  std::uint64_t first_remote_number = 0;
};

}  // namespace hawser::proto
