// SPDX-License-Identifier: Apache-2.0
// Reporter tells the caller what happened to packets, paths and messages. It counts dropped
// packets, turns changes of paths into events, and turns all of it into records for the trace hook
// (hawser/trace.hpp).
//
// Without a hook each report costs a branch. The functions whose names begin with `trace` are for
// callers that have asked Turn::tracing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/events.hpp"
#include "hawser/stats.hpp"
#include "hawser/trace.hpp"
#include "proto/base/slab.hpp"
#include "proto/base/turn.hpp"
#include "proto/message/incoming_message.hpp"
#include "proto/message/outgoing_message.hpp"
#include "proto/path/path.hpp"
#include "proto/path/sent_packets.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

// The common part of records.
[[nodiscard]] TraceRecord record_of(TraceKind kind, const Peer& peer);
[[nodiscard]] TraceRecord record_of(TraceKind kind, const Peer& peer,
                                    const IncomingMessage& message, std::uint32_t fragment);

class Reporter {
 public:
  Reporter(Turn& turn, const PeerTable& peers, const Slab<OutgoingMessage>& outgoing)
      : turn_(turn), peers_(peers), outgoing_(outgoing) {}

  // The packet at hand came over this NIC. Its peer is not known yet.
  void packet_came(std::size_t nic) {
    if (!turn_.tracing()) return;
    nic_ = static_cast<std::uint8_t>(nic);
    peer_ = kNoIndex;
  }
  // The packet at hand came from this peer.
  void packet_is_from(std::uint32_t peer) {
    if (turn_.tracing()) peer_ = peer;
  }
  // The packet at hand changes nothing.
  void drop(DropReason reason) {
    ++turn_.counters.drops[static_cast<std::size_t>(reason)];
    if (turn_.tracing()) trace_drop(reason);
  }

  // A path of the peer has changed.
  void emit(Event::Kind kind, const Peer& peer, const Path& path, Reason reason);

  // Records for the caller to complete.
  [[nodiscard]] TraceRecord traced(TraceKind kind, const Peer& peer, const Path& path) const;
  [[nodiscard]] TraceRecord traced(TraceKind kind, const Peer& peer, const Path& path,
                                   std::uint64_t number, const SentPacket& packet) const;

  void trace_arrival(const Peer& peer, const wire::PacketView& packet, const ReceivePath& path,
                     std::uint64_t number) const;
  void trace_session(const Peer& peer) const;
  void trace_send(TraceKind kind, const OutgoingMessage& message, std::uint8_t cause,
                  std::uint32_t detail) const;
  void trace_receive(TraceKind kind, const IncomingMessage& message, std::uint8_t cause,
                     std::uint32_t fragment, std::uint32_t detail) const;

 private:
  void trace_drop(DropReason reason) const;
  void trace_path(const Event& event, const Peer& peer, const Path& path) const;

  Turn& turn_;
  const PeerTable& peers_;
  const Slab<OutgoingMessage>& outgoing_;
  std::uint8_t nic_ = kNoTraceNic;  // of the packet at hand, and its peer
  std::uint32_t peer_ = kNoIndex;
};

}  // namespace hawser::proto
