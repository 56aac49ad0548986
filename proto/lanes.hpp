// Which entropy each packet of a path takes: its lanes, one after the other, so that all ways
// through the fabric carry the same share of it. A lane of which a packet came back marked with ECN
// CE is passed over once: its way is busier than others, which the turn alone would not notice (the
// bitmap of the Ultra Ethernet Consortium's htsim; REPS, arXiv 2407.21625, recycles the others).
#pragma once

#include <array>
#include <cstdint>

namespace hawser::proto {

inline constexpr std::uint16_t kMostLanes = 128;

class MarkedLanes {
 public:
  // The lane of the next packet, of `lanes`, a power of two up to kMostLanes; `turn` counts. When
  // all are marked none is.
  [[nodiscard]] std::uint8_t next(std::uint16_t lanes, std::uint8_t& turn) {
    for (std::uint16_t i = 0; i < lanes; ++i) {
      const auto lane = static_cast<std::uint8_t>(turn++ & (lanes - 1u));
      std::uint64_t& word = marked_[lane / 64];
      const std::uint64_t bit = std::uint64_t{1} << (lane % 64);
      if ((word & bit) == 0) return lane;
      word &= ~bit;
    }
    return static_cast<std::uint8_t>(turn++ & (lanes - 1u));
  }
  void mark(std::uint8_t lane) { marked_[lane / 64] |= std::uint64_t{1} << (lane % 64); }

 private:
  std::array<std::uint64_t, kMostLanes / 64> marked_{};
};

}  // namespace hawser::proto
