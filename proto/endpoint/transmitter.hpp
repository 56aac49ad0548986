// SPDX-License-Identifier: Apache-2.0
// Which peer sends next, over which path, and which fragments. It keeps only the pace of the NICs,
// and work space for packets. transmitter.cpp has the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hawser/stats.hpp"
#include "proto/base/time.hpp"
#include "proto/endpoint/burst.hpp"
#include "proto/message/outgoing_message.hpp"
#include "proto/message/pick.hpp"
#include "proto/nic.hpp"
#include "proto/path/division.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/path.hpp"

namespace hawser::proto {

class Outbox;
class Outgoing;
class PacketSender;
class PathSet;
class PeerTable;
class Reporter;
class Senders;
class Sessions;
class TouchedPeers;
class Turn;
struct Peer;

class Transmitter {
 public:
  // The transmitter works with these. All of them outlive it.
  struct Parts {
    Turn& turn;
    PeerTable& peers;
    PacketSender& sender;
    Reporter& reporter;
    Senders& senders;
    TouchedPeers& touched;
    Outbox& outbox;
    PathSet& paths;
    Outgoing& outgoing;
    Sessions& sessions;
  };
  explicit Transmitter(const Parts& parts);

  // A turn begins, `late_by` after the time that was asked for.
  void begin_turn(Duration late_by) { pace_.late_by = late_by; }
  // The second half of the turn begins; the first one took `took`.
  void begin_second_half(Duration took) { pace_.start(took); }
  // Hands the NICs what may go now, of all peers that have something to send.
  void transmit();
  // The earliest time at which a NIC that has enough to send takes more.
  [[nodiscard]] Time more_at() const { return pace_.data_at; }

 private:
  enum class BurstOutcome : std::uint8_t {
    all,      // nothing waits any more
    more,     // something waits
    blocked,  // windows or paths block the peer
    refused,  // a NIC, the pace or the pool refused something: more in a later turn
  };

  [[nodiscard]] BurstOutcome transmit_burst(Peer& peer, std::uint64_t in_a_row);
  [[nodiscard]] bool is_over_limit(const Path& path) const;
  template <class Policy>
  [[nodiscard]] Path* best_path(Peer& peer, PathState wanted, std::uint64_t want_bytes, bool& any);
  [[nodiscard]] Path* choose_path(Peer& peer, std::uint64_t want_bytes);
  [[nodiscard]] std::size_t burst_limit(Peer& peer, Path& path, std::uint64_t in_a_row);
  void write_fragment(Peer& peer, Path& path, std::uint64_t number, Pick& pick,
                      PacketBuffer& buffer, TxPacket& packet);
  [[nodiscard]] std::span<const std::byte> copy_beside(const OutgoingMessage& message,
                                                       FragmentExtent extent, PacketBuffer& buffer,
                                                       std::size_t room);
  void commit_fragment(Peer& peer, Path& path, const Pick& pick, const TxPacket& packet);
  void burst_left(Peer& peer, Path& path, const Pick& last);
  void take_back(Peer& peer, Path& path, const Pick& pick, const TxPacket& packet);
  [[nodiscard]] BurstOutcome note_refusal();
  [[nodiscard]] static BurstOutcome outcome_of(const Peer& peer);
  [[nodiscard]] BurstOutcome transmit_divided(Peer& peer, std::uint64_t want_bytes,
                                              std::uint64_t most);
  [[nodiscard]] bool begin_division(Peer& peer, std::uint64_t want_bytes);
  [[nodiscard]] std::uint32_t write_divided(Peer& peer, std::uint64_t want_bytes, std::size_t most);
  [[nodiscard]] bool prepare_share(Peer& peer, Share& share, std::size_t more);
  void pace_shares(std::size_t nic, std::uint64_t bytes);
  [[nodiscard]] bool hand_over_rows(Peer& peer);

  Turn& turn_;
  PeerTable& peers_;
  PacketSender& sender_;
  const std::span<LocalNic> nics_;  // the sender's
  Reporter& reporter_;
  Senders& senders_;
  TouchedPeers& touched_;
  Outbox& outbox_;
  PathSet& paths_;
  Outgoing& outgoing_;
  Sessions& sessions_;

  Pace pace_;
  Burst burst_;  // this and the division are work space, made once: clearing them costs kilobytes
  Division division_;
};

}  // namespace hawser::proto
