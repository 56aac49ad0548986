// SPDX-License-Identifier: Apache-2.0
// The pairs of NICs that the first slots of a session stand for.
//
// Each NIC that can address one at the other end is in a pair, and no NIC is in many more pairs
// than another. If every NIC can address every other, pair i is (i mod L, i mod R) for i below the
// larger of both counts. Both ends come to the same pairs in the same order if addressing works
// both ways: they build the pairs in one orientation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/path/path.hpp"

namespace hawser::proto {

class NicPairs {
 public:
  struct Ends {
    std::size_t local = 0;  // NICs
    std::size_t remote = 0;
    bool local_first = true;  // decides where both have equally many: it differs at the two ends
  };

  // can(local, remote): whether the local NIC can address the remote one. At most `most` pairs.
  template <class Can>
  NicPairs(const Ends& ends, std::size_t most, Can&& can)
      : turned_(ends.local == ends.remote ? !ends.local_first : ends.local < ends.remote),
        most_(std::min(most, kMaxPaths)) {
    const std::size_t rows = turned_ ? ends.remote : ends.local;
    const std::size_t columns = turned_ ? ends.local : ends.remote;
    const auto fits = [&](std::size_t row, std::size_t column) {
      return turned_ ? can(column, row) : can(row, column);
    };
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t column =
          least_used(columns, row, column_uses_, [&](std::size_t i) { return fits(row, i); });
      if (column < columns) add(row, column);
    }
    for (std::size_t column = 0; column < columns; ++column) {
      if (column_uses_[column] > 0) continue;
      const std::size_t row =
          least_used(rows, column, row_uses_, [&](std::size_t i) { return fits(i, column); });
      if (row < rows) add(row, column);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] NicPair operator[](std::size_t i) const { return pairs_[i]; }
  [[nodiscard]] const std::array<NicPair, kMaxPaths>& all() const { return pairs_; }

 private:
  using Uses = std::array<std::uint8_t, kMaxNics>;

  // Returns the fitting one in the fewest pairs. Among equal ones the next from `start` on,
  // wrapping around, wins. `count`: none fits.
  template <class Fits>
  [[nodiscard]] static std::size_t least_used(std::size_t count, std::size_t start,
                                              const Uses& uses, Fits&& fits) {
    std::size_t best = count;
    for (std::size_t step = 0; step < count; ++step) {
      const std::size_t i = (start + step) % count;
      if (fits(i) && (best == count || uses[i] < uses[best])) best = i;
    }
    return best;
  }

  void add(std::size_t row, std::size_t column) {
    ++row_uses_[row];
    ++column_uses_[column];
    if (size_ == most_) return;
    NicPair& pair = pairs_[size_++];
    pair.local = (turned_ ? column : row) % kMaxNics;
    pair.remote = (turned_ ? row : column) % kMaxNics;
  }

  bool turned_;  // rows are the remote NICs
  std::size_t most_;
  std::size_t size_ = 0;
  std::array<NicPair, kMaxPaths> pairs_{};
  Uses row_uses_{};
  Uses column_uses_{};
};

}  // namespace hawser::proto
