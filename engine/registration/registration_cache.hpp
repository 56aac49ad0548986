// SPDX-License-Identifier: Apache-2.0
// The cache of registrations: it keeps memory of sends registered, in whole pages, for the next
// send from it.
//
// It belongs to the datapath and does no I/O: a Registrar does everything that blocks. States of an
// entry:
//
//   registering --> ready --> retiring --> dropping --> (gone)
//        |  \                    ^
//        |   '--> refused        |  evicted, stale, or within a larger one
//        '--- stale meanwhile ---'
//
//   registering  asked of the registrar; sends from it are copied
//   ready        the NICs read it in place
//   refused      it can't be registered: sends are copied; after some of them it is asked for again
//   retiring     forgotten by the NICs, which may still read it for sends that have not ended
//   dropping     read by nobody; the registrar ends the registration
//
// Invariants. An entry that a NIC reads is never dropped. All bytes that are or may be pinned
// (entries of every state but `refused`) are within the limit, and so is the number of all entries.
// An evicted entry makes room only once it is gone; until then sends are copied. No send waits.
// Look-ups find only ready, registering and refused entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/registration/page_range.hpp"
#include "engine/registration/range_map.hpp"

namespace hawser::engine {

// The cache's interface to the work that blocks. Its calls never block.
class Registrar {
 public:
  using Slot = std::uint32_t;
  virtual ~Registrar() = default;
  // Asks for a registration. RegistrationCache::answered brings the answer. After success NICs read
  // the pages in place.
  virtual void ask(Slot slot, const PageRange& pages) = 0;
  // True if a NIC may still read the pages, for sends that have not ended.
  [[nodiscard]] virtual bool is_reading(Slot slot) const = 0;
  // From now on no NIC begins to read the pages.
  virtual void forget(Slot slot) = 0;
  // Ends a registration that was forgotten and is not read. RegistrationCache::gone confirms it.
  virtual void drop(Slot slot) = 0;
};

struct RegistrationLimits {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t min_bytes = 0;  // shorter sends are copied
};

struct RegistrationStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t made = 0;
  std::uint64_t refused = 0;
  std::uint64_t evicted = 0;
  std::uint64_t stale = 0;
};

class RegistrationCache {
 public:
  using Slot = Registrar::Slot;
  // Sends from a refused entry before it is asked for again.
  static constexpr std::uint32_t kRefusedSends = 256;
  // How many of the least recently used entries to search for one that nobody reads.
  static constexpr std::size_t kEvictionLook = 16;

  // Slots are 0 to limits.entries - 1. `registrar` outlives this.
  RegistrationCache(const RegistrationLimits& limits, Registrar& registrar);

  // A send of these bytes begins.
  void send(const void* data, std::uint64_t bytes);
  // Drops entries that are no longer read.
  void turn();

  // Called for the registrar.
  void answered(Slot slot, bool registered);
  void gone(Slot slot);
  // The addresses now refer to other memory, or to none.
  void changed(Slot slot);

  [[nodiscard]] const RegistrationStats& stats() const { return stats_; }
  // All bytes that are or may be pinned.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Entries that are or may be pinned.
  [[nodiscard]] std::size_t registrations() const {
    return entries_.size() - free_.size() - refused_;
  }

 private:
  enum class State : std::uint8_t { none, registering, ready, refused, retiring, dropping };
  static constexpr Slot kNone = RangeMap::kNone;
  struct Entry {
    PageRange pages;
    State state = State::none;
    bool found = false;             // true: look-ups find it
    std::uint32_t turned_away = 0;  // sends since it was refused
    Slot older = kNone;             // neighbours in the order of use; for ready and refused entries
    Slot newer = kNone;
  };

  void ask(const PageRange& pages);
  [[nodiscard]] bool take_out_within(const PageRange& pages);
  [[nodiscard]] bool make_room(std::uint64_t bytes);
  [[nodiscard]] bool evict();
  void retire(Slot slot);
  void free(Slot slot);
  void hide(Entry& entry);
  void link_newest(Slot slot);
  void unlink(Slot slot);

  RegistrationLimits limits_;
  Registrar& registrar_;
  std::vector<Entry> entries_;
  std::vector<Slot> free_;
  std::vector<Slot> retiring_;
  RangeMap map_;
  Slot oldest_ = kNone;
  Slot newest_ = kNone;
  std::uint64_t bytes_ = 0;
  std::uint64_t leaving_bytes_ = 0;  // of these, in retiring and dropping entries
  std::uint64_t leaving_ = 0;        // number of retiring and dropping entries
  std::uint64_t refused_ = 0;
  RegistrationStats stats_;
};

}  // namespace hawser::engine
