// SPDX-License-Identifier: Apache-2.0
// A connection that keeps to one NIC and one entropy, as hardware connections do.
#pragma once

#include "proto/base/random.hpp"
#include "sim/baseline/spray.hpp"

namespace hawser::baseline {

class OneWay final : public Spray {
 public:
  OneWay(std::uint32_t nic, std::uint32_t nics, std::uint64_t seed)
      : nics_(nics), random_(seed), way_{nic, draw()} {}

  [[nodiscard]] Way next() override { return way_; }
  // Moves to the next NIC; a new connection has a new port.
  void move() override { way_ = {(way_.nic + 1) % nics_, draw()}; }

 private:
  [[nodiscard]] std::uint16_t draw() { return static_cast<std::uint16_t>(random_.below(1u << 16)); }

  std::uint32_t nics_;
  proto::Random random_;
  Way way_;
};

}  // namespace hawser::baseline
