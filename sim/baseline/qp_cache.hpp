// SPDX-License-Identifier: Apache-2.0
// Which connections' contexts a NIC holds: those that it used last. A packet of another connection
// waits until the NIC has fetched its context from the host's memory. That context replaces the
// least recently used one. Packets of one connection keep their order.
//
// No trustworthy curve of a real NIC is public. Experiments therefore vary how many contexts it
// holds and what a miss costs (a few thousand; 0.5 to 5 us).
#pragma once

#include <algorithm>
#include <list>
#include <unordered_map>
#include <vector>

#include "proto/base/assert.hpp"
#include "sim/baseline/setup.hpp"

namespace hawser::baseline {

class QpCache {
 public:
  explicit QpCache(const ContextCache& settings)
      : settings_(settings), busy_until_(settings.fetches) {
    HAWSER_ASSERT(settings.miss >= fabric::Span{});
  }

  // When the NIC can process a packet of the connection: now, if it holds the context.
  [[nodiscard]] fabric::Instant use(std::uint32_t connection, fabric::Instant now) {
    if (settings_.contexts == 0) return now;
    const auto found = places_.find(connection);
    if (found != places_.end()) {
      ++hits_;
      held_.splice(held_.begin(), held_, found->second);
      return std::max(held_.front().ready, now);
    }
    ++misses_;
    if (held_.size() == settings_.contexts) {
      places_.erase(held_.back().connection);
      held_.pop_back();
    }
    held_.push_front({connection, fetch(now)});
    places_[connection] = held_.begin();
    return held_.front().ready;
  }

  [[nodiscard]] std::uint64_t hits() const { return hits_; }
  [[nodiscard]] std::uint64_t misses() const { return misses_; }

 private:
  struct Context {
    std::uint32_t connection = 0;
    fabric::Instant ready{};
  };

  [[nodiscard]] fabric::Instant fetch(fabric::Instant now) {
    if (busy_until_.empty()) return now + settings_.miss;
    fabric::Instant& first = *std::ranges::min_element(busy_until_);
    first = std::max(first, now) + settings_.miss;
    return first;
  }

  ContextCache settings_;
  std::list<Context> held_;  // most recently used first
  std::unordered_map<std::uint32_t, std::list<Context>::iterator> places_;
  std::vector<fabric::Instant> busy_until_;  // of each fetch at once
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace hawser::baseline
