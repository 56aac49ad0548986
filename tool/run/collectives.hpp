// SPDX-License-Identifier: Apache-2.0
// Runs tasks on coll/ and on the memory of peers: the communicators for a rank's groups, and the
// reports of their failures.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "hawser/collectives.hpp"
#include "tool/check/task_buffers.hpp"
#include "tool/run/exposure.hpp"
#include "tool/run/monitor.hpp"
#include "tool/run/one_sided.hpp"
#include "tool/run/options.hpp"
#include "tool/run/report.hpp"

namespace hawser::tool {

// Ends a replay; what() is the failure's text.
class ReplayError : public std::runtime_error {
 public:
  explicit ReplayError(RankFailure failure)
      : std::runtime_error(failure.text), failure_(std::move(failure)) {}
  [[nodiscard]] const RankFailure& failure() const { return failure_; }

 private:
  RankFailure failure_;
};

class Collectives {
 public:
  // `peers` is by rank; this rank's own entry is not used. `interrupted` is checked while waiting.
  // `generation` counts the sets of communicators that these ranks had before. No message of those
  // is taken for one of this set.
  Collectives(coll::CompletionRouter& router, const Schedule& schedule, std::uint32_t rank,
              const std::vector<PeerId>& peers, const RunOptions& options, std::uint64_t generation,
              Monitor& monitor, const volatile std::sig_atomic_t& interrupted);

  // The channels of all messages of a generation, including those between stages.
  [[nodiscard]] static std::vector<std::uint16_t> channels(std::uint64_t generation);

  // Before the first one-sided task: exchanges keys with all ranks. `exposure` is new, and both
  // outlive this object. Throws ReplayError.
  void expose(const Exposure& exposure, OperationTimes& times);

  // Runs until the task is complete at this rank. Throws ReplayError.
  void run(const TaskBuffers& buffers);
  // After atomics: every rank gets the records of operations on its own words. Throws ReplayError.
  void exchange_records(const TaskBuffers& buffers);
  // After a barrier: counters of signals that are wrong, a sentence each.
  [[nodiscard]] std::vector<std::string> wrong_counters() const;
  // The bandwidths by which all-reduces of all ranks are divided now, by rank; empty: all are
  // equal.
  [[nodiscard]] std::vector<std::uint8_t> bandwidths();
  // Waits until all ranks have come. Throws ReplayError.
  void barrier();
  // After a failure: cancels what can be cancelled and tells all that wait for this rank.
  void give_up();
  // One turn without waiting, for times when nothing of this rank is in flight.
  void progress();

 private:
  struct Group {
    std::vector<std::uint32_t> members;
    std::unique_ptr<coll::Communicator> communicator;  // null: the world's
  };

  [[nodiscard]] coll::Communicator& communicator(GroupKind kind);
  [[nodiscard]] Status start(const TaskBuffers& buffers, coll::Communicator& communicator,
                             coll::Request& request);
  void complete(coll::Communicator& communicator, GroupKind kind, const coll::Request& request);
  void shift(const TaskBuffers& buffers);
  // Waits a little; throws if interrupted, or if the world failed.
  void turn(std::uint64_t wait_ns = kTurnNs);
  void tick();
  // Whether this process just did not run for so long that others have given it up.
  [[nodiscard]] bool was_away() const;
  [[nodiscard]] std::string why(std::uint32_t peer, Status status) const;
  [[nodiscard]] std::string text_of(GroupKind kind, const coll::Failure& failure,
                                    std::uint32_t peer) const;
  // Tells all ranks that a group failed, and throws.
  [[noreturn]] void fail(GroupKind kind, const coll::Failure& failure);
  // As fail(), unless the world has failed already: the first failure is the cause.
  void fail_with(std::uint32_t rank, Status status);

  // How long a turn waits for a completion: the resolution of stalls, faults and interruption.
  static constexpr std::uint64_t kTurnNs = 1'000'000;

  coll::CompletionRouter& router_;
  const GroupLayout& layout_;
  std::uint32_t rank_;
  const std::vector<PeerId>& peers_;
  std::uint64_t generation_;
  Monitor& monitor_;
  const volatile std::sig_atomic_t& interrupted_;
  std::uint64_t patience_ns_;  // others wait this long for a silent rank
  std::uint64_t ticked_ns_ = 0;
  std::uint64_t returned_ns_ = 0;  // from an absence longer than that
  std::array<Group, kGroupKinds> groups_;
  std::vector<coll::Segment> to_;  // of the running all_to_all
  std::vector<coll::Segment> from_;
  std::uint64_t shifts_ = 0;
  OperationId shift_receive_ = kNoOperation;  // the posted one
  std::unique_ptr<OneSided> one_sided_;       // null: the schedule has no such tasks
};

}  // namespace hawser::tool
