#include "plugin/ofi/peers.hpp"

namespace hawser::ofi {
namespace {

template <class Value, class Index>
Value& slot(std::vector<Value>& values, Index index, Value empty) {
  const auto at = static_cast<std::size_t>(index);
  if (at >= values.size()) values.resize(at + 1, empty);
  return values[at];
}

}  // namespace

Status Peers::find(fi_addr_t address, PeerId& peer) {
  if (address < peers_.size() && peers_[address] != kAnyPeer) {
    peer = peers_[address];
    return Status::ok;
  }
  AddressBytes bytes;
  if (!addresses_.find(address, bytes)) return Status::unknown_peer;
  const Status status = endpoint_.connect(unpack_address(bytes), peer);
  if (status == Status::ok) set(address, peer);
  return status;
}

fi_addr_t Peers::source_of(PeerId peer) {
  const auto at = static_cast<std::size_t>(peer);
  if (at < by_peer_.size() && by_peer_[at] != FI_ADDR_NOTAVAIL) return by_peer_[at];
  // Its first message: it called us, not we it.
  PeerStats stats;
  if (endpoint_.peer_stats(peer, stats) != Status::ok) return FI_ADDR_NOTAVAIL;
  const fi_addr_t address = addresses_.find(stats.endpoint_id);
  if (address != FI_ADDR_NOTAVAIL) set(address, peer);
  return address;
}

void Peers::set(fi_addr_t address, PeerId peer) {
  slot(peers_, address, kAnyPeer) = peer;
  fi_addr_t& known = slot(by_peer_, peer, fi_addr_t{FI_ADDR_NOTAVAIL});
  if (known == FI_ADDR_NOTAVAIL) known = address;
}

void Peers::forget(fi_addr_t address) {
  if (address >= peers_.size()) return;
  peers_[address] = kAnyPeer;
  for (fi_addr_t& known : by_peer_) {
    if (known == address) known = FI_ADDR_NOTAVAIL;
  }
}

}  // namespace hawser::ofi
