// Charges max_messages_per_peer at the call, so that no send that was accepted waits in the command
// ring for its peer's window while sends to other peers wait behind it.
//
// The protocol limits the span from a peer's oldest unfinished message to its newest. Application
// threads count the sends that they hand over; the engine thread numbers them as they come out of
// the ring, and publishes how many from the beginning have all finished. The difference can only be
// more than the protocol's span, never less: numbers are given later, and floors known later, here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hawser/types.hpp"

namespace hawser::engine {

class SendAdmission {
 public:
  SendAdmission(std::size_t max_peers, std::size_t max_messages_per_peer);

  [[nodiscard]] bool in_range(PeerId peer) const {
    return static_cast<std::size_t>(peer) < peers_.size();
  }

  // Any thread: takes a place, or returns false and nothing happens.
  [[nodiscard]] bool admit(PeerId peer);

  // The engine thread: a send that was admitted comes out of the ring; its ordinal.
  [[nodiscard]] std::uint64_t number(PeerId peer);
  // The engine thread: its final status is known.
  void finish(PeerId peer, std::uint64_t ordinal);

 private:
  struct PeerSends {
    std::atomic<std::uint64_t> admitted{0};
    std::atomic<std::uint64_t> floor{0};  // all ordinals below have finished
    std::uint64_t numbered = 0;
  };
  [[nodiscard]] PeerSends& at(PeerId peer) { return peers_[static_cast<std::size_t>(peer)]; }

  std::uint64_t limit_;
  std::uint64_t mask_;  // of ordinals, to bits: a power of two of at least limit_, minus 1
  std::vector<PeerSends> peers_;
  std::vector<std::uint64_t> finished_;  // a bit an ordinal from the floor on, mask_ + 1 a peer
};

}  // namespace hawser::engine
