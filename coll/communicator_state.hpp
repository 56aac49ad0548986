// SPDX-License-Identifier: Apache-2.0
// The parts of a communicator. The object outlives the communicator while operations are in flight.
//
// Started collectives stand in line. The first max_active of them run, each with its own block of
// scratch memory. A collective leaves the line when none of its operations is in flight. Every rank
// starts the same collectives in the same order, so the oldest unfinished one runs at every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coll/agreement.hpp"
#include "coll/bandwidth_follower.hpp"
#include "coll/bandwidth_order.hpp"
#include "coll/execution.hpp"
#include "coll/messages.hpp"
#include "coll/revocation.hpp"
#include "coll/router.hpp"
#include "coll/shrinking.hpp"
#include "hawser/collectives.hpp"

namespace hawser::coll {

class CommunicatorState final : public Route {
 public:
  // Throws Error if the configuration is out of range.
  CommunicatorState(Router& router, const CommunicatorConfig& config);

  // `ok`: so many collectives may start. `again`: the line is full. Otherwise the failure's status.
  [[nodiscard]] Status admit(std::size_t count = 1) const noexcept;
  // Requires ok from admit. Puts the plan in line.
  // `window` is that of each stream; all windows together have at most 2 · pipeline entries.
  [[nodiscard]] Request launch(const Signature& signature, const AnyPlan& plan,
                               std::uint32_t window);
  [[nodiscard]] Request launch(const Signature& signature, const AnyPlan& plan) {
    return launch(signature, plan, 2 * options_.pipeline);
  }
  // Starts an all-reduce of more than small_bytes, and a check before it if one is due: `plan` is
  // that of equal bandwidths. As a collective's call.
  [[nodiscard]] Status launch_following(const Signature& signature, const AnyPlan& plan,
                                        const AllReduceArguments& arguments, Request& request);
  [[nodiscard]] bool follows() const noexcept { return follower_.has_value(); }

  // Requires ok from admit. Counts a collective that needs no messages at any rank.
  void skip() noexcept { (void)agreement_.start(); }

  // As the call of Communicator.
  [[nodiscard]] Status set_bandwidths(std::span<const Bandwidth> by_rank);
  // Null: all ranks have the same bandwidth.
  [[nodiscard]] const BandwidthOrder* order() const noexcept { return order_.get(); }

  // As the calls of Communicator; the ranks are right.
  [[nodiscard]] Status send(const void* data, std::uint64_t bytes, Rank to, std::uint32_t tag,
                            Request& request);
  [[nodiscard]] Status receive(void* data, std::uint64_t bytes, Rank from, std::uint32_t tag,
                               Request& request);

  [[nodiscard]] Status test(const Request& request, Received* received);
  [[nodiscard]] bool released(const Request& request) const noexcept;
  [[nodiscard]] bool idle() const noexcept;
  void abort(Rank failed, Status reason);

  // Begins to agree on who is left. Requires a failure; false if it has begun already.
  [[nodiscard]] bool begin_shrinking(std::span<const Rank> without);
  // Null before begin_shrinking.
  [[nodiscard]] const Shrinking* shrinking() const noexcept { return shrinking_.get(); }

  // Keeps buffers of a collective until it has ended well; otherwise until no operation can refer
  // to them.
  void keep(std::shared_ptr<void> buffers) { kept_.push_back(std::move(buffers)); }
  void let_go() { kept_.pop_back(); }

  [[nodiscard]] const CommunicatorOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Channel& channel() const noexcept { return channel_; }
  [[nodiscard]] const Failure* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }

  void on_completion(const Completion& completion) override;
  void advance() override;
  void look() override;
  [[nodiscard]] bool busy() const noexcept override { return busy_; }
  [[nodiscard]] bool held_back() const noexcept override;
  [[nodiscard]] std::uint32_t id() const noexcept override { return channel_.id; }
  [[nodiscard]] std::uint64_t in_flight() const noexcept override;
  void retire() override;

 private:
  static constexpr std::uint32_t kNoBlock = ~0u;

  struct Slot {
    std::uint32_t generation = 0;
    bool in_line = false;
    bool finished = false;  // test returns ok
    std::uint32_t block = kNoBlock;
    bool is_check = false;                        // of the bandwidths
    std::optional<AllReduceArguments> follows;    // its plan is chosen when it begins
    std::shared_ptr<const BandwidthOrder> order;  // its plan may refer to it
    Execution execution;
  };

  void on_control(const Completion& completion);
  std::uint32_t put_in_line(const Signature& signature, const AnyPlan& plan, std::uint32_t window);
  void launch_check();
  void begin_first();
  void begin(Slot& slot);
  [[nodiscard]] bool retire_finished();
  void fail(Failure failure, Rank reporter);
  // An operation with rank `failed` has ended with this status.
  void fail_by(Rank failed, Status status, const char* what);
  void fail(const Agreement::Disagreement& found);
  [[nodiscard]] std::span<const Agreement::Running> running();
  [[nodiscard]] Status posted(Status status, Rank other, Request& request);
  [[nodiscard]] const Slot* find(const Request& request) const noexcept;

  std::vector<PeerId> peers_;
  CommunicatorOptions options_;
  Channel channel_;
  std::uint64_t block_bytes_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
  std::vector<std::shared_ptr<void>> kept_;
  std::shared_ptr<const BandwidthOrder> order_;  // of the collectives that start or begin now
  std::optional<BandwidthFollower> follower_;
  std::vector<StreamStates> states_;  // by block
  std::vector<std::uint32_t> free_blocks_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> line_;          // slots, oldest first
  std::vector<Agreement::Running> running_;  // for `running`, to spare the heap
  Messages messages_;
  Revocation revocation_;
  std::unique_ptr<Shrinking> shrinking_;
  Agreement agreement_;
  std::optional<Failure> failure_;
  std::uint32_t next_group_ = 0;
  bool busy_ = false;
  bool held_back_ = false;
  bool retired_ = false;
};

}  // namespace hawser::coll
