// SPDX-License-Identifier: Apache-2.0
// Which pairs of NICs control goes over.
//
// A single packet goes over the pair last heard, unless there is evidence against that pair. Then
// it goes over a path that is UP, or, without one, over any pair. None of this shows that a way is
// dead in one direction, or on the control queue alone; an unanswered question does. Therefore a
// question's first repetition goes over two pairs. Every later one goes over all bound pairs and
// one that is not bound. Such a question *insists* (flag INSISTS): its answer goes over as many
// pairs. Each end then doubts the pair that came first until then: others come before it until
// path_probe_max later.
//
// Per peer and response time, one packet goes over all pairs, be it a question or an answer: many
// at once would fill rings. Others go over two pairs.
//
// Invariants: a pair that has no way is never used. If a packet goes over several pairs, the first
// is the one that a single packet would take.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/path/path.hpp"
#include "proto/peer/peer.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/service/packet_sender.hpp"

namespace hawser::proto {

class ControlRoutes {
 public:
  // All of them outlive it.
  ControlRoutes(Turn& turn, PacketSender& sender, Slab<Path>& paths, TouchedPeers& touched)
      : turn_(turn), sender_(sender), paths_(paths), touched_(touched) {}

  // A new session knows nothing of its routes.
  static void begin_session(Peer& peer);
  // The slot stands for another pair from now on.
  static void forget_slot(Peer& peer, std::uint32_t slot);

  // For a question that was asked `asked` times before. The peer may not know yet where this end is
  // now. Then it hears that again, as it can't answer before.
  [[nodiscard]] Ways ways_of_question(Peer& peer, std::uint32_t asked);
  // For the answer to a question that the peer asked in vain before. A probe (`is_probe`) always
  // comes over the pair of its path, and so its answers went over that pair first. Meanwhile other
  // packets may have been answered over other pairs.
  [[nodiscard]] Ways ways_of_answer(Peer& peer, bool is_probe);

  // The pair for a packet without copies, or the first pair of one with copies.
  [[nodiscard]] NicPair first_of(Peer& peer, Ways ways);
  // The pair itself if it has a way, else any that has.
  [[nodiscard]] NicPair find_way(Peer& peer, NicPair pair);

  // Sends a written packet over one pair or several, and gives the buffer away. False: the first
  // pair has no way, or its NIC is full.
  [[nodiscard]] bool send(Peer& peer, Ways ways, PacketBuffer& buffer, wire::PacketWriter& writer);

 private:
  [[nodiscard]] Routes plan(Peer& peer, Ways ways);
  void doubt_route(Peer& peer, NicPair pair);
  [[nodiscard]] bool may_insist(Peer& peer, NicPair first);
  [[nodiscard]] std::uint32_t doubted_slots(Peer& peer);
  [[nodiscard]] std::optional<NicPair> find_up(Peer& peer, NicPair than, std::uint32_t not_these);
  [[nodiscard]] std::optional<NicPair> other_route(Peer& peer, NicPair than);
  [[nodiscard]] NicPair next_pair(Peer& peer);

  Turn& turn_;
  PacketSender& sender_;
  Slab<Path>& paths_;
  TouchedPeers& touched_;
};

}  // namespace hawser::proto
