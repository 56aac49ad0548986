// SPDX-License-Identifier: Apache-2.0
// The wheel compared with a naive list. However far ahead events lie, they come by time, then in
// the order in which they were made.
#include "sim/fabric/event_wheel.hpp"

#include <catch2/catch.hpp>

#include "proto/base/random.hpp"

namespace hawser::fabric {
namespace {

struct Recorder final : Actor {
  std::vector<std::pair<std::int64_t, std::uint32_t>> seen;
  void on_event(Instant now, std::uint32_t what) override { seen.emplace_back(now.ps, what); }
};

TEST_CASE("event_wheel__events_come_in_the_order_of_time_and_then_of_making") {
  // Distances within a bucket, within the wheel, beyond it, and mixed.
  for (const std::uint64_t range : {100ull, 100'000ull, 10'000'000ull, 1'000'000'000'000ull}) {
    EventWheel events;
    Recorder recorder;
    proto::Random random(range);
    std::vector<std::pair<std::int64_t, std::uint32_t>> expected;
    for (std::uint32_t i = 0; i < 5000; ++i) {
      const std::uint64_t most = i % 3 == 0 ? range / 50 : range;
      const auto at = static_cast<std::int64_t>(random.below(most));
      events.at(Instant{at}, recorder, i);
      expected.emplace_back(at, i);
    }
    std::ranges::stable_sort(expected, {}, [](const auto& one) { return one.first; });
    CHECK(events.pending() == 5000);
    CHECK(events.next().ps == expected[0].first);
    events.run();
    CHECK(recorder.seen == expected);
    CHECK(events.done() == 5000);
    CHECK(events.next() == kNever);
  }
}

// Each event makes others: at once, soon, and far ahead. The model is a list that is searched.
struct Maker final : Actor {
  struct Entry {
    std::int64_t time;
    std::uint32_t number;
  };
  EventWheel events;
  proto::Random random{5};
  std::vector<Entry> model;
  std::uint32_t made = 0;
  std::uint64_t wrong = 0;

  void make(std::int64_t in) {
    model.push_back({events.now().ps + std::max<std::int64_t>(in, 0), made});
    events.at(Instant{events.now().ps + in}, *this, made++);
  }
  std::int64_t some_distance() {
    const std::uint64_t kinds[] = {1, 300, 5'000, 4'000'000, 9'000'000, 3'000'000'000};
    return static_cast<std::int64_t>(random.below(kinds[random.below(6)])) - 20;
  }
  void on_event(Instant now, std::uint32_t what) override {
    auto least = model.begin();
    for (auto at = model.begin(); at != model.end(); ++at) {
      if (at->time < least->time || (at->time == least->time && at->number < least->number)) {
        least = at;
      }
    }
    if (least->number != what || least->time != now.ps) ++wrong;
    model.erase(least);
    for (std::uint64_t i = random.below(3); i > 0; --i) {
      if (made < 20'000) make(some_distance());
    }
  }
};

TEST_CASE("event_wheel__events_that_make_events_come_as_in_a_list") {
  Maker maker;
  for (int i = 0; i < 300; ++i) maker.make(maker.some_distance());
  while (!maker.events.empty()) {
    maker.events.step();
    if (maker.made < 20'000 && maker.events.pending() < 50) maker.make(maker.some_distance());
  }
  CHECK(maker.wrong == 0);
  CHECK(maker.model.empty());
  CHECK(maker.made == 20'000);
}

// Looking ahead turns the wheel. An event that is then made for an earlier time still comes first.
TEST_CASE("event_wheel__time_passes_without_events_and_what_is_made_then_is_in_order") {
  EventWheel events;
  Recorder recorder;
  events.at(Instant{50'000'000}, recorder, 1);
  events.run_until(Instant{10'000'000});
  CHECK(events.now() == Instant{10'000'000});
  CHECK(recorder.seen.empty());
  events.at(Instant{20'000'000}, recorder, 2);
  events.at(Instant{5}, recorder, 3);  // already due
  events.at(Instant{50'000'000}, recorder, 4);
  events.at(Instant{49'999'999}, recorder, 5);
  events.run();
  const std::vector<std::pair<std::int64_t, std::uint32_t>> expected{
      {10'000'000, 3}, {20'000'000, 2}, {49'999'999, 5}, {50'000'000, 1}, {50'000'000, 4}};
  CHECK(recorder.seen == expected);
}

}  // namespace
}  // namespace hawser::fabric
