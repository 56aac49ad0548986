// SPDX-License-Identifier: Apache-2.0
#include "engine/send_admission.hpp"

#include "proto/base/assert.hpp"

namespace hawser::engine {

bool SendAdmission::admit(PeerId peer) {
  std::atomic<std::uint64_t>& unfinished = unfinished_[peer_place(peer)];
  std::uint64_t count = unfinished.load(std::memory_order_relaxed);
  do {
    if (count >= limit_) return false;
  } while (!unfinished.compare_exchange_weak(count, count + 1, std::memory_order_relaxed));
  return true;
}

void SendAdmission::finish(PeerId peer) {
  const std::uint64_t before =
      unfinished_[peer_place(peer)].fetch_sub(1, std::memory_order_relaxed);
  HAWSER_ASSERT(before > 0);
}

}  // namespace hawser::engine
