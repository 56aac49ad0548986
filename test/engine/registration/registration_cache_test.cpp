// SPDX-License-Identifier: Apache-2.0
// The cache over a registrar that answers when the test says so, and records every request.
#include "engine/registration/registration_cache.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <vector>

#include "test/support/seeded.hpp"

namespace hawser::engine {
namespace {

using Slot = Registrar::Slot;

const std::uintptr_t kPage = page_bytes();

const void* at_page(std::uint64_t page) { return reinterpret_cast<const void*>(page * kPage); }

// Checks that the cache makes its requests in the right order.
class FakeRegistrar final : public Registrar {
 public:
  enum class State { idle, asked, standing, forgotten, dropped };
  struct Place {
    State state = State::idle;
    PageRange pages;
    bool read = false;
    bool stale = false;
  };

  explicit FakeRegistrar(std::size_t slots) : places(slots) {}

  void ask(Slot slot, const PageRange& pages) override {
    REQUIRE(places.at(slot).state == State::idle);
    places[slot] = {State::asked, pages};
  }
  bool is_reading(Slot slot) const override { return places.at(slot).read; }
  void forget(Slot slot) override {
    REQUIRE(places.at(slot).state == State::standing);
    places[slot].state = State::forgotten;
  }
  void drop(Slot slot) override {
    REQUIRE(places.at(slot).state == State::forgotten);
    REQUIRE_FALSE(places[slot].read);
    places[slot].state = State::dropped;
  }

  void answer(RegistrationCache& cache, Slot slot, bool good) {
    places[slot].state = good ? State::standing : State::idle;
    cache.answered(slot, good);
  }
  void end(RegistrationCache& cache, Slot slot) {
    places[slot].state = State::idle;
    cache.gone(slot);
  }
  std::vector<Slot> in(State state) const {
    std::vector<Slot> found;
    for (Slot slot = 0; slot < places.size(); ++slot) {
      if (places[slot].state == state) found.push_back(slot);
    }
    return found;
  }
  std::uint64_t pinned_bytes() const {
    std::uint64_t sum = 0;
    for (const Place& place : places) sum += place.state != State::idle ? place.pages.bytes() : 0;
    return sum;
  }
  bool has(const PageRange& pages) const {
    return std::ranges::any_of(places, [&](const Place& place) {
      return place.state == State::standing && place.pages.holds(pages);
    });
  }

  std::vector<Place> places;
};

using State = FakeRegistrar::State;

struct World {
  explicit World(const RegistrationLimits& limits)
      : registrar(limits.entries), cache(limits, registrar) {}
  void send(std::uint64_t page, std::uint64_t pages = 1) {
    cache.send(at_page(page), pages * kPage);
  }
  // Carries out every request of the cache until there are no more.
  void settle(bool good = true) {
    for (;;) {
      cache.turn();
      const auto asked = registrar.in(State::asked);
      const auto dropped = registrar.in(State::dropped);
      if (asked.empty() && dropped.empty()) return;
      for (const Slot slot : asked) registrar.answer(cache, slot, good);
      for (const Slot slot : dropped) registrar.end(cache, slot);
    }
  }
  bool hits(std::uint64_t page, std::uint64_t pages = 1) {
    const std::uint64_t before = cache.stats().hits;
    send(page, pages);
    return cache.stats().hits > before;
  }

