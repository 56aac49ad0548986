// SPDX-License-Identifier: Apache-2.0
#include "coll/mix.hpp"

#include <algorithm>

namespace hawser::coll {
namespace {

__extension__ using Wide128 = unsigned __int128;

// The numerator of a schedule's part; all parts have the same denominator.
struct Weight {
  Rank attached = 0;
  std::uint64_t weight = 0;
};

// There are at most as many schedules as bandwidths, and the ring of all.
using Weights = std::array<Weight, kMostBandwidth + 1>;

std::uint32_t weigh(std::span<const Bandwidth> ascending, Weights& weights) noexcept {
  const std::uint64_t p = ascending.size();
  std::uint64_t sum = 0;
  for (const Bandwidth one : ascending) sum += one;
  const std::uint64_t least = ascending.front();
  const bool all_are_busy = least * (2 * p - 2) >= sum;
  std::uint32_t count = 0;
  // Two ranks have only the ring: each must move all data anyway.
  if (p == 2 || ascending.front() == ascending.back()) {
    weights[count++] = {0, 1};
    return count;
  }
  // The factors that all parts have in common are left out: 1 / (C (p-2)), or 1 / (C - p c_1).
  if (all_are_busy) {
    const std::uint64_t ring = p * (least * (2 * p - 2) - sum);
    if (ring > 0) weights[count++] = {0, ring};
  }
  const std::uint64_t factor = all_are_busy ? 2 * p - 2 : 1;
  for (std::uint64_t k = 1; k < p; ++k) {
    const std::uint64_t step = ascending[k] - ascending[k - 1];
    if (step > 0) weights[count++] = {static_cast<Rank>(k), factor * (p - k) * step};
  }
  return count;
}

// Drops the smallest part, whose data goes to the next schedule with fewer attached ranks.
void drop_smallest(Weights& weights, std::uint32_t& count) noexcept {
  const auto end = weights.begin() + count;
  const auto smallest = std::min_element(
      weights.begin(), end, [](const Weight& a, const Weight& b) { return a.weight < b.weight; });
  const auto heir = smallest == weights.begin() ? smallest + 1 : smallest - 1;
  heir->weight += smallest->weight;
  std::move(smallest + 1, end, smallest);
  --count;
}

// A ring, and the way between its members and attached ranks.
std::uint32_t streams_of(Rank attached) noexcept { return attached == 0 ? 1 : 2; }

}  // namespace

std::uint32_t Mix::streams() const noexcept {
  std::uint32_t sum = 0;
  for (const Part& part : parts()) sum += streams_of(part.attached);
  return sum;
}

Mix::Mix(std::span<const Bandwidth> ascending, std::uint64_t elements, std::uint64_t line,
         std::uint32_t most_streams) noexcept {
  Weights weights;
  std::uint32_t count = weigh(ascending, weights);
  const auto streams = [&] {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) sum += streams_of(weights[i].attached);
    return sum;
  };
  while (count > 1 && (count > kMostParts || streams() > most_streams)) {
    drop_smallest(weights, count);
  }
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < count; ++i) total += weights[i].weight;
  std::uint64_t so_far = 0;
  std::uint64_t begin = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    so_far += weights[i].weight;
    const auto exact = static_cast<std::uint64_t>(static_cast<Wide128>(elements) * so_far / total);
    const std::uint64_t end = i + 1 == count ? elements : std::max(begin, exact / line * line);
    if (end > begin) parts_[count_++] = {weights[i].attached, begin, end - begin};
    begin = end;
  }
}

}  // namespace hawser::coll
