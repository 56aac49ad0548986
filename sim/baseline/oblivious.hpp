// SPDX-License-Identifier: Apache-2.0
// Sprays that never look at what happened to a packet. In turn: the NICs one after the other, and
// on each NIC its entropies one after the other. Drawn: any of them, with equal probability.
#pragma once

#include "proto/base/assert.hpp"
#include "proto/base/random.hpp"
#include "sim/baseline/spray.hpp"

namespace hawser::baseline {

class InTurn final : public Spray {
 public:
  InTurn(std::uint32_t nics, std::uint32_t entropies) : nics_(nics), entropies_(entropies) {
    HAWSER_ASSERT(nics > 0 && entropies > 0 && entropies <= 1u << 16);
  }
  [[nodiscard]] Way next() override {
    const std::uint64_t n = sent_++;
    return {static_cast<std::uint32_t>(n % nics_),
            static_cast<std::uint16_t>(n / nics_ % entropies_)};
  }

 private:
  std::uint32_t nics_;
  std::uint32_t entropies_;
  std::uint64_t sent_ = 0;
};

class Drawn final : public Spray {
 public:
  Drawn(std::uint32_t nics, std::uint32_t entropies, std::uint64_t seed)
      : nics_(nics), entropies_(entropies), random_(seed) {
    HAWSER_ASSERT(nics > 0 && entropies > 0 && entropies <= 1u << 16);
  }
  [[nodiscard]] Way next() override {
    const std::uint64_t n = random_.below(std::uint64_t{nics_} * entropies_);
    return {static_cast<std::uint32_t>(n % nics_), static_cast<std::uint16_t>(n / nics_)};
  }

 private:
  std::uint32_t nics_;
  std::uint32_t entropies_;
  proto::Random random_;
};

}  // namespace hawser::baseline
