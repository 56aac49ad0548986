// SPDX-License-Identifier: Apache-2.0
// This file is compiled without ThreadSanitizer, which reports rte_ring's inlined ordering in
// assembly as races. HAWSER_THREAD_SANITIZER says that the rest of the program is compiled with it.
// Then annotations here describe the ordering that the ring gives.
#include "engine/word_ring.hpp"

#include <rte_config.h>
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "hawser/engine.hpp"
#include "proto/base/assert.hpp"

#if defined(HAWSER_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#define HAWSER_TELL_RELEASE(address) __tsan_release(address)
#define HAWSER_TELL_ACQUIRE(address) __tsan_acquire(address)
#else
#define HAWSER_TELL_RELEASE(address) static_cast<void>(address)
#define HAWSER_TELL_ACQUIRE(address) static_cast<void>(address)
#endif

namespace hawser::engine {

void WordRing::FreeRing::operator()(rte_ring* ring) const { std::free(ring); }

WordRing::WordRing(std::size_t capacity, Consumers consumers)
    : capacity_(capacity), most_at_once_(capacity) {
  HAWSER_ASSERT(capacity >= 1 && capacity <= std::size_t{1} << 29);
  const bool many = consumers == Consumers::many;
  // A delayed pop keeps the consumers' tail behind their head, by at most the distance set below
  // and one more pop. Those entries are empty but still count as full, hence the double capacity.
  const auto count = static_cast<unsigned>(many ? 2 * capacity : capacity);
  const unsigned flags = RING_F_MP_RTS_ENQ | RING_F_EXACT_SZ |
                         static_cast<unsigned>(many ? RING_F_MC_RTS_DEQ : RING_F_SC_DEQ);
  const unsigned slots = rte_align32pow2(count + 1);
  const ssize_t bytes = rte_ring_get_memsize_elem(sizeof(std::uint64_t), slots);
  HAWSER_ASSERT(bytes > 0);
  const std::size_t whole_lines = (static_cast<std::size_t>(bytes) + RTE_CACHE_LINE_SIZE - 1) /
                                  RTE_CACHE_LINE_SIZE * RTE_CACHE_LINE_SIZE;
  ring_.reset(static_cast<rte_ring*>(std::aligned_alloc(RTE_CACHE_LINE_SIZE, whole_lines)));
  if (ring_ == nullptr) throw std::bad_alloc();
  HAWSER_ASSERT(rte_ring_init(ring_.get(), "words", count, flags) == 0);
  if (many) {
    most_at_once_ = std::max<std::size_t>(1, capacity / 2);
    const auto distance = static_cast<unsigned>(capacity / 2);
    HAWSER_ASSERT(rte_ring_set_cons_htd_max(ring_.get(), distance) == 0);
  }
}

WordRing::~WordRing() = default;

bool WordRing::push(std::span<const std::uint64_t> words) {
  HAWSER_TELL_RELEASE(ring_.get());
  const auto count = static_cast<unsigned>(words.size());
  return rte_ring_enqueue_bulk_elem(ring_.get(), words.data(), sizeof(std::uint64_t), count,
                                    nullptr) == count;
}

std::size_t WordRing::pop(std::span<std::uint64_t> words) {
  const unsigned popped = rte_ring_dequeue_burst_elem(
      ring_.get(), words.data(), sizeof(std::uint64_t),
      static_cast<unsigned>(std::min(words.size(), most_at_once_)), nullptr);
  if (popped > 0) HAWSER_TELL_ACQUIRE(ring_.get());
  return popped;
}

bool WordRing::empty() const { return rte_ring_empty(ring_.get()) != 0; }

}  // namespace hawser::engine
