// SPDX-License-Identifier: Apache-2.0
// The ratios that a comparison of one-sided operations is judged by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/one_sided/plan.hpp"

namespace hawser::bench::one_sided {

// The median of the rounds' ratios, with the first and the third quartile.
struct Ratio {
  double low = 0;
  double middle = 0;
  double high = 0;
};

struct Mark {
  std::string what;
  Point of;    // its figure
  Point than;  // by this one's
  double limit = 0;
  bool at_least = true;  // the ratio has to reach the limit; false: it must not exceed it

  Ratio ratio{};
  [[nodiscard]] bool is_met() const {
    return at_least ? ratio.middle >= limit : ratio.middle <= limit;
  }
};

// Other load in a round slows both points of that round alike. Nothing if a point has no samples.
[[nodiscard]] std::optional<Ratio> ratio_of(const Results& results, const Point& of,
                                            const Point& than);

// The marks whose points were measured.
[[nodiscard]] std::vector<Mark> judge(const Results& results);

}  // namespace hawser::bench::one_sided
