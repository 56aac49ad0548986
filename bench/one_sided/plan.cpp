// SPDX-License-Identifier: Apache-2.0
#include "bench/one_sided/plan.hpp"

#include <algorithm>

namespace hawser::bench::one_sided {

namespace {

constexpr std::size_t kWord = 8;

double figure(const Point& point, const Sample& sample) {
  const auto count = static_cast<double>(sample.count);
  switch (row_of(point.kind).unit) {
    case Unit::us: return 1e6 * sample.seconds / count;
    case Unit::us_one_way: return 1e6 * sample.seconds / count / 2;
    case Unit::mb_per_s: return 1e-6 * count * static_cast<double>(point.bytes) / sample.seconds;
    case Unit::million_per_s: break;
  }
  return 1e-6 * count / sample.seconds;
}

}  // namespace

std::size_t Plan::longest() const {
  std::size_t most = kWord;
  for (const auto* list : {&sizes, &stream_sizes}) {
    for (const std::size_t bytes : *list) most = std::max(most, bytes);
  }
  return most;
}

std::vector<std::pair<Kind, std::size_t>> Plan::cells() const {
  std::vector<std::pair<Kind, std::size_t>> made;
  for (const KindRow& row : kKinds) {
    if (std::ranges::find(kinds, row.name) == kinds.end()) continue;
    if (row.kind == Kind::put || row.kind == Kind::get) {
      for (const std::size_t bytes : sizes) made.emplace_back(row.kind, bytes);
    } else if (row.unit == Unit::mb_per_s) {
      for (const std::size_t bytes : stream_sizes) made.emplace_back(row.kind, bytes);
    } else {
      made.emplace_back(row.kind, kWord);
    }
  }
  return made;
}

std::vector<double> figures(const Point& point, std::span<const Sample> samples) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples) values.push_back(figure(point, sample));
  return values;
}

}  // namespace hawser::bench::one_sided
