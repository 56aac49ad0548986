// SPDX-License-Identifier: Apache-2.0
// The faults of a run: those that act all the time, and those that happen at a moment.
//
// A moment is a fraction of the run's steps: with 6 steps, 1/3 is the start of the third and 0.4 is
// 40% into it. Each rank applies its own faults when its own replay gets there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::tool {

struct TimedFault {
  enum class Kind : std::uint8_t {
    kill_nic,
    revive_nic,
    degrade_nic,
    blackhole_nic,
    kill_rank,
    restart_rank
  };
  enum class Way : std::uint8_t { tx, rx, both };
  Kind kind = Kind::kill_nic;
  std::optional<std::uint32_t> rank;  // of NIC faults: none means every rank
  std::uint32_t nic = 0;
  double when = 0;                // 0 to 1, of all steps
  bool event = false;             // the NIC's driver reports it; otherwise it is silent
  std::uint64_t bytes_per_s = 0;  // degrade_nic
  Way way = Way::both;            // blackhole_nic: which packets of the NIC are lost

  [[nodiscard]] bool of_nic() const {
    return kind != Kind::kill_rank && kind != Kind::restart_rank;
  }
  [[nodiscard]] bool concerns(std::uint32_t some_rank) const { return !rank || *rank == some_rank; }
};

inline constexpr std::uint64_t kDegradedBytesPerS = 50'000'000;

// Parses "[RANK.]NIC@WHEN[:event]". For degrade_nic the suffix is ":RATE", bytes per second with k,
// M or G; for blackhole_nic it is ":tx", ":rx" or ":both". Throws InputError that names `option`.
[[nodiscard]] TimedFault parse_nic_fault(TimedFault::Kind kind, std::string_view option,
                                         std::string_view text);
// Parses "RANK@WHEN".
[[nodiscard]] TimedFault parse_rank_fault(TimedFault::Kind kind, std::string_view option,
                                          std::string_view text);
[[nodiscard]] std::string_view to_string(TimedFault::Way way);
// Parses "1/3", "0.4", "0"; nothing if it is not from 0 to below 1.
[[nodiscard]] std::optional<double> parse_fraction(std::string_view text);
// Parses "50M".
[[nodiscard]] std::optional<std::uint64_t> parse_rate(std::string_view text);

// The time in which collectives count as during the timed faults of NICs; others count as before or
// after. It lasts from the first fault to the last revival. It has no end while a NIC stays killed,
// degraded or a black hole.
struct FaultWindow {
  double begin = 2;  // fraction of the steps; above 1: there is none
  double end = 2;

  [[nodiscard]] bool exists() const { return begin <= 1; }
};
[[nodiscard]] FaultWindow fault_window(const std::vector<TimedFault>& faults);

enum class When : std::uint8_t { before, during, after };
[[nodiscard]] std::string_view to_string(When when);
// Classifies a collective that ran from one fraction of the steps to another.
[[nodiscard]] When classify(const FaultWindow& window, double begin, double end);

// The word for inject_fault, and the sentence for people.
[[nodiscard]] std::string fault_word(const TimedFault& fault);
[[nodiscard]] std::string describe(const TimedFault& fault);

}  // namespace hawser::tool
