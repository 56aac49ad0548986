// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/range_map.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"

namespace hawser::engine {
namespace {

std::uintptr_t begin_of(const RangeMap::Row& row) { return row.range.begin; }
std::uintptr_t end_of(const RangeMap::Row& row) { return row.range.end; }

}  // namespace

std::span<const RangeMap::Row> RangeMap::holders_of(const PageRange& range) const {
  const auto first = std::ranges::lower_bound(rows_, range.end, {}, end_of);
  const auto after = std::ranges::upper_bound(rows_, range.begin, {}, begin_of);
  return first < after ? std::span(first, after) : std::span<const Row>();
}

std::span<const RangeMap::Row> RangeMap::held_by(const PageRange& range) const {
  const auto first = std::ranges::lower_bound(rows_, range.begin, {}, begin_of);
  const auto after = std::ranges::upper_bound(rows_, range.end, {}, end_of);
  return first < after ? std::span(first, after) : std::span<const Row>();
}

void RangeMap::add(const PageRange& range, std::uint32_t name) {
  HAWSER_ASSERT(rows_.size() < rows_.capacity(), "no room for another range");
  HAWSER_ASSERT(holders_of(range).empty() && held_by(range).empty(), "a range inside another one");
  rows_.insert(std::ranges::upper_bound(rows_, range.begin, {}, begin_of), Row{range, name});
}

void RangeMap::remove(const PageRange& range) {
  const auto found = std::ranges::lower_bound(rows_, range.begin, {}, begin_of);
  HAWSER_ASSERT(found != rows_.end() && found->range == range, "no such range");
  rows_.erase(found);
}

}  // namespace hawser::engine
