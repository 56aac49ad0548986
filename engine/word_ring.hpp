// SPDX-License-Identifier: Apache-2.0
// A bounded queue of 64-bit words between threads: an rte_ring over memory of our own.
//
// It carries commands from application threads to an engine thread, and the indices of free
// operations back. Several threads may push and pop at once. It uses DPDK's "relaxed tail" mode. A
// thread that was descheduled in the middle of a push then hides later entries, but other threads
// can go on pushing. All writes of a thread before a push are visible to the thread that pops the
// word.
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
  // consumers such a push may succeed. A push that fits always succeeds, even while a consumer is
  // delayed in the middle of a pop.
  WordRing(std::size_t capacity, Consumers consumers);
  ~WordRing();
  WordRing(const WordRing&) = delete;
  WordRing& operator=(const WordRing&) = delete;

  // Pushes all words or none.
  [[nodiscard]] bool push(std::span<const std::uint64_t> words);
  [[nodiscard]] bool push(std::uint64_t word) { return push(std::span(&word, 1)); }

  // Pops as many words as there are, oldest first. With many consumers it pops at most half the
  // capacity, or one.
  [[nodiscard]] std::size_t pop(std::span<std::uint64_t> words);

  // True if the ring is empty at this moment. Other threads may change that at once.
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
