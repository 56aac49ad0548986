// SPDX-License-Identifier: Apache-2.0
// The events of a storm, as plain data, for code that shows them to people.
#pragma once

#include <cstdint>
#include <span>

#include "hawser/trace.hpp"
#include "proto/base/time.hpp"

namespace hawser::sim {

struct Happening {
  enum class Kind : std::uint8_t {
    traced,            // an endpoint's trace record
    fault_begins,      // `index`: of the plan
    fault_ends,        // likewise
    heals,             // all faults are over
    posted_send,       // `index`: the message of the plan; the record has its operation
    posted_receive,    // `index`: of the judge's record; the record has its operation, its bytes,
                       // in `endpoint_id` the sender's host and one (0: any), in `message` its tag
    posted_one_sided,  // `index`: of the plan; the record has its operation
    cancels_send,
    cancels_receive,
    closes,       // its endpoint
    disconnects,  // `index`: that host
    left,         // its process is done with closing, and gone
  };
  Kind kind = Kind::traced;
  std::uint32_t host = 0;
  std::uint32_t index = 0;
  proto::Duration at{};  // since the start of the run, by the world's clock
  TraceRecord record{};
};

// A ring of happenings in memory that the caller provides. Another process may share that memory,
// and read it when this one is dead.
class Recording {
 public:
  // `count` grows with each happening. If there are more than fit, the last ones are kept.
  Recording(std::span<Happening> room, std::uint64_t& count) : room_(room), count_(count) {}

  void add(const Happening& happening) {
    room_[count_ % room_.size()] = happening;
    ++count_;
  }
  [[nodiscard]] std::uint64_t size() const { return count_ < room_.size() ? count_ : room_.size(); }
  // How many were overwritten.
  [[nodiscard]] std::uint64_t lost() const { return count_ - size(); }
  // The i-th of those that were kept, in the order of time.
  [[nodiscard]] const Happening& at(std::uint64_t i) const {
    return room_[(lost() + i) % room_.size()];
  }

 private:
  std::span<Happening> room_;
  std::uint64_t& count_;
};

}  // namespace hawser::sim
