// SPDX-License-Identifier: Apache-2.0
// A bounded queue of 64-bit words between threads: an rte_ring over memory of our own.
//
// It carries commands from application threads to an engine thread, and the indices of free
// operations back. Several threads may push, and pop, at once; in DPDK's "relaxed tail" mode, in
// which a thread that was descheduled in the middle of a push keeps the others from being seen, but
// not from pushing on. What a thread did before it pushed a word is visible to the one that pops
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct rte_ring;

namespace hawser::engine {

class WordRing {
 public:
  enum class Consumers : std::uint8_t { one, many };

  // Holds `capacity` words, 1 to 2^29. With one consumer a push beyond that is refused. With many
  // consumers it may be taken, but a push that fits is never refused, not even while a consumer is
  // held up in the middle of a pop.
  WordRing(std::size_t capacity, Consumers consumers);
  ~WordRing();
  WordRing(const WordRing&) = delete;
  WordRing& operator=(const WordRing&) = delete;

  // All or nothing.
  [[nodiscard]] bool push(std::span<const std::uint64_t> words);
  [[nodiscard]] bool push(std::uint64_t word) { return push(std::span(&word, 1)); }

  // As many as there are, oldest first; with many consumers at most half the capacity, or one.
  [[nodiscard]] std::size_t pop(std::span<std::uint64_t> words);

  // At this moment, if no other thread were at it.
  [[nodiscard]] bool empty() const;
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

 private:
  struct FreeRing {
    void operator()(rte_ring* ring) const;
  };
  std::size_t capacity_;
  std::size_t most_at_once_;
  std::unique_ptr<rte_ring, FreeRing> ring_;
};

}  // namespace hawser::engine
