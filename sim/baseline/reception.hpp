// SPDX-License-Identifier: Apache-2.0
// The receiver of a connection: which packets have come, and what it tells the sender.
#pragma once

#include <deque>
#include <optional>

#include "sim/baseline/ack.hpp"

namespace hawser::baseline {

class Reception {
 public:
  enum class Arrival : std::uint8_t { first, again, discarded };
  struct Outcome {
    Arrival arrival = Arrival::discarded;
    std::optional<Ack> ack;
  };

  // `keeps_early`: see Recovery.
  explicit Reception(bool keeps_early) : keeps_early_(keeps_early) {}

  [[nodiscard]] Outcome take(std::uint32_t number) {
    if (number < expected_) return {Arrival::again, ack(number, false)};
    const bool is_early = number > expected_;
    if (is_early && !keeps_early_) {
      if (has_complained_) return {};
      has_complained_ = true;
      return {Arrival::discarded, ack(number, true)};
    }
    const std::size_t place = number - expected_;
    if (place >= come_.size()) come_.resize(place + 1, false);
    const Arrival arrival = come_[place] ? Arrival::again : Arrival::first;
    come_[place] = true;
    for (; !come_.empty() && come_.front(); ++expected_) {
      come_.pop_front();
      has_complained_ = false;
    }
    return {arrival, ack(number, is_early)};
  }

 private:
  [[nodiscard]] Ack ack(std::uint32_t number, bool is_early) const {
    Ack out{.expected = expected_, .number = number, .is_early = is_early ? 1u : 0u};
    const std::size_t known = come_.size() < Ack::kBits ? come_.size() : Ack::kBits;
    for (std::size_t i = 0; i < known; ++i) {
      if (come_[i]) out.bits[i / 64] |= std::uint64_t{1} << i % 64;
    }
    return out;
  }

  bool keeps_early_;
  bool has_complained_ = false;  // since the expected packet came last
  std::uint32_t expected_ = 0;
  std::deque<bool> come_;  // from `expected_` on
};

}  // namespace hawser::baseline
