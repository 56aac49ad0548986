// SPDX-License-Identifier: Apache-2.0
// The verdicts that stand, and when the next judgement is due (docs/internals/protocol.md §10).
// verdicts.hpp is the judgement itself; path_judge.cpp gathers its evidence.
//
// A verdict is told once it has lasted for kHold and kLooks judgements. It stands until something
// contradicts it; the loss of a witness is no contradiction.
//
// Timer: `at`, armed when a path, a NIC or a session changes for the worse. It stays armed while a
// path is DOWN or a verdict stands, but not while all peers rest. The interval grows while nothing
// changes. Judging walks over all paths, so it also grows with the number of peers: it should take
// only a small part of a core.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hawser/events.hpp"
#include "proto/base/time.hpp"

namespace hawser::proto {

class StandingVerdicts {
 public:
  static constexpr std::size_t kMost = 64;  // more broken links than one can read about
  static constexpr Duration kHold = milliseconds(100);
  static constexpr std::uint32_t kLooks = 4;

  // Something changed for the worse: a judgement is due soon.
  void want(Time now, std::uint32_t peers) {
    interval_ = kFirstLook;
    at_ = earlier(at_, later(now + interval_, judged_at_ + kPerPeer * peers));
  }
  [[nodiscard]] Time at() const { return at_; }
  [[nodiscard]] Time judged_at() const { return judged_at_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }

  // ---- a judgement: its verdicts, then settle, then end
  void support(const Verdict& verdict, Time now) {
    const auto end = all_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto found = std::find_if(all_.begin(), end, [&](const Standing& standing) {
      return is_same(standing.verdict, verdict);
    });
    if (found != end) {
      found->supported = true;
      ++found->looks;
      return;
    }
    if (count_ == all_.size()) return;
    Standing& fresh = all_[count_++];
    fresh = {.verdict = verdict, .since = now, .looks = 1, .supported = true};
    fresh.verdict.since_ns = static_cast<std::uint64_t>(now.ns);
  }
  // `contradiction(verdict)` is the reason to withdraw a verdict that nothing supports any more, or
  // none. `tell(verdict, kind, reason)` gets what is reached or withdrawn. True: a verdict was told
  // or withdrawn, or is about to be told.
  template <class Contradiction, class Tell>
  bool settle(Time now, Contradiction&& contradiction, Tell&& tell) {
    bool moving = false;
    for (std::size_t i = 0; i < count_;) {
      Standing& standing = all_[i];
      Reason against = Reason::none;
      if (!standing.supported) against = contradiction(standing.verdict);
      if (against != Reason::none || (!standing.supported && !standing.told)) {
        if (standing.told) tell(standing.verdict, Event::Kind::verdict_withdrawn, against);
        const auto place = all_.begin() + static_cast<std::ptrdiff_t>(i);
        std::move(place + 1, all_.begin() + static_cast<std::ptrdiff_t>(count_), place);
        --count_;
        moving = true;
        continue;
      }
      if (!standing.told) {
        moving = true;
        if (now - standing.since >= kHold && standing.looks >= kLooks) {
          standing.told = true;
          tell(standing.verdict, Event::Kind::verdict_reached, standing.verdict.reason);
        }
      }
      standing.supported = false;
      ++i;
    }
    return moving;
  }
  // `ready`: peers that were looked at.
  void end(Time now, bool any_down, bool moving, std::uint32_t ready) {
    at_ = kNever;
    judged_at_ = now;
    if (!any_down && (empty() || (ready == 0 && !moving))) return;
    interval_ = moving ? kFirstLook : std::min(interval_ * 2, kLastLook);
    at_ = now + std::max(interval_, kPerPeer * ready);
  }

  // Whether a verdict on a NIC was told that explains one on a link.
  [[nodiscard]] bool explains(const Verdict& link) const {
    return std::any_of(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(count_),
                       [&](const Standing& standing) {
                         const Verdict& other = standing.verdict;
                         const bool is_wider =
                             (other.blame == Blame::local_nic && other.nic == link.nic) ||
                             (other.blame == Blame::remote_nic && other.peer == link.peer &&
                              other.remote_nic == link.remote_nic);
                         return is_wider && standing.told;
                       });
  }
  // Writes the verdicts that were told; returns how many.
  std::size_t told(std::span<Verdict> out) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < count_ && count < out.size(); ++i) {
      if (all_[i].told) out[count++] = all_[i].verdict;
    }
    return count;
  }

 private:
  static constexpr Duration kFirstLook = milliseconds(10);
  static constexpr Duration kLastLook = milliseconds(1000);
  static constexpr Duration kPerPeer = microseconds(50);

  // A verdict, told or about to be.
  struct Standing {
    Verdict verdict{};
    Time since{};
    std::uint32_t looks = 0;  // judgements that supported it
    bool told = false;
    bool supported = false;  // by the judgement under way
  };

  [[nodiscard]] static bool is_same(const Verdict& a, const Verdict& b) {
    return a.blame == b.blame && a.peer == b.peer && a.nic == b.nic && a.remote_nic == b.remote_nic;
  }

  std::array<Standing, kMost> all_{};
  std::size_t count_ = 0;
  Time at_{kNever};
  Time judged_at_{};
  Duration interval_{};
};

}  // namespace hawser::proto
