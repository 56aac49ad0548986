// SPDX-License-Identifier: Apache-2.0
// Runs one plan: keeps a window of its sends and receives in flight, as their dependencies allow.
//
// An entry goes pending -> in flight -> (receives: arrived ->) done. The window of each stream
// begins at the first entry that is not done, and has `window` entries. Apart from the dependencies
// that the plan states, entries in it are independent. A late entry delays only those that depend
// on it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "coll/barrier_plan.hpp"
#include "coll/broadcast_plan.hpp"
#include "coll/channel.hpp"
#include "coll/doubling_plan.hpp"
#include "coll/exchange_plan.hpp"
#include "coll/mixed_plan.hpp"
#include "coll/reduce_plan.hpp"
#include "coll/ring_plan.hpp"
#include "coll/rooted_plan.hpp"

namespace hawser::coll {

using AnyPlan = std::variant<BarrierPlan, BroadcastPlan, DoublingPlan, ExchangePlan, MixedPlan,
                             ReducePlan, RingPlan, RootedPlan>;

// The budget of a turn, shared by a communicator's collectives, oldest first.
struct TurnBudget {
  std::uint64_t process_bytes = 0;  // at 0 the endpoint is polled before more is reduced
  bool may_send = true;             // false once the endpoint has returned `again`
  bool may_receive = true;
};

// The state of a plan's streams while it runs. Bits are indexed by entry mod 64. Outside the window
// they are 0.
class StreamStates {
 public:
  static constexpr std::uint32_t kMaxWindow = 64;

  struct Lane {
    std::uint64_t total = 0;
    std::uint64_t base = 0;  // all entries below are done
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    std::uint64_t cancel_asked = 0;

    [[nodiscard]] bool is_done(std::uint64_t place) const noexcept;
    void finish(std::uint64_t place) noexcept;
    [[nodiscard]] std::uint64_t place_at(std::uint32_t bit) const noexcept {
      return base + ((bit - base) & (kMaxWindow - 1));
    }
  };
  using Operations = std::array<OperationId, kMaxWindow>;
  struct Stream {
    Lane sends;
    Lane receives;
    std::uint64_t arrived = 0;  // received but not yet processed
    Operations send_operations{};
    Operations receive_operations{};
  };

  std::array<Stream, kMostStreams> streams{};
};

class Execution {
 public:
  static constexpr std::uint32_t kMaxWindow = StreamStates::kMaxWindow;

  struct Identity {
    Rank rank = 0;  // the own one
    std::uint32_t slot = 0;
    std::uint32_t sequence = 0;
    std::uint64_t signature = 0;
    CollectiveKind kind = CollectiveKind::barrier;
  };

  struct Awaited {
    Rank sender = 0;
    std::uint64_t message = 0;  // its place among the messages that the plan receives
  };

  // `window` is 1 to kMaxWindow. Nothing runs before `begin`.
  void prepare(const Identity& identity, const AnyPlan& plan, std::uint32_t window);
  // Runs another plan for the same buffers. Not after `begin`.
  void replace(const AnyPlan& plan, std::uint32_t window);
  // Both are used until nothing is in flight any more, and the result is in place. The plan's
  // groups count from `first_group`.
  void begin(std::byte* scratch, StreamStates& states, std::uint32_t first_group);
  [[nodiscard]] std::uint32_t groups() const noexcept { return plan().groups(); }

  // Processes what has arrived, and posts what is ready. Returns nullopt if all is well.
  [[nodiscard]] std::optional<Failure> advance(const Channel& channel, TurnBudget& budget);

  // Handles the completion of one of its operations, which was posted with `mark`. A completion
  // that releases its buffer reduces in_flight.
  [[nodiscard]] std::optional<Failure> on_completion(const Channel& channel, const Mark& mark,
                                                     const Completion& completion);

  // Asks to cancel the operations that are still posted, each once, in several calls if need be.
  // For a send its receiver decides: a receiver without a receive for it answers, even if its
  // communicator is gone.
  void cancel_operations(const Channel& channel);

  // The first message that is missing. Nullopt if no receive waits for a message.
  [[nodiscard]] std::optional<Awaited> awaited() const noexcept;
  [[nodiscard]] std::uint32_t sequence() const noexcept { return identity_.sequence; }
  [[nodiscard]] std::uint64_t signature() const noexcept { return identity_.signature; }

  // True if the results are in place and the user's buffers are free.
  [[nodiscard]] bool finished() const noexcept;
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] bool sends_done() const noexcept;

 private:
  using Lane = StreamStates::Lane;
  using Stream = StreamStates::Stream;

  [[nodiscard]] static std::uint64_t bit(std::uint64_t place) noexcept {
    return std::uint64_t{1} << (place & (kMaxWindow - 1));
  }
  // Those of the plan that runs; none before `begin`.
  [[nodiscard]] std::span<Stream> streams() noexcept;
  [[nodiscard]] std::span<const Stream> streams() const noexcept;
  [[nodiscard]] const Plan& plan() const noexcept;
  [[nodiscard]] Plan& plan() noexcept;
  [[nodiscard]] bool has_received(std::uint64_t index) const noexcept;
  [[nodiscard]] bool has_sent(std::uint64_t index) const noexcept;
  [[nodiscard]] bool ready(const Transfer& transfer) const noexcept;
  [[nodiscard]] bool sends_issued() const noexcept;
  [[nodiscard]] Hint hint(const Transfer& transfer) const noexcept;
  [[nodiscard]] Mark mark(Mark::Kind kind, std::uint32_t stream,
                          std::uint64_t place) const noexcept;

  void process_arrived(std::uint32_t number, TurnBudget& budget, bool& changed);
  [[nodiscard]] std::optional<Failure> post_receives(const Channel& channel, std::uint32_t number,
                                                     TurnBudget& budget, bool& changed);
  [[nodiscard]] std::optional<Failure> post_sends(const Channel& channel, std::uint32_t number,
                                                  TurnBudget& budget, bool& changed);
  [[nodiscard]] bool cancel(const Channel& channel, Lane& lane,
                            const StreamStates::Operations& operations);
  [[nodiscard]] Status post(const Channel& channel, const Outgoing& outgoing, std::uint32_t stream,
                            std::uint64_t place);
  [[nodiscard]] Status post(const Channel& channel, const Incoming& incoming, std::uint32_t stream,
                            std::uint64_t place);
  [[nodiscard]] std::optional<Failure> check(const Channel& channel, const Incoming& expected,
                                             const Completion& completion) const;
  // An operation with rank `other` has failed.
  [[nodiscard]] Failure failure(const Channel& channel, const char* what, Rank other,
                                Status status) const;

  Identity identity_;
  std::optional<AnyPlan> plan_;
  std::uint32_t window_ = 1;
  std::uint32_t first_group_ = 0;
  StreamStates* states_ = nullptr;
  std::uint32_t in_flight_ = 0;
  bool worth_a_look_ = false;  // something has changed, or was put off, since the last advance
};

}  // namespace hawser::coll
