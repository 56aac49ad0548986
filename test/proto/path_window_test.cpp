// SPDX-License-Identifier: Apache-2.0
// PathWindow (proto/base/bitmap.hpp) against a set of all numbers that ever arrived.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <set>

#include "proto/base/bitmap.hpp"
#include "test/support/seeded.hpp"

namespace {

using hawser::proto::PathWindow;
using hawser::proto::Random;
using Arrival = PathWindow::Arrival;

// The model's numbers are offsets from the first one, so it has no wrapping.
struct Model {
  std::set<std::int64_t> arrived;
  std::int64_t largest = -1;

  [[nodiscard]] bool seen(std::int64_t n) const {
    return n < 0 || n <= largest - 1024 || arrived.count(n) != 0;
  }
  PathWindow::Insertion insert(std::int64_t n) {
    if (n <= largest - 1024) return {Arrival::too_old, false};
    if (seen(n)) return {Arrival::duplicate, false};
    const bool gap = n > largest + 1;
    arrived.insert(n);
    largest = std::max(largest, n);
    return {Arrival::fresh, gap};
  }
};

void check_ack(const PathWindow& window, const Model& model, std::uint64_t first,
               std::int64_t oldest, std::size_t room) {
  std::array<std::uint64_t, PathWindow::kWords + 4> words{};
  const std::uint64_t unwritten = 0xabcdef;
  words.fill(unwritten);
  const std::size_t count =
      window.write_ack(first + static_cast<std::uint64_t>(oldest), std::span(words).first(room));
  const std::int64_t back = std::max<std::int64_t>(model.largest - oldest, 0);
  const auto needed = static_cast<std::size_t>(back / 64 + 1);
  REQUIRE(count == std::min({needed, PathWindow::kWords, room}));
  for (std::size_t i = 0; i < 64 * count; ++i) {
    const std::int64_t n = model.largest - static_cast<std::int64_t>(i);
    const bool bit = ((words[i / 64] >> (i % 64)) & 1) != 0;
    REQUIRE(bit == (n < 0 || model.arrived.count(n) != 0));
  }
  for (std::size_t w = count; w < words.size(); ++w) REQUIRE(words[w] == unwritten);
}

std::int64_t draw(Random& random, const Model& model, std::uint64_t style) {
  const auto some = [&](std::uint64_t n) { return static_cast<std::int64_t>(random.below(n)); };
  switch (style) {
    case 0: return model.largest + 1;            // in order
    case 1: return model.largest + 1 + some(4);  // small gaps
    case 2: return model.largest - some(70);     // late or doubled
    case 3: return model.largest - some(1100);   // anywhere, and behind
    case 4: return model.largest + some(200);
    case 5: return model.largest - 1020 - some(8);  // about the window's end
    default: return model.largest + 1000 + some(100);
  }
}

}  // namespace

TEST_CASE("path window: model, across the wrap of 64 bits too") {
  hawser::test::for_each_seed(60, [](Random& random) {
    const std::array<std::uint64_t, 5> firsts{0, 1, 0xffffffffu - 300, ~std::uint64_t{0} - 500,
                                              random.next()};
    const std::uint64_t first = firsts[random.below(firsts.size())];
    PathWindow window(first);
    Model model;
    CHECK(window.largest() == first - 1);
    const std::uint64_t styles = 1 + random.below(7);
    for (int step = 0; step < 2000; ++step) {
      const std::int64_t n = draw(random, model, random.below(styles));
      const std::uint64_t number = first + static_cast<std::uint64_t>(n);
      REQUIRE(window.seen(number) == model.seen(n));
      const PathWindow::Insertion expected = model.insert(n);
      const PathWindow::Insertion got = window.insert(number);
      REQUIRE(static_cast<int>(got.arrival) == static_cast<int>(expected.arrival));
      REQUIRE(got.new_gap == expected.new_gap);
      REQUIRE(window.seen(number));
      REQUIRE(window.largest() == first + static_cast<std::uint64_t>(model.largest));
      if (step % 16 == 0) {
        const auto oldest = model.largest - static_cast<std::int64_t>(random.below(1300)) + 10;
        check_ack(window, model, first, oldest, 1 + random.below(PathWindow::kWords + 4));
      }
    }
  });
}

TEST_CASE("path window: numbers before the first count as seen, so that none can come from there") {
  PathWindow window(100);
  CHECK(window.insert(99).arrival == Arrival::duplicate);
  CHECK(window.insert(100).arrival == Arrival::fresh);
  CHECK_FALSE(window.insert(101).new_gap);
  CHECK(window.insert(103).new_gap);
  CHECK_FALSE(window.insert(102).new_gap);
}

TEST_CASE("path window: the last number of the window is taken, the next one is too old") {
  PathWindow window(0);
  CHECK(window.insert(1024).arrival == Arrival::fresh);
  CHECK(window.insert(1).arrival == Arrival::fresh);
  CHECK(window.insert(1).arrival == Arrival::duplicate);
  CHECK(window.insert(0).arrival == Arrival::too_old);
}

TEST_CASE("path window: restart forgets") {
  PathWindow window(0);
  CHECK(window.insert(5).arrival == Arrival::fresh);
  window.restart(4);
  CHECK(window.largest() == 3);
  CHECK(window.insert(5).arrival == Arrival::fresh);
  CHECK(window.insert(3).arrival == Arrival::duplicate);
}
