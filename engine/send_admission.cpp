#include "engine/send_admission.hpp"

#include <algorithm>
#include <bit>

#include "proto/assert.hpp"

namespace hawser::engine {

SendAdmission::SendAdmission(std::size_t max_peers, std::size_t max_messages_per_peer)
    : limit_(max_messages_per_peer),
      mask_(std::max<std::uint64_t>(64, std::bit_ceil(limit_)) - 1),
      peers_(max_peers),
      finished_(max_peers * (mask_ + 1) / 64) {}

bool SendAdmission::admit(PeerId peer) {
  PeerSends& sends = at(peer);
  std::uint64_t admitted = sends.admitted.load(std::memory_order_relaxed);
  do {
    // The floor only grows: one that is read late refuses too much, never too little.
    const std::uint64_t floor = sends.floor.load(std::memory_order_acquire);
    // Another thread may have moved both since `admitted` was read: then the exchange fails.
    if (admitted >= floor + limit_) return false;
  } while (
      !sends.admitted.compare_exchange_weak(admitted, admitted + 1, std::memory_order_relaxed));
  return true;
}

std::uint64_t SendAdmission::number(PeerId peer) { return at(peer).numbered++; }

void SendAdmission::finish(PeerId peer, std::uint64_t ordinal) {
  PeerSends& sends = at(peer);
  std::uint64_t floor = sends.floor.load(std::memory_order_relaxed);
  HAWSER_ASSERT(ordinal >= floor && ordinal < sends.numbered);
  std::uint64_t* const bits = &finished_[static_cast<std::size_t>(peer) * (mask_ + 1) / 64];
  const auto word = [&](std::uint64_t n) -> std::uint64_t& { return bits[(n & mask_) / 64]; };
  word(ordinal) |= std::uint64_t{1} << (ordinal % 64);
  while (floor < sends.numbered && (word(floor) >> (floor % 64) & 1) != 0) {
    word(floor) &= ~(std::uint64_t{1} << (floor % 64));
    ++floor;
  }
  sends.floor.store(floor, std::memory_order_release);
}

}  // namespace hawser::engine
