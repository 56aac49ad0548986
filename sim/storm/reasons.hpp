// When a plan gives two hosts a reason not to hear each other: what a session's failure by silence
// is held against.
//
// It follows from the plan alone and errs on the side of the protocol: a pair of hosts is cut off
// while no pair of their NICs is whole both ways, or while one of them is away, and for as long
// after that as paths that went DOWN may take to be probed. Much loss counts as being cut off.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/storm/plan.hpp"

namespace hawser::sim {

class Reasons {
 public:
  explicit Reasons(const Plan& plan);

  // Whether one of them may say at this time of the run that the other has been silent for as long
  // as anybody waits: they were cut off for a quarter of that. Who is heard for three quarters of
  // the time has had many a question answered.
  [[nodiscard]] bool explain_silence(std::uint32_t a, std::uint32_t b, proto::Duration at) const;

 private:
  struct Span {
    proto::Duration from{};
    proto::Duration to{};
  };
  [[nodiscard]] std::vector<Span>& of(std::uint32_t a, std::uint32_t b);
  [[nodiscard]] bool is_cut(std::uint32_t a, std::uint32_t b, proto::Duration at) const;
  [[nodiscard]] bool is_active(const FaultPlan& fault, proto::Duration at) const;
  [[nodiscard]] bool is_nic_whole(std::uint32_t host, std::uint32_t nic, proto::Duration at) const;
  [[nodiscard]] bool has_moved(std::uint32_t host) const;

  const Plan& plan_;
  proto::Duration patience_{};
  std::vector<std::vector<Span>> cut_;  // by pair
};

}  // namespace hawser::sim
