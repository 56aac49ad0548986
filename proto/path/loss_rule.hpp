// SPDX-License-Identifier: Apache-2.0
// Whether a packet in flight counts as lost: the policy of loss detection. `find_gaps`
// (loss_detector.cpp) asks it about each packet that a later one of its path overtook, or that the
// receiver requests, and does what the verdict says. A policy is a class like these two:
//
//   OrderAndTime  A path that keeps order: `reorder_packets` later packets have arrived (RFC 9002
//                 §6.1.1), or the packet is too old. Several lanes: it departed too long before one
//                 that arrived (RFC 8985 §6.2), or an answer is overdue. No evidence from order:
//                 an answer is overdue. A request makes each of them less patient.
//   TimeAlone     An answer is overdue (RFC 9002 §6.1.2 without the packet threshold). This is the
//                 comparison in tests: no reordering misleads it, but each loss costs it a round
//                 trip and more.
//
// Both see a path only through its evidence, so a test needs no endpoint. The thresholds are in
// gap_rule.hpp and reordering.hpp. Silence, which condemns a path and not a packet, is no part of
// the policy.
#pragma once

#include <concepts>
#include <cstdint>

#include "proto/base/time.hpp"
#include "proto/path/gap_rule.hpp"
#include "proto/path/reordering.hpp"
#include "proto/path/response_time.hpp"

namespace hawser::proto {

// The state of a path when its packets are judged.
struct PathEvidence {
  const ResponseTime& response;
  const Reordering& reordering;  // of its NIC
  Time now{};
  Time newest{};  // the latest departure among packets that arrived
  Duration granularity{};
  std::uint64_t reorder_packets = 3;  // so many later packets show a loss where order is kept
  bool several_lanes = false;
  bool keeps_order = true;  // there is one lane, and it was never seen to reorder
};

// A packet in flight that a later one overtook, or that the receiver requests.
struct DoubtedPacket {
  Time sent{};
  Time departed{};
  std::uint64_t behind = 0;  // numbers up to the largest acknowledged one; 0: none overtook it
  bool requested = false;
};

struct LossVerdict {
  bool lost = false;
  bool by_order = false;    // an acknowledgement that comes after all shows that the path reorders
  Time ask_again = kNever;  // if not lost yet: when it will be, unless acknowledged before
};

class OrderAndTime {
 public:
  explicit OrderAndTime(const PathEvidence& path)
      : path_(path),
        patience_(gap_patience(path.response)),
        unordered_(unordered_patience(path.response, path.granularity)),
        window_(path.reordering.window(path.response, path.granularity)) {}

  [[nodiscard]] LossVerdict judge(const DoubtedPacket& packet) const {
    const bool overtaken = packet.behind > 0;
    const bool by_order = overtaken && path_.keeps_order;
    const GapVerdict gap = by_order                           ? by_order_kept(packet)
                           : overtaken && path_.several_lanes ? by_departure(packet)
                                                              : by_age(packet);
    return {gap.lost, by_order, gap.ask_again};
  }

 private:
  [[nodiscard]] GapVerdict by_order_kept(const DoubtedPacket& packet) const {
    const std::uint64_t enough = packet.requested ? 1 : path_.reorder_packets;
    return judge_gap(packet.behind, enough, packet.sent, path_.now, patience_);
  }
  [[nodiscard]] GapVerdict by_departure(const DoubtedPacket& packet) const {
    if (packet.requested)
      return judge_age(packet.departed, path_.now, path_.reordering.asked(path_.response));
    return judge_departure(packet.departed, path_.newest, path_.now, window_, unordered_);
  }
  [[nodiscard]] GapVerdict by_age(const DoubtedPacket& packet) const {
    return judge_age(packet.sent, path_.now, unordered_);
  }

  PathEvidence path_;
  Duration patience_;   // where order is kept
  Duration unordered_;  // where it is not
  Duration window_;     // between departures
};

class TimeAlone {
 public:
  explicit TimeAlone(const PathEvidence& path)
      : now_(path.now), patience_(unordered_patience(path.response, path.granularity)) {}

  [[nodiscard]] LossVerdict judge(const DoubtedPacket& packet) const {
    const GapVerdict gap = judge_age(packet.sent, now_, patience_);
    return {gap.lost, false, gap.ask_again};
  }

 private:
  Time now_;
  Duration patience_;
};

template <class Rule>
concept LossRule = std::constructible_from<Rule, const PathEvidence&> &&
    requires(const Rule& rule, const DoubtedPacket& packet) {
  { rule.judge(packet) } -> std::same_as<LossVerdict>;
};
static_assert(LossRule<OrderAndTime> && LossRule<TimeAlone>);

}  // namespace hawser::proto
