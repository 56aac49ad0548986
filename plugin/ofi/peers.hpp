// SPDX-License-Identifier: Apache-2.0
// Maps fi_addr_t and PeerId to each other, for one endpoint. Sessions of removed addresses go on
// until places are short. Until then messages from their peers are received, as with other
// providers.
#pragma once

#include <rdma/fabric.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "hawser/engine.hpp"
#include "plugin/ofi/address_vector.hpp"

namespace hawser::ofi {

class Peers {
 public:
  Peers(hawser::Endpoint& endpoint, AddressVector& addresses)
      : endpoint_(endpoint), addresses_(addresses) {}

  // Finds the peer of an address, and connects at the first time.
  //   `ok`: `peer` is set.
  //   `unknown_peer`: no such fi_addr.
  //   `invalid_argument`: it is the endpoint's own.
  //   `again`: max_peers are in use.
  [[nodiscard]] Status find(fi_addr_t address, PeerId& peer);
  // Connects again if the endpoint no longer knows the PeerId, because its place went to another
  // peer. Returns false if there is no address to connect to.
  [[nodiscard]] bool renew(fi_addr_t address, PeerId& peer);
  // Returns FI_ADDR_NOTAVAIL if the peer's address was never inserted.
  [[nodiscard]] fi_addr_t source_of(PeerId peer);
  // Assigns this fi_addr to a peer, whatever its address.
  void set(fi_addr_t address, PeerId peer);
  // The same for the endpoint's own address, which lives as long as the endpoint.
  void set_own(fi_addr_t address, PeerId peer);
  // A message to or from this peer has arrived.
  void met(PeerId peer);
  [[nodiscard]] bool has_met(PeerId peer) const;
  // The address was removed.
  void forget(fi_addr_t address);
  // Call it now and then: a calling peer may have found no place.
  void tend();

 private:
  struct Known {
    PeerId peer = kAnyPeer;
    fi_addr_t address = FI_ADDR_NOTAVAIL;  // the first of them
    std::uint32_t addresses = 0;           // number of fi_addrs that refer to it
    bool is_met = false;
  };
  [[nodiscard]] Status connect(std::span<const std::byte> address, PeerId& peer);
  bool end_leaving();

  using Clock = std::chrono::steady_clock;
  hawser::Endpoint& endpoint_;
  AddressVector& addresses_;
  std::vector<PeerId> peers_;    // by fi_addr
  std::vector<Known> by_place_;  // by the peer's place
  std::vector<PeerId> leaving_;  // peers whose address was removed, the oldest first
  std::size_t sweep_at_ = 64;    // at this length, ended ones are removed
  Clock::time_point tended_at_{};
  PeerId own_ = kAnyPeer;
};

}  // namespace hawser::ofi
