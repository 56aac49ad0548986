// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/registration_cache.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"

namespace hawser::engine {

RegistrationCache::RegistrationCache(const RegistrationLimits& limits, Registrar& registrar)
    : limits_(limits), registrar_(registrar), entries_(limits.entries), map_(limits.entries) {
  free_.reserve(limits.entries);
  retiring_.reserve(limits.entries);
  for (std::uint64_t i = limits.entries; i > 0; --i) free_.push_back(static_cast<Slot>(i - 1));
}

void RegistrationCache::send(const void* data, std::uint64_t bytes) {
  if (bytes < limits_.min_bytes) return;
  const PageRange pages = pages_of(data, bytes);
  const auto holders = map_.holders_of(pages);
  const auto ready = std::ranges::find(
      holders, State::ready, [&](const RangeMap::Row& row) { return entries_[row.name].state; });
  if (ready != holders.end()) {
    ++stats_.hits;
    unlink(ready->name);
    link_newest(ready->name);
    return;
  }
  ++stats_.misses;
  if (!holders.empty()) {
    // It was asked for already; or refused, and by now it may succeed.
    const Slot slot = holders.front().name;
    Entry& entry = entries_[slot];
    if (entry.state != State::refused || ++entry.turned_away < kRefusedSends) return;
    free(slot);
    if (!map_.holders_of(pages).empty()) return;
  }
  ask(pages);
}

void RegistrationCache::ask(const PageRange& pages) {
  if (pages.bytes() > limits_.bytes || !take_out_within(pages) || !make_room(pages.bytes())) return;
  const Slot slot = free_.back();
  free_.pop_back();
  Entry& entry = entries_[slot];
  entry = Entry{};
  entry.pages = pages;
  entry.state = State::registering;
  entry.found = true;
  map_.add(pages, slot);
  bytes_ += pages.bytes();
  registrar_.ask(slot, pages);
}

// Returns false if one of them is being registered, which can't be undone.
bool RegistrationCache::take_out_within(const PageRange& pages) {
  const auto within = map_.held_by(pages);
  if (std::ranges::any_of(within, [&](const RangeMap::Row& row) {
        return entries_[row.name].state == State::registering;
      })) {
    return false;
  }
  for (auto left = within.size(); left > 0; --left) {
    const Slot slot = map_.held_by(pages).front().name;
    if (entries_[slot].state == State::refused) {
      free(slot);
    } else {
      retire(slot);
    }
  }
  return true;
}

// Evicts as much as is needed. The room appears later, and the send does not wait for it.
bool RegistrationCache::make_room(std::uint64_t bytes) {
  const auto used = [&] { return entries_.size() - free_.size(); };
  while (used() - leaving_ + 1 > limits_.entries ||
         bytes_ - leaving_bytes_ + bytes > limits_.bytes) {
    if (!evict()) return false;
  }
  return !free_.empty() && bytes_ + bytes <= limits_.bytes;
}

bool RegistrationCache::evict() {
  Slot slot = oldest_;
  for (std::size_t look = 0; look < kEvictionLook && slot != kNone; ++look) {
    if (entries_[slot].state == State::refused) {
      free(slot);
      return true;
    }
    if (!registrar_.is_reading(slot)) {
      ++stats_.evicted;
      retire(slot);
      return true;
    }
    slot = entries_[slot].newer;
  }
  return false;
}

void RegistrationCache::turn() {
  std::erase_if(retiring_, [&](Slot slot) {
    if (registrar_.is_reading(slot)) return false;
    entries_[slot].state = State::dropping;
    registrar_.drop(slot);
    return true;
  });
}

void RegistrationCache::answered(Slot slot, bool registered) {
  Entry& entry = entries_[slot];
  HAWSER_ASSERT(entry.state == State::registering, "an answer without a request");
  if (registered) {
    ++stats_.made;
    entry.state = State::ready;
    link_newest(slot);
    if (!entry.found) retire(slot);
    return;
  }
  ++stats_.refused;
  bytes_ -= entry.pages.bytes();
  entry.state = State::refused;
  ++refused_;
  link_newest(slot);
  if (!entry.found) free(slot);
}

void RegistrationCache::gone(Slot slot) {
  Entry& entry = entries_[slot];
  HAWSER_ASSERT(entry.state == State::dropping, "an entry is gone that was not dropped");
  bytes_ -= entry.pages.bytes();
  leaving_bytes_ -= entry.pages.bytes();
  --leaving_;
  entry.state = State::none;
  free_.push_back(slot);
}

void RegistrationCache::changed(Slot slot) {
  Entry& entry = entries_[slot];
  if (!entry.found || entry.state == State::refused) return;
  ++stats_.stale;
  if (entry.state == State::ready) {
    retire(slot);
  } else {
    hide(entry);
  }
}

void RegistrationCache::retire(Slot slot) {
  Entry& entry = entries_[slot];
  hide(entry);
  unlink(slot);
  registrar_.forget(slot);
  entry.state = State::retiring;
  ++leaving_;
  leaving_bytes_ += entry.pages.bytes();
  retiring_.push_back(slot);
}

void RegistrationCache::free(Slot slot) {
  Entry& entry = entries_[slot];
  HAWSER_ASSERT(entry.state == State::refused, "an entry is freed that was not refused");
  hide(entry);
  unlink(slot);
  --refused_;
  entry.state = State::none;
  free_.push_back(slot);
}

void RegistrationCache::hide(Entry& entry) {
  if (entry.found) map_.remove(entry.pages);
  entry.found = false;
}

void RegistrationCache::link_newest(Slot slot) {
  Entry& entry = entries_[slot];
  entry.older = newest_;
  entry.newer = kNone;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = slot;
  newest_ = slot;
}

void RegistrationCache::unlink(Slot slot) {
  Entry& entry = entries_[slot];
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
}

}  // namespace hawser::engine
