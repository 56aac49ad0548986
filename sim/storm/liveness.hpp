// SPDX-License-Identifier: Apache-2.0
// Liveness in the middle of a storm: how long a message may take while a way is open.
//
// The wait of a message begins when both it and its receive are posted. Messages queue behind each
// other. The wait therefore begins again when its receiver gets another message, or another message
// of its sender arrives. It also does when room is made in a store that may have turned away an
// older message. Only undisturbed time counts (reasons.hpp). Two bounds hold:
//  - In calm times (never where places are few) no host has had a fault for long. The wait is then
//    at most the sum of three parts. The first is two transfers of all bytes that either host sends
//    or receives, one-sided operations and their replies too, or twice the turns that it takes to
//    send as many packets. The second is a round trip for each time that the window doubles until
//    it covers the message. If the hosts can't measure as short a delay as the window's target, it
//    is a round trip for each two packets. The third is the timers of a handshake and of a packet,
//    and the time by which packets were overtaken before.
//  - Otherwise the longest intervals between probes and between questions are added to that sum,
//    and the wait is at most twice the total. If the session was established during the wait, its
//    calls may have tried every other pair of NICs before the one that works. The time that calls
//    take to try all pairs is added.
// A plan that switches a mechanism of recovery off is not judged: it gives up the speed that the
// mechanism is there for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/storm/reasons.hpp"

namespace hawser::sim {

class Liveness {
 public:
  Liveness(const Plan& plan, const Reasons& reasons);

  struct Arrival {
    std::uint32_t message = 0;
    proto::Duration posted{};       // since when both the message and its receive exist
    proto::Duration established{};  // when the later end of its session became READY
    proto::Duration now{};
    bool judged = false;  // neither a claim nor the end of a session delayed it
  };
  // A receive got a message. Returns what is wrong with that, or an empty text.
  [[nodiscard]] std::string on_received(const Arrival& arrival);

 private:
  [[nodiscard]] bool is_calm(proto::Duration from, proto::Duration to) const;
  [[nodiscard]] proto::Duration answers(const MessagePlan& message) const;
  [[nodiscard]] proto::Duration transfer(std::uint32_t a, std::uint32_t b,
                                         proto::Duration until) const;
  [[nodiscard]] proto::Duration overtaken(proto::Duration until) const;
  [[nodiscard]] proto::Duration calls(std::uint32_t a, std::uint32_t b) const;

  const Plan& plan_;
  const Reasons& reasons_;
  bool judges_ = false;
  std::uint64_t slowest_ = 0;  // cable, in bytes a second
  proto::Duration timers_{};   // of a session and of a packet
  proto::Duration trip_{};     // from a packet to its acknowledgement, over two switches at most,
                               // without the time that a host takes to wake up
  proto::Duration intervals_{};
  std::vector<proto::Duration> sent_;  // by host: when a message of it last came
  std::vector<proto::Duration> got_;   // when one last came to it
};

}  // namespace hawser::sim
