// SPDX-License-Identifier: Apache-2.0
// When a plan gives two hosts a reason not to hear each other. The judge compares a session's
// failure by silence with it.
//
// The reasons follow from the plan alone, and err on the side of the protocol. A pair of hosts is
// cut off while no pair of their NICs is whole both ways, or while one of them is away. It also is
// for as long after that as paths that went DOWN may take to be probed. Much loss counts as being
// cut off.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/path/nic_pairs.hpp"
#include "sim/storm/plan.hpp"

namespace hawser::sim {

// A caller listens for four response times after its last call. A peer that has never answered
// counts as having a response time of three initial round trips.
inline constexpr std::uint64_t kListens = 12;

class Reasons {
 public:
  explicit Reasons(const Plan& plan);

  // Whether a host may say at this time of the run that the other one has been silent for as long
  // as it waits. While they are cut off, it probes ever more seldom, so three sixteenths of that
  // time are enough. The other one's absence explains little more than its own length. The host's
  // own absence explains nothing: it must first look at what has come meanwhile, and waits longer.
  [[nodiscard]] bool explain_silence(std::uint32_t host, std::uint32_t other, Status status,
                                     proto::Duration at) const;

  // How much of that time both hosts were present with a whole pair of NICs between them. A pair
  // that no path stands for counts only after the time that the search for it may take.
  [[nodiscard]] proto::Duration undisturbed(std::uint32_t a, std::uint32_t b, proto::Duration from,
                                            proto::Duration to) const;

  // When the host is present, from that time on.
  [[nodiscard]] proto::Duration present_from(std::uint32_t host, proto::Duration at) const;

  // Whether one of the host's NICs has got another address by then.
  [[nodiscard]] bool has_moved(std::uint32_t host, proto::Duration at) const;

 private:
  struct Span {
    proto::Duration from{};
    proto::Duration to{};
  };
  [[nodiscard]] std::size_t pair_of(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] static proto::Duration within(const std::vector<Span>& spans, Span window);
  // `bound`: only pairs that paths stand for count.
  [[nodiscard]] bool is_cut(std::uint32_t a, std::uint32_t b, proto::Duration at, bool bound) const;
  [[nodiscard]] bool is_bound(std::uint32_t a, std::uint32_t i, std::uint32_t b,
                              std::uint32_t j) const;
  [[nodiscard]] proto::Duration search(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] bool is_active(const FaultPlan& fault, proto::Duration at) const;
  [[nodiscard]] bool is_nic_whole(std::uint32_t host, std::uint32_t nic, proto::Duration at) const;
  [[nodiscard]] bool are_nics_whole(std::uint32_t host, proto::Duration at) const;
  [[nodiscard]] bool is_slow_to_ask() const;
  [[nodiscard]] bool may_meet(std::uint32_t a, std::uint32_t i, std::uint32_t b,
                              std::uint32_t j) const;
  [[nodiscard]] bool has_moved_unheard(std::uint32_t host, std::uint32_t other,
                                       proto::Duration patience, proto::Duration at) const;
  [[nodiscard]] proto::Duration own_absence(std::uint32_t host, proto::Duration patience,
                                            proto::Duration at) const;

  const Plan& plan_;
  std::vector<proto::NicPairs> pairs_;  // by pair
  std::vector<std::vector<Span>> cut_;  // by pair
  std::vector<std::vector<Span>>
      searches_;                         // by pair: only pairs that no path stands for are whole
  std::vector<std::vector<Span>> away_;  // by host
};

}  // namespace hawser::sim
