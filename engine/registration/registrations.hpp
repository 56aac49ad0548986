// SPDX-License-Identifier: Apache-2.0
// The registrations that a program makes itself: their names, limits, and checks against misuse.
// States of a registration:
//
//   pinning --> standing --> finishing --> (free)
//                   |            ^
//                   '--> leaving '   released while a NIC reads it.
//
// Memory registered here isn't watched: the program itself ends the registration in time. Threads:
// take and finish block, and callers may run them in several threads at once. begin, end and turn
// are for the datapath. serve is for the helping thread.
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

  // Pins the memory, as Endpoint::register_memory and register_dmabuf. The datapath must still
  // begin to use it.
  [[nodiscard]] Status take(const proto::MemoryRange& range, RegistrationId& id, std::string& why);
  // From now on the datapath reads in place from this registration, which take has just returned.
  void begin(RegistrationId id);

  enum class End : std::uint8_t { now, when_unread };
  // Makes the datapath forget the registration.
  //   `ok`: the caller must call finish if `finish` is set. Otherwise a NIC still reads it (only
  //     with `when_unread`), and the helping thread will finish it.
  //   `in_use`, `unknown_operation`: nothing changed.
  [[nodiscard]] Status end(RegistrationId id, End how, bool& finish, std::string& why);
  // Unpins a registration that was ended.
  void finish(RegistrationId id);

  // For the datapath: where a send's bytes lie. `torn`: partly in a dma-buf, or in one that is
  // being registered or deregistered. They would have to be copied, which a dma-buf forbids.
  enum class Place : std::uint8_t { elsewhere, dmabuf, torn };
  [[nodiscard]] Place place_of(const void* data, std::uint64_t bytes) const {
    if (dmabufs_.load(std::memory_order_relaxed) == 0 || bytes == 0) return Place::elsewhere;
    return search(static_cast<const std::byte*>(data), bytes);
  }

  // Passes registrations that are no longer read to the helping thread.
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
    bool in_use = false;  // the datapath uses it
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
  mutable std::mutex mutex_;  // guards the rows; never held while something blocks
  std::vector<Row> rows_;     // as many as were ever in use at once
  std::atomic<std::uint64_t> leaving_{0};
  std::atomic<std::uint64_t> dmabufs_{0};
};

}  // namespace hawser::engine