  FakeRegistrar registrar;
  RegistrationCache cache;
};

RegistrationLimits limits(std::uint64_t pages, std::uint64_t entries) {
  return {pages * kPage, entries, 1};
}

// Takes one random step, and counts the sends.
void step(World& world, proto::Random& random, std::uint64_t& sends) {
  FakeRegistrar& registrar = world.registrar;
  const auto one_of = [&](State state) {
    const auto found = registrar.in(state);
    return found.empty() ? ~Slot{0} : found[random.below(found.size())];
  };
  const std::uint64_t kind = random.below(10);
  if (kind < 4) {
    const PageRange pages = pages_of(at_page(random.below(30)), (1 + random.below(8)) * kPage);
    const bool there = registrar.has(pages);
    const RegistrationStats before = world.cache.stats();
    world.cache.send(pages.data(), pages.bytes());
    ++sends;
    REQUIRE(world.cache.stats().hits - before.hits == (there ? 1 : 0));
    REQUIRE(world.cache.stats().misses - before.misses == (there ? 0 : 1));
  } else if (kind == 4) {
    if (const Slot slot = one_of(State::asked); slot != ~Slot{0}) {
      registrar.answer(world.cache, slot, random.chance(0.8));
    }
  } else if (kind == 5) {
    if (const Slot slot = one_of(State::dropped); slot != ~Slot{0}) {
      registrar.end(world.cache, slot);
    }
  } else if (kind == 6) {
    if (const Slot slot = one_of(State::standing); slot != ~Slot{0}) {
      registrar.places[slot].read = true;
    }
  } else if (kind == 7) {
    for (auto& place : registrar.places) place.read = place.read && random.chance(0.5);
  } else if (kind == 8) {
    const State state = random.chance(0.5) ? State::standing : State::asked;
    if (const Slot slot = one_of(state); slot != ~Slot{0} && random.chance(0.3)) {
      world.cache.changed(slot);
      if (state == State::standing) REQUIRE(registrar.places[slot].state == State::forgotten);
      registrar.places[slot].stale = true;
    }
  } else {
    world.cache.turn();
  }
}

}  // namespace

TEST_CASE("RegistrationCache__keeps_its_limits_and_drops_nothing_that_is_read") {
  RegistrationStats all;
  test::for_each_seed(400, [&](proto::Random& random) {
    const RegistrationLimits bounds = limits(4 + random.below(40), 1 + random.below(8));
    World world(bounds);
    std::uint64_t sends = 0;
    for (int i = 0; i < 600; ++i) {
      step(world, random, sends);
      REQUIRE(world.registrar.pinned_bytes() <= bounds.bytes);
      REQUIRE(world.cache.bytes() == world.registrar.pinned_bytes());
      REQUIRE(world.cache.registrations() ==
              bounds.entries - world.registrar.in(State::idle).size());
      // Memory that went stale while it was being registered is never read.
      for (const auto& place : world.registrar.places) {
        if (place.stale) REQUIRE(place.state != State::standing);
      }
    }
    const RegistrationStats& stats = world.cache.stats();
    REQUIRE(stats.hits + stats.misses == sends);
    all.hits += stats.hits;
    all.evicted += stats.evicted;
    all.stale += stats.stale;
    all.refused += stats.refused;
    // The cache leaves nothing behind: once all is stale, nothing is registered.
    for (auto& place : world.registrar.places) place.read = false;
    world.settle();
    for (const Slot slot : world.registrar.in(State::standing)) world.cache.changed(slot);
    world.settle();
    REQUIRE(world.cache.bytes() == 0);
    REQUIRE(world.cache.registrations() == 0);
    REQUIRE(world.registrar.in(State::idle).size() == bounds.entries);
  });
  CHECK(all.hits > 0);
  CHECK(all.evicted > 0);
  CHECK(all.stale > 0);
  CHECK(all.refused > 0);
}

TEST_CASE("RegistrationCache__a_send_never_waits_and_the_next_one_finds_it") {
  World world(limits(16, 4));
  CHECK_FALSE(world.hits(3, 2));
  CHECK_FALSE(world.hits(3, 2));  // still pending: not requested twice
  CHECK(world.registrar.in(State::asked).size() == 1);
  world.settle();
  CHECK(world.hits(3, 2));
  CHECK(world.hits(4));
  CHECK_FALSE(world.hits(4, 2));
}

TEST_CASE("RegistrationCache__short_sends_and_those_beyond_the_limit_are_not_asked_for") {
  World world({4 * kPage, 4, 2 * kPage});
  world.cache.send(at_page(1), 2 * kPage - 1);
  CHECK(world.cache.stats().misses == 0);
  world.send(1, 5);
  CHECK(world.cache.stats().misses == 1);
  CHECK(world.registrar.in(State::asked).empty());
  world.send(1, 2);
  CHECK(world.registrar.in(State::asked).size() == 1);
}

TEST_CASE("RegistrationCache__what_was_not_used_for_longest_makes_room_unless_it_is_read") {
  World world(limits(3, 8));
  for (const std::uint64_t page : {10, 20, 30}) world.send(page);
  world.settle();
  REQUIRE(world.hits(10));
  REQUIRE(world.hits(20));
  world.send(40);  // 30 is the oldest
  world.settle();
  CHECK(world.cache.stats().evicted == 1);
  CHECK_FALSE(world.registrar.has(pages_of(at_page(30), 1)));
  world.send(40);  // now there is room
  world.settle();
  CHECK(world.hits(40));
  for (auto& place : world.registrar.places) place.read = place.pages.begin == 10 * kPage;
  world.send(50);  // 10 is the oldest, but in use
  world.settle();
  CHECK(world.registrar.has(pages_of(at_page(10), 1)));
  CHECK_FALSE(world.registrar.has(pages_of(at_page(20), 1)));
  for (auto& place : world.registrar.places) place.read = true;
  const std::uint64_t evicted = world.cache.stats().evicted;
  world.send(60, 3);  // nothing may be evicted
  CHECK(world.cache.stats().evicted == evicted);
}

TEST_CASE("RegistrationCache__a_larger_range_takes_the_place_of_those_within") {
  World world(limits(32, 8));
  world.send(10, 2);
  world.send(12, 2);
  world.send(20, 2);
  world.settle();
  world.send(9, 6);
  CHECK(world.registrar.in(State::forgotten).size() == 2);
  world.settle();
  CHECK(world.hits(10, 4));
  CHECK(world.hits(20, 2));
  CHECK(world.cache.registrations() == 2);
}

TEST_CASE("RegistrationCache__what_is_refused_is_asked_for_again_after_many_sends") {
  World world(limits(8, 2));
  world.send(5);
  world.settle(false);
  CHECK(world.cache.bytes() == 0);
  for (std::uint32_t i = 1; i < RegistrationCache::kRefusedSends; ++i) world.send(5);
  CHECK(world.registrar.in(State::asked).empty());
  world.send(5);
  CHECK(world.registrar.in(State::asked).size() == 1);
}

}  // namespace hawser::engine
