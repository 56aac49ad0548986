// SPDX-License-Identifier: Apache-2.0
// fi_addr_t and PeerId, each found from the other, for one endpoint. The sessions of removed
// addresses go on until places are short: what their peers send is received, as over other
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

  // Connects at the first time. ok: `peer` is set · unknown_peer: no such fi_addr ·
  // invalid_argument: it is the endpoint's own · again: max_peers are in use.
  [[nodiscard]] Status find(fi_addr_t address, PeerId& peer);
  // For a PeerId that the endpoint does not know any more, as its place was another's since:
  // connects anew. False: there is nobody to connect to.
  [[nodiscard]] bool renew(fi_addr_t address, PeerId& peer);
  // FI_ADDR_NOTAVAIL: nobody has inserted its address.
  [[nodiscard]] fi_addr_t source_of(PeerId peer);
  // That a peer goes by this fi_addr, whatever its address.
  void set(fi_addr_t address, PeerId peer);
  // The same of the endpoint's own address, which lives as long as the endpoint.
  void set_own(fi_addr_t address, PeerId peer);
  // A message to this peer or from it has arrived.
  void met(PeerId peer);
  [[nodiscard]] bool has_met(PeerId peer) const;
  // The address was removed.
  void forget(fi_addr_t address);
  // Now and then: somebody who calls may have found no place.
  void tend();

 private:
  struct Known {
    PeerId peer = kAnyPeer;
    fi_addr_t address = FI_ADDR_NOTAVAIL;  // the first of them
    std::uint32_t addresses = 0;           // how many it goes by
    bool is_met = false;
  };
  [[nodiscard]] Status connect(std::span<const std::byte> address, PeerId& peer);
  bool end_leaving();

  using Clock = std::chrono::steady_clock;
  hawser::Endpoint& endpoint_;
  AddressVector& addresses_;
  std::vector<PeerId> peers_;    // by fi_addr
  std::vector<Known> by_place_;  // of a peer
  std::vector<PeerId> leaving_;  // whose address was removed, the oldest first
  std::size_t sweep_at_ = 64;    // so many are looked through for those that have ended
  Clock::time_point tended_at_{};
  PeerId own_ = kAnyPeer;
};

}  // namespace hawser::ofi
