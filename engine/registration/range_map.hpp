// SPDX-License-Identifier: Apache-2.0
// Which of many ranges of pages hold a given one.
//
// Ranges may overlap, but none holds another one: who adds a range first takes out those that it
// holds, and adds none that another one holds. So in the order of their begins they are in the
// order of their ends too: those that hold a given range stand side by side, as do those that it
// holds, and two binary searches find them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/registration/page_range.hpp"

namespace hawser::engine {

class RangeMap {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Row {
    PageRange range;
    std::uint32_t name = kNone;  // whatever the caller says
  };

  explicit RangeMap(std::size_t capacity) { rows_.reserve(capacity); }

  // Those that hold all of `range`, and those that it holds; in order, until the next change.
  [[nodiscard]] std::span<const Row> holders_of(const PageRange& range) const;
  [[nodiscard]] std::span<const Row> held_by(const PageRange& range) const;

  // There is room; no range holds it, and it holds none.
  void add(const PageRange& range, std::uint32_t name);
  // A range that is there.
  void remove(const PageRange& range);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  std::vector<Row> rows_;  // its room is never given up
};

}  // namespace hawser::engine
