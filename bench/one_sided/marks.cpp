// SPDX-License-Identifier: Apache-2.0
#include "bench/one_sided/marks.hpp"

#include <algorithm>
#include <optional>

namespace hawser::bench::one_sided {

namespace {

constexpr std::size_t kWord = 8;
constexpr std::size_t kLong = 4 << 20;

// The value at that share of the sorted values, by linear interpolation.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<Mark> all_marks() {
  const auto point = [](Kind kind, const char* transport, std::size_t bytes = kWord) {
    return Point{kind, bytes, transport};
  };
  std::vector<Mark> marks{
      {"stream of 4 MiB puts by rxm's", point(Kind::put_stream, "hawser", kLong),
       point(Kind::put_stream, "rxm", kLong), 1.0, true},
      {"stream of 4 MiB puts by rxd's", point(Kind::put_stream, "hawser", kLong),
       point(Kind::put_stream, "rxd", kLong), 12.0, true},
      {"8 B put with a signal, one way, by rxm's", point(Kind::signal, "hawser"),
       point(Kind::signal, "rxm"), 1.0, false},
      {"fetch-add by Hawser's own round trip", point(Kind::fetch_add, "hawser"),
       point(Kind::message, "hawser"), 1.1, false},
      {"the same over memory NICs", point(Kind::fetch_add, "hawser_memory"),
       point(Kind::message, "hawser_memory"), 1.1, false},
  };
  // The target's record of results, and with it the acknowledgement of replies.
  for (const std::string variant : {"_forgets", "_once_or_more"}) {
    for (const std::string name : {"hawser", "hawser_memory"}) {
      marks.push_back({"fetch-add, " + name + " by " + variant,
                       {Kind::fetch_add, kWord, name},
                       {Kind::fetch_add, kWord, name + variant},
                       1.01,
                       false});
      marks.push_back({"stream of fetch-adds, " + name + " by " + variant,
                       {Kind::fetch_add_stream, kWord, name},
                       {Kind::fetch_add_stream, kWord, name + variant},
                       0.99,
                       true});
    }
  }
  return marks;
}

}  // namespace

std::optional<Ratio> ratio_of(const Results& results, const Point& of, const Point& than) {
  const auto above = results.samples.find(of);
  const auto below = results.samples.find(than);
  if (above == results.samples.end() || below == results.samples.end()) return std::nullopt;
  const std::vector<double> values = figures(of, above->second);
  const std::vector<double> others = figures(than, below->second);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(values.size(), others.size()); ++i) {
    ratios.push_back(values[i] / others[i]);
  }
  if (ratios.empty()) return std::nullopt;
  std::ranges::sort(ratios);
  return Ratio{quantile(ratios, 0.25), quantile(ratios, 0.5), quantile(ratios, 0.75)};
}

std::vector<Mark> judge(const Results& results) {
  std::vector<Mark> judged;
  for (Mark& mark : all_marks()) {
    const std::optional<Ratio> ratio = ratio_of(results, mark.of, mark.than);
    if (!ratio) continue;
    mark.ratio = *ratio;
    judged.push_back(std::move(mark));
  }
  return judged;
}

}  // namespace hawser::bench::one_sided
