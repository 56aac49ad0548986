// SPDX-License-Identifier: Apache-2.0
// The registrations that a program makes itself: names, limits, misuse.
//
//   pinning --> standing --> finishing --> (free)
//                   |            ^
//                   '--> leaving '   released while a NIC reads it
//
// Memory that is registered here isn't watched: who registers it says when it ends. Threads: take
// and finish block, and are made by the caller's thread, several at once; begin, end, and turn are
// the datapath's; serve is the helping thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/registration/pinning.hpp"
#include "hawser/types.hpp"

namespace hawser::engine {

class Registrations {
 public:
  // `wake` makes the helping thread call serve. `pinning` outlives this.
  Registrations(std::uint64_t limit, const Pinning& pinning, std::function<void()> wake);

  // Pins the memory. As Endpoint::register_memory and register_dmabuf; the datapath must still
  // begin to use it.
  [[nodiscard]] Status take(const proto::MemoryRange& range, RegistrationId& id, std::string& why);
  // The datapath reads it in place from now on. It was just taken.
  void begin(RegistrationId id);

  enum class End : std::uint8_t { now, when_unread };
  // The datapath forgets it.
  //   ok: finish is to be called, unless it is read: then the helping thread will (`when_unread`
  //   alone) · in_use, unknown_operation: nothing changed.
  [[nodiscard]] Status end(RegistrationId id, End how, bool& finish, std::string& why);
  // Unpins what was ended.
  void finish(RegistrationId id);

  // The datapath's: where a send lies. `torn`: partly in a dma-buf, or in one that is being
  // registered or deregistered; it would have to be copied, which nobody may.
  enum class Place : std::uint8_t { elsewhere, dmabuf, torn };
  [[nodiscard]] Place place_of(const void* data, std::uint64_t bytes) const {
    if (dmabufs_.load(std::memory_order_relaxed) == 0 || bytes == 0) return Place::elsewhere;
    return search(static_cast<const std::byte*>(data), bytes);
  }

  // Hands what is read no more to the helping thread.
  void turn();
  void serve();

  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  enum class State : std::uint8_t { free, pinning, standing, leaving, unread, finishing };
  struct Row {
    State state = State::free;
    std::uint32_t generation = 0;
    const std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
    bool dmabuf = false;
    bool in_use = false;  // by the datapath
    Pins pins{};
  };

  [[nodiscard]] Status reserve(const proto::MemoryRange& range, std::size_t& index,
                               std::string& why);
  [[nodiscard]] Row* find(RegistrationId id);
  [[nodiscard]] Place search(const std::byte* data, std::uint64_t bytes) const;
  void release(Row& row);

  const Pinning& pinning_;
  std::function<void()> wake_;
  std::uint64_t limit_;
  mutable std::mutex mutex_;  // over the rows, and never while something blocks
  std::vector<Row> rows_;     // as many as were ever in use
  std::atomic<std::uint64_t> leaving_{0};
  std::atomic<std::uint64_t> dmabufs_{0};
};

}  // namespace hawser::engine
