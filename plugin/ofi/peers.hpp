// fi_addr_t and PeerId, each found from the other, for one endpoint.
#pragma once

#include <rdma/fabric.h>

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
  // FI_ADDR_NOTAVAIL: nobody has inserted its address.
  [[nodiscard]] fi_addr_t source_of(PeerId peer);
  // That a peer goes by this fi_addr, whatever its address.
  void set(fi_addr_t address, PeerId peer);
  void forget(fi_addr_t address);

 private:
  hawser::Endpoint& endpoint_;
  AddressVector& addresses_;
  std::vector<PeerId> peers_;       // by fi_addr
  std::vector<fi_addr_t> by_peer_;  // by PeerId
};

}  // namespace hawser::ofi
