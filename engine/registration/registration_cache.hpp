// SPDX-License-Identifier: Apache-2.0
// What of the memory that is sent from is kept registered: whole pages, found again by the next
// send from them.
//
// The datapath's, and free of input and output: a Registrar does what blocks. An entry is
//
//   registering --> ready --> retiring --> dropping --> (gone)
//        |  \                    ^
//        |   '--> refused        |  evicted, stale, or within a larger one
//        '--- stale meanwhile ---'
//
//   registering  asked of the registrar; sends from it are copied
//   ready        the NICs read it in place
//   refused      it can't be had: sends are copied, and it is asked for again after so many of them
//   retiring     forgotten by the NICs, which may still read it for sends that have not ended
//   dropping     read by nobody; the registrar ends the registration
//
// Invariants. What a NIC reads is never dropped. All bytes that are or may be pinned (entries of
// every state but `refused`) are within the limit, all entries too: what leaves makes room once it
// is gone, and until then sends are copied. No send waits. Only ready, registering and refused
// entries are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/registration/page_range.hpp"
#include "engine/registration/range_map.hpp"

namespace hawser::engine {

// What the cache has done for it. Calls never block.
class Registrar {
 public:
  using Slot = std::uint32_t;
  virtual ~Registrar() = default;
  // Answered by RegistrationCache::answered. After a good answer NICs read the pages in place.
  virtual void ask(Slot slot, const PageRange& pages) = 0;
  // Whether a NIC may still read the pages, for sends that have not ended.
  [[nodiscard]] virtual bool is_reading(Slot slot) const = 0;
  // No NIC begins to read the pages any more.
  virtual void forget(Slot slot) = 0;
  // Ends the registration, which was forgotten and is not read; answered by gone.
  virtual void drop(Slot slot) = 0;
};

struct RegistrationLimits {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  std::uint64_t min_bytes = 0;  // of a send; what is shorter is copied
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
  // Sends from a refused entry until it is asked for again.
  static constexpr std::uint32_t kRefusedSends = 256;
  // Of the entries unused for longest, how many are looked at for one that nobody reads.
  static constexpr std::size_t kEvictionLook = 16;

  // Slots are 0 to limits.entries - 1. `registrar` outlives this.
  RegistrationCache(const RegistrationLimits& limits, Registrar& registrar);

  // A send of these bytes begins.
  void send(const void* data, std::uint64_t bytes);
  // Drops what is read no more.
  void turn();

  // From the registrar.
  void answered(Slot slot, bool registered);
  void gone(Slot slot);
  // The addresses mean other memory now, or none.
  void changed(Slot slot);

  [[nodiscard]] const RegistrationStats& stats() const { return stats_; }
  // All that is or may be pinned.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // That are pinned, or may be.
  [[nodiscard]] std::size_t registrations() const {
    return entries_.size() - free_.size() - refused_;
  }

 private:
  enum class State : std::uint8_t { none, registering, ready, refused, retiring, dropping };
  static constexpr Slot kNone = RangeMap::kNone;
  struct Entry {
    PageRange pages;
    State state = State::none;
    bool found = false;             // it is in the map
    std::uint32_t turned_away = 0;  // sends, since it was refused
    Slot older = kNone;             // neighbours in the order of use; ready and refused ones
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
  std::uint64_t leaving_bytes_ = 0;  // of these, retiring and dropping
  std::uint64_t leaving_ = 0;        // entries retiring and dropping
  std::uint64_t refused_ = 0;
  RegistrationStats stats_;
};

}  // namespace hawser::engine
