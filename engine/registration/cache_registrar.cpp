// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/cache_registrar.hpp"

#include <utility>

#include "engine/clock.hpp"
#include "engine/registration/mappings.hpp"

namespace hawser::engine {

CacheRegistrar::CacheRegistrar(std::size_t slots, const Pinning& pinning, Userfault& userfault,
                               News& news, std::function<void()> wake)
    : pinning_(pinning),
      userfault_(userfault),
      news_(news),
      wake_(std::move(wake)),
      places_(slots) {}

CacheRegistrar::~CacheRegistrar() {
  for (Place& place : places_) {
    const Stage stage = place.stage.load(std::memory_order_acquire);
    if (stage == Stage::registered || stage == Stage::standing || stage == Stage::dropped) {
      pinning_.forget(place.pins);
      userfault_.unwatch(place.watch);
    }
  }
}

void CacheRegistrar::ask(Slot slot, const PageRange& pages) {
  Place& place = places_[slot];
  place.stale = false;
  place.watch.pages = pages;
  place.watch.news = &news_;
  place.stage.store(Stage::asked, std::memory_order_release);
  wake_();
}

bool CacheRegistrar::is_reading(Slot slot) const { return pinning_.is_reading(places_[slot].pins); }

void CacheRegistrar::forget(Slot slot) { pinning_.forget(places_[slot].pins); }

void CacheRegistrar::drop(Slot slot) {
  places_[slot].stage.store(Stage::dropped, std::memory_order_release);
  wake_();
}

void CacheRegistrar::deliver(RegistrationCache& cache) {
  for (Slot slot = 0; slot < places_.size(); ++slot) {
    Place& place = places_[slot];
    const Stage stage = place.stage.load(std::memory_order_acquire);
    if (stage == Stage::registered) {
      pinning_.use(place.pins);
      place.stage.store(Stage::standing, std::memory_order_relaxed);
      cache.answered(slot, true);
    } else if (stage == Stage::refused || stage == Stage::gone) {
      place.stage.store(Stage::idle, std::memory_order_relaxed);
      stage == Stage::gone ? cache.gone(slot) : cache.answered(slot, false);
      continue;
    } else if (stage != Stage::standing) {
      continue;
    }
    if (!place.stale && place.watch.mapping.changed.load(std::memory_order_acquire)) {
      place.stale = true;
      cache.changed(slot);
    }
  }
}

void CacheRegistrar::serve() {
  bool any = false;
  for (Place& place : places_) {
    const Stage stage = place.stage.load(std::memory_order_acquire);
    if (stage == Stage::asked) {
      const bool good = register_pages(place);
      place.stage.store(good ? Stage::registered : Stage::refused, std::memory_order_release);
    } else if (stage == Stage::dropped) {
      pinning_.unpin(place.pins);
      userfault_.unwatch(place.watch);
      place.stage.store(Stage::gone, std::memory_order_release);
    } else {
      continue;
    }
    any = true;
  }
  if (any) news_.tell();
}

bool CacheRegistrar::register_pages(Place& place) {
  const PageRange& pages = place.watch.pages;
  if (!userfault_.watch(place.watch)) return false;
  // The pages are watched by now, so every change from here on is seen. A removal whose event came
  // before may still be under way: these pages are copied, and asked for again.
  if (!userfault_.was_removed_lately(pages, monotonic_now()) && is_private_memory(pages)) {
    const Status status =
        pinning_.pin_some({pages.data(), pages.bytes()}, &place.watch.mapping, place.pins);
    if (status == Status::ok) return true;
    refusal_.store(status, std::memory_order_relaxed);
  }
  userfault_.unwatch(place.watch);
  return false;
}

Status CacheRegistrar::take_refusal() {
  return refusal_.exchange(Status::ok, std::memory_order_relaxed);
}

}  // namespace hawser::engine
