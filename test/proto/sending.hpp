// SPDX-License-Identifier: Apache-2.0
// What a test needs that sends packets without an endpoint: a turn, a peer with two NICs, and a
// sender with two NICs that record what they are given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/service/packet_sender.hpp"
#include "test/support/recording_nic.hpp"
#include "test/support/simple_pool.hpp"

namespace hawser::proto {

inline constexpr std::array kSecret{std::byte{1}, std::byte{2}, std::byte{3}};

inline NicCaps caps_of(std::uint32_t datagram_bytes, std::uint32_t burst, bool needs_checksum) {
  NicCaps caps;
  caps.max_datagram_bytes = datagram_bytes;
  caps.payload_bytes = datagram_bytes;
  caps.burst = burst;
  caps.needs_checksum = needs_checksum;
  caps.receive_bytes = datagram_bytes * 100;
  caps.link_bytes_per_s = 1'000'000'000;
  caps.entropies = 2;
  return caps;
}

// `descriptors`: those of messages without a receive.
inline Tunables few_peers(std::uint64_t descriptors) {
  Tunables tunables;
  tunables.max_peers = 2;
  tunables.fragment_bytes = 4096;
  tunables.max_receive_messages = descriptors;
  return tunables;
}

struct Sending {
  Tunables tunables;
  Turn turn{tunables, 1, 4};
  PeerTable peers{2};
  test::SimplePool pool{4};
  test::RecordingNic first{0, pool, caps_of(4096, 8, true)};
  test::RecordingNic second{1, pool, caps_of(2048, 1, false)};
  std::array<Nic*, 2> given{&first, &second};
  PacketSender sender{turn, peers, given, pool, kSecret};
  Peer& peer = *peers.make(7);

  explicit Sending(std::uint64_t descriptors = 1000) : tunables(few_peers(descriptors)) {
    turn.call(Time{} + milliseconds(1));
    peer.session.remote_nics = 2;
    peer.session.remote_index = 9;
    peer.session.remote_token = 11;
    peers.nic_of(peer, 0).address.bytes[1] = std::byte{20};
    peers.nic_of(peer, 1).address.bytes[1] = std::byte{21};
  }
};

}  // namespace hawser::proto
