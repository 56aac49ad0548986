// SPDX-License-Identifier: Apache-2.0
// Runs one-sided tasks at one rank: puts, gets, atomics, and the dispatch of tokens.
//
// A rank has at most kMostUnderWay operations under way. Each write signals the target's counter
// for this rank. A task of writes is complete at a rank when its own operations have ended, and
// every peer's counter has grown by the number of that peer's writes.
//
// A counter that does not grow says nothing about the peer, and the engine does not know that the
// rank waits for it. A waiting rank therefore reads a word of each such peer now and then. If the
// peer is dead, that operation fails, after peer_timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hawser/collectives.hpp"
#include "tool/check/task_buffers.hpp"
#include "tool/run/exposure.hpp"
#include "tool/run/latencies.hpp"

namespace hawser::tool {

class OneSided {
 public:
  static constexpr std::uint16_t kChannel = 2;
  static constexpr std::size_t kMostUnderWay = 128;

  struct Host {
    // Makes progress, and waits up to `wait_ns` for a completion. Throws if the run has failed.
    std::function<void(std::uint64_t wait_ns)> turn;
    // Throws: an operation on a rank's memory failed.
    std::function<void(std::uint32_t rank, Status status)> fail;
    std::function<std::uint64_t()> now_ns;  // of a monotonic clock
  };

  // All arguments outlive it. `peers` is by rank. `generation` tells its operations from those that
  // ended when a rank failed, and whose completions may still come.
  OneSided(coll::CompletionRouter& router, const GroupLayout& layout, std::uint32_t rank,
           const std::vector<PeerId>& peers, std::uint64_t generation, const Exposure& exposure,
           OperationTimes& times, Host host);

  // By rank. To be filled, from all ranks' exposures, before the first task.
  [[nodiscard]] std::vector<ExposedKeys>& keys() { return keys_; }

  // Runs a task until it is complete at this rank; `when` is the part of the run for its times.
  void run(const TaskBuffers& buffers, When when);

  // Between tasks, when nobody writes: the counters that differ from the number of writes, a
  // sentence each.
  [[nodiscard]] std::vector<std::string> wrong_counters() const;

 private:
  // An operation under way.
  struct Slot {
    OneSidedKind kind = OneSidedKind::write;
    std::uint32_t rank = 0;
    std::uint64_t posted_ns = 0;
    FetchRecord* record = nullptr;  // where what it fetches goes
    std::uint64_t* seen = nullptr;  // as well
    bool asks = false;              // it only shows that the peer lives
  };

  void transfer(const TaskBuffers& buffers);
  void move_block(const TaskBuffers& buffers, const Transfer& transfer, std::uint64_t at);
  void await_signals(const TaskBuffers& buffers);
  void ask(std::uint32_t rank);
  void compute(const TaskBuffers& buffers);
  void act(const TaskBuffers& buffers, std::uint32_t member, std::uint32_t word, WordAction action,
           FetchRecord& record, std::uint64_t& seen);
  // `call` posts the operation with the given user_data.
  void post(const Slot& slot, const std::function<Status(std::uint64_t user_data)>& call);
  void fail(std::uint32_t rank, Status status) const;  // throws
  void turn();
  void reap();
  void end(const Completion& completion);

  [[nodiscard]] bool has_arrived(std::uint32_t rank) const {
    return exposure_.signals_of(rank) >= expected_[rank];
  }
  [[nodiscard]] bool is_own(const Completion& completion) const;
  [[nodiscard]] std::size_t under_way() const { return slots_.size() - free_.size(); }

  coll::CompletionRouter& router_;
  const GroupLayout& layout_;
  std::uint32_t rank_;
  const std::vector<PeerId>& peers_;
  const Exposure& exposure_;
  OperationTimes& times_;
  Host host_;
  std::uint64_t mark_;  // the upper bits of user_data
  std::vector<ExposedKeys> keys_;
  When when_ = When::before;
  std::vector<std::uint32_t> members_;   // of the task's group, by place
  std::vector<std::uint64_t> expected_;  // signals of each rank since the exposure
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> free_;  // places of slots_
  std::vector<bool> is_asked_;       // ranks that an operation without other use is under way to
};

}  // namespace hawser::tool
