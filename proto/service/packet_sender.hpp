// SPDX-License-Identifier: Apache-2.0
// Packets on the way to the NICs. The sender owns the endpoint's NICs, the pool of header buffers,
// and the drivers' handles for the NICs of peers. It sends a packet where its caller says. The
// caller decides what the packet holds, over which NICs it goes, and whether to repeat it.
//
// Invariant: each buffer that was taken goes to a NIC or back to the pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/base/turn.hpp"
#include "proto/nic.hpp"
#include "proto/path/local_nic.hpp"
#include "proto/path/remote_handles.hpp"
#include "proto/peer/peer_table.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::proto {

// The limits that hold for all NICs of the endpoint, fixed from the start.
struct NicLimits {
  std::uint32_t fragment_bytes = 0;    // the largest payload of a packet that all of them carry
  std::size_t control_bytes = 0;       // the largest control packet
  std::uint64_t receive_bytes = 0;     // the smallest data ring
  std::uint32_t burst_packets = 1;     // the largest burst that one of them likes
  std::uint64_t link_bytes_per_s = 0;  // of all together, nominal
  bool checksum = false;               // one of them has no check of its own
};

// The pairs of NICs that the copies of one packet take.
struct Routes {
  NicPair first;  // the pair that a single packet would take
  std::array<NicPair, kMaxPaths + 1> others{};
  std::size_t other_count = 0;

  // A packet goes over a pair once as `first`, whatever else is added.
  void add(NicPair pair) {
    if (pair != first) others[other_count++] = pair;
  }
};

class PacketSender {
 public:
  // All arguments outlive it, the bytes of the job's secret too.
  PacketSender(Turn& turn, PeerTable& peers, std::span<Nic* const> nics, PacketPool& pool,
               std::span<const std::byte> job_secret);

  // ---- the NICs
  // Other parts of the protocol keep there what they know of each NIC.
  [[nodiscard]] std::span<LocalNic> nics() { return nics_; }
  [[nodiscard]] const NicLimits& limits() const { return limits_; }
  // Called at both ends of each turn, and at once where no turn need follow.
  void flush() {
    for (LocalNic& local : nics_) {
      if (!local.gathers) continue;
      local.gathers = false;
      local.nic->flush();
    }
  }

  // ---- handles for the NICs of peers
  [[nodiscard]] bool can_address(Peer& peer, std::size_t local, std::size_t remote_nic);
  // kNoRemote: the driver knows no way there, or not yet.
  [[nodiscard]] RemoteHandle remote(Peer& peer, NicPair pair);
  // Gives back the handles for one NIC of the peer.
  void close_remotes(Peer& peer, std::size_t remote_nic);

  // ---- header buffers; their contents are arbitrary
  // Null: the pool is empty.
  [[nodiscard]] PacketBuffer* take_buffer() {
    PacketBuffer* buffer = nullptr;
    return pool_.take(std::span(&buffer, 1)) == 1 ? buffer : nullptr;
  }
  // Takes up to `buffers.size()` buffers; returns how many.
  [[nodiscard]] std::size_t take_buffers(std::span<PacketBuffer*> buffers) {
    return pool_.take(buffers);
  }
  void give_buffers(std::span<PacketBuffer* const> buffers) { pool_.give(buffers); }
  [[nodiscard]] std::size_t buffers_in_use() const { return pool_.in_use(); }

  // ---- sending
  // Completes the headers of a packet; returns their bytes.
  std::uint32_t finish(wire::PacketWriter& writer, std::span<const std::byte> payload = {}) const {
    return writer.finish(limits_.checksum, payload);
  }
  // Payload of zeros, at most a full packet's. It lives as long as the sender.
  [[nodiscard]] std::span<const std::byte> padding(std::size_t bytes) const {
    return std::span(padding_).first(bytes);
  }
  // Hands finished packets to a NIC, in order. Returns how many it took. The caller
  // keeps the buffers of the others, and accounts for the packets that were taken
  // (LocalNic::give).
  [[nodiscard]] std::size_t send_burst(std::size_t local, std::span<const TxPacket> packets) {
    const std::size_t taken = nics_[local].nic->tx_burst(packets);
    if (taken > 0) nics_[local].gathers = true;
    return taken;
  }
  // Hands one finished packet to a NIC. False: the NIC is full, and the buffer is in the pool
  // again.
  [[nodiscard]] bool send_one(std::size_t local, const TxPacket& packet);
  // Completes a packet without payload, and sends it to a remote of a NIC. The MAC is written if
  // the packet's type has one. False as above.
  [[nodiscard]] bool send_to(std::size_t local, RemoteHandle remote, PacketBuffer& buffer,
                             wire::PacketWriter& writer);
  // The same to a peer, over all of the routes. Takes the buffer in any case. False: the first
  // route has no way, or its NIC is full; then nothing has left.
  [[nodiscard]] bool send_over(Peer& peer, const Routes& routes, PacketBuffer& buffer,
                               wire::PacketWriter& writer);

 private:
  [[nodiscard]] TxPacket complete(std::size_t local, RemoteHandle remote, PacketBuffer& buffer,
                                  wire::PacketWriter& writer);
  [[nodiscard]] bool send_with_copies(Peer& peer, const Routes& routes, RemoteHandle to,
                                      PacketBuffer& buffer, wire::PacketWriter& writer);
  [[nodiscard]] bool write_copy(Peer& peer, NicPair pair, const PacketBuffer& original,
                                wire::PacketWriter& writer, TxPacket& packet);
  void give_buffer(PacketBuffer* buffer) { pool_.give(std::span(&buffer, 1)); }

  Turn& turn_;
  PeerTable& peers_;
  PacketPool& pool_;
  const std::span<const std::byte> job_secret_;
  std::vector<LocalNic> nics_;
  NicLimits limits_;
  RemoteHandles remotes_;
  std::vector<std::byte> padding_;
};

}  // namespace hawser::proto
