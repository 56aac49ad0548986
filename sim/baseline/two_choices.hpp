// SPDX-License-Identifier: Apache-2.0
// UCCL's choice of a path: it draws two, and takes the one whose smoothed round trip is shorter
// (github.com/uccl-project/uccl at da914a20, collective/rdma/transport.cc: select_qpidx_pot;
// rdma_io.h: update_scoreboard_rtt). The weight is kPPEwmaAlpha of include/cc/timely.h. A path that
// was never taken counts with a round trip of 0, and so is taken soon.
#pragma once

#include <vector>

#include "proto/base/assert.hpp"
#include "proto/base/random.hpp"
#include "sim/baseline/spray.hpp"

namespace hawser::baseline {

class TwoChoices final : public Spray {
 public:
  static constexpr double kWeight = 0.125;

  // `paths` over all NICs.
  TwoChoices(std::uint32_t nics, std::uint32_t paths, std::uint64_t seed)
      : nics_(nics), round_trips_(paths, 0.0), random_(seed) {
    HAWSER_ASSERT(nics > 0 && paths > 0 && (paths - 1) / nics < 1u << 16);
  }

  [[nodiscard]] Way next() override {
    const auto first = static_cast<std::uint32_t>(random_.below(round_trips_.size()));
    const auto second = static_cast<std::uint32_t>(random_.below(round_trips_.size()));
    const std::uint32_t path = round_trips_[first] < round_trips_[second] ? first : second;
    return {path % nics_, static_cast<std::uint16_t>(path / nics_)};
  }

  void on_ack(Way way, fabric::Span round_trip, bool) override {
    double& smoothed = round_trips_[way.entropy * nics_ + way.nic];
    smoothed += kWeight * (static_cast<double>(round_trip.ps) - smoothed);
  }

 private:
  std::uint32_t nics_;
  std::vector<double> round_trips_;  // picoseconds
  proto::Random random_;
};

}  // namespace hawser::baseline
