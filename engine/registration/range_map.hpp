// SPDX-License-Identifier: Apache-2.0
// Finds which of many ranges of pages contain a given one.
//
// Ranges may overlap, but none contains another. Before adding a range, the caller removes those
// that it contains, and adds none that another one contains. The order of the begins is therefore
// also the order of the ends. The ranges that contain a given range are neighbours, and so are
// those that it contains, so two binary searches find them.
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
    std::uint32_t name = kNone;  // chosen by the caller
  };

  explicit RangeMap(std::size_t capacity) { rows_.reserve(capacity); }

  // The ranges that contain `range`, and those that it contains, in order. Valid until the next
  // change.
  [[nodiscard]] std::span<const Row> holders_of(const PageRange& range) const;
  [[nodiscard]] std::span<const Row> held_by(const PageRange& range) const;

  // Requires room, and that no range contains this one or is contained in it.
  void add(const PageRange& range, std::uint32_t name);
  // Removes a range, which must be present.
  void remove(const PageRange& range);

  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  std::vector<Row> rows_;  // its capacity never shrinks
};

}  // namespace hawser::engine
