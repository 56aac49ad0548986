// When a message must have come: liveness in the middle of a storm, not only at its end.
//
// A message waits from the moment at which it and its receive are posted, or, if that is later, at
// which a message last came to its receiver or from its sender: what stands in a queue waits for
// those before it. Of that time only what is undisturbed counts (reasons.hpp). It is bounded
//  - in calm times, when nothing has been at fault at any host for long, by two transfers of all
//    bytes that the two hosts have to do with, and the timers of a session and of a packet;
//  - else by twice that, the longest interval of probes, and the longest one of questions.
// Plans without a mechanism of recovery are not judged: what it is for takes as long as it takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/storm/reasons.hpp"

namespace hawser::sim {

class Liveness {
 public:
  Liveness(const Plan& plan, const Reasons& reasons);

  // A receive got the message at `now`; they were both posted at `posted`. What is wrong with
  // that, or nothing. `judged`: nobody held the message back.
  [[nodiscard]] std::string on_received(std::uint32_t message, proto::Duration posted,
                                        proto::Duration now, bool judged);

 private:
  [[nodiscard]] bool is_calm(proto::Duration from, proto::Duration to) const;
  [[nodiscard]] proto::Duration transfer(std::uint32_t a, std::uint32_t b,
                                         proto::Duration until) const;

  const Plan& plan_;
  const Reasons& reasons_;
  bool judges_ = false;
  std::uint64_t slowest_ = 0;  // cable, in bytes a second
  proto::Duration timers_{};   // of a session and of a packet
  proto::Duration intervals_{};
  std::vector<proto::Duration> sent_;  // by host: when a message of it last came
  std::vector<proto::Duration> got_;   // when one last came to it
};

}  // namespace hawser::sim
