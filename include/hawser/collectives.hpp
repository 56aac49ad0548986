// SPDX-License-Identifier: Apache-2.0
// Collectives among an ordered list of endpoints, and messages between two of them.
//
//   hawser::coll::CompletionRouter router(*endpoint);
//   hawser::coll::Communicator world(router, {.id = 1, .rank = rank, .peers = peers});
//   hawser::coll::Request request;
//   Status status = world.all_reduce(in, out, count, DataType::f32, ReduceOp::sum, request);
//   if (status == Status::ok) status = world.wait(request);
//   if (status != Status::ok && world.failure() != nullptr) report(world.failure()->text);
//
// All ranks make a communicator with the same id, ranks and options, and start the same collectives
// in the same order. Several collectives may be in flight. A start does not block: it posts what it
// can, and the router's turns do the rest. docs/collectives.md describes the algorithms.
//
// Ownership. After a start that returns ok, the communicator owns the buffers. The input must not
// change, and the output may be written at any time. The caller owns them again when `test` returns
// ok or, if the communicator failed, when `released` returns true.
//
// Threads. Only one thread may use a router and all communicators on it.
//
// Lifetime. Make the endpoint first, then the router, then communicators. Destroy them in the
// opposite order.
//
// Errors. Constructors throw hawser::Error. After that calls return a Status, and allocate nothing
// but a failure's text. Only `split`, `shrink` and `set_bandwidths` allocate, and may throw.
//
// Threads that make progress must compute floats as C++ does: with subnormals, and rounding to
// nearest. Otherwise ranks may get different bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser::coll {

// A member's place in its communicator, from 0.
using Rank = std::uint32_t;
inline constexpr Rank kAnyRank = ~Rank{0};

// The 8-bit floats are those of OCP: E4M3 without infinity, and E5M2.
enum class DataType : std::uint8_t { f32, f64, f16, bf16, i32, i64, i8, u8, f8e4m3, f8e5m2 };
inline constexpr std::size_t kDataTypes = 10;

// 0: no type of this version.
[[nodiscard]] constexpr std::size_t size_of(DataType type) noexcept {
  constexpr std::uint8_t sizes[kDataTypes] = {4, 8, 2, 2, 4, 8, 1, 1, 1, 1};
  const auto index = static_cast<std::size_t>(type);
  return index < kDataTypes ? sizes[index] : 0;
}

[[nodiscard]] constexpr std::string_view to_string(DataType type) noexcept {
  constexpr std::string_view names[kDataTypes] = {"f32", "f64", "f16", "bf16",   "i32",
                                                  "i64", "i8",  "u8",  "f8e4m3", "f8e5m2"};
  const auto index = static_cast<std::size_t>(type);
  return index < kDataTypes ? names[index] : "?";
}

// Integers wrap. Floats narrower than f32 are computed in f32, and rounded to nearest even after
// each step. If an operand of min or max is NaN, the result is one of the two operands. The sum
// behind an average is of the element's type: it may overflow where the average would not.
enum class ReduceOp : std::uint8_t {
  sum,
  prod,
  min,
  max,
  average,  // the sum, divided by the number of ranks; of integers towards zero
  bit_and,  // integers only, as the other two
  bit_or,
  bit_xor,
  function,  // the caller's
};
inline constexpr std::size_t kReduceOps = 9;

[[nodiscard]] constexpr std::string_view to_string(ReduceOp op) noexcept {
  constexpr std::string_view names[kReduceOps] = {
      "sum", "prod", "min", "max", "average", "bit_and", "bit_or", "bit_xor", "function"};
  const auto index = static_cast<std::size_t>(op);
  return index < kReduceOps ? names[index] : "?";
}

// out[i] = left[i] op right[i] for `count` elements. `out` may be `left` or `right`. It is called
// within calls that make progress. It must not throw, nor call into a router or communicator.
using ReduceFunction = void (*)(void* context, void* out, const void* left, const void* right,
                                std::uint64_t count, DataType type);

// A reduction computes an operation, or a function of the caller's. A function must be associative
// and commutative but for rounding, and all ranks must give the same. It and its context must live
// until the request is released.
struct Reduction {
  // NOLINTNEXTLINE(google-explicit-constructor): an operation is a reduction.
  constexpr Reduction(ReduceOp operation) noexcept : op(operation) {}
  constexpr Reduction(ReduceFunction of_caller, void* its_context) noexcept
      : op(ReduceOp::function), function(of_caller), context(its_context) {}

  ReduceOp op = ReduceOp::sum;
  ReduceFunction function = nullptr;
  void* context = nullptr;
};

// The location of one rank's data in a buffer.
struct Segment {
  std::uint64_t offset = 0;  // bytes
  std::uint64_t bytes = 0;
};

// The reason why a communicator is revoked.
struct Failure {
  Rank rank = 0;  // the rank that failed, or that called abort
  Status status = Status::ok;
  std::string text;  // for people: operation, rank, status, and the rank that noticed
};

class Router;

// Shares one endpoint between communicators and the application. An endpoint has one stream of
// completions, and only the router reads it. The application's own operations must leave the top
// bit of `user_data` 0.
class CompletionRouter {
 public:
  explicit CompletionRouter(Endpoint& endpoint);
  // If operations of communicators are still pending, waits briefly for them, then closes the
  // endpoint, which ends them. All communicators must have been destroyed.
  ~CompletionRouter();
  CompletionRouter(const CompletionRouter&) = delete;
  CompletionRouter& operator=(const CompletionRouter&) = delete;

  [[nodiscard]] Endpoint& endpoint() noexcept;

  // One turn: polls the endpoint once, hands out the completions, advances every communicator, and
  // flushes what they have sent.
  void progress();

  // As progress, but if there is nothing to do it waits up to `timeout_ns` for the first
  // completion.
  void wait(std::uint64_t timeout_ns);

  // Hands out completions of the application's own operations, oldest first, and returns their
  // number. The router keeps them until then, so there are never more than operations that the
  // application has posted.
  std::size_t take(std::span<Completion> completions);

  // True if no operation of any communicator, past or present, is outstanding.
  [[nodiscard]] bool quiet() const noexcept;

 private:
  friend class Communicator;
  std::unique_ptr<Router> router_;
};

// Options, which must be the same at all ranks. With the defaults a communicator takes up to 64
// sends and 65 receives of its endpoint for collectives, and 16 MiB of scratch memory. Only the
// used part of that memory becomes resident. `shrink` takes up to 65 receives, and 5 sends to each
// rank, when the collectives have ended.
struct CommunicatorOptions {
  std::uint32_t chunk_bytes = 256 * 1024;  // largest message of a pipelined collective;
                                           // 64 to 2^30, a multiple of 64
  std::uint32_t pipeline = 8;              // pieces in flight at once; 1 to 32
  std::uint32_t max_active = 4;            // collectives that run at once; 1 to 64
  std::uint32_t small_bytes = 32 * 1024;   // up to this, all-reduce is recursive doubling; <= 2^20

  // True: the ranks find out themselves which of them has lost NICs, and divide all-reduces as
  // after set_bandwidths, which is refused. A rank counts by its NICs that work. Ranks check before
  // an all-reduce of more than small_bytes, each time that check_bytes were reduced since the last
  // check. A check is a small collective. A rank tells a change at the second check that finds it,
  // so a NIC that flaps between two checks changes nothing. A check asks the endpoint for
  // nic_stats, which allocates. It counts in kMaxStarted.
  bool follow_bandwidths = false;
  std::uint64_t check_bytes = std::uint64_t{256} << 20;  // 0: before every such all-reduce

  // The defaults, reduced so that `communicators` of them, and as many operations of the
  // application, fit an endpoint with these limits.
  [[nodiscard]] static CommunicatorOptions within(const Tunables& tunables,
                                                  std::uint32_t communicators = 1);
};

struct CommunicatorConfig {
  // Below 2^22. Unique among the communicators that share an endpoint, former ones included, and
  // those that `split` and `shrink` have made. These take ids above all that their ranks have had.
  std::uint32_t id = 0;
  Rank rank = 0;                // of this endpoint
  std::vector<PeerId> peers{};  // by rank, all different; the own entry is not used
  CommunicatorOptions options{};
  // As set_bandwidths before the first collective. Empty: the same for all ranks, or unknown yet
  // with follow_bandwidths, which requires it.
  std::vector<std::uint8_t> bandwidths{};
};

// Names a started collective or message of one communicator. Copyable. A default one counts as
// complete.
struct Request {
  std::uint32_t slot = ~0u;
  std::uint32_t generation = 0;
};

// The message that a receive got.
struct Received {
  Rank from = 0;
  std::uint64_t bytes = 0;  // placed in the buffer
};

class CommunicatorState;

class Communicator {
 public:
  // Collectives that are started and not complete. Beyond this a start returns `again`.
  static constexpr std::uint32_t kMaxStarted = 64;
  // Messages between two ranks whose end `test` or `wait` has not told yet.
  static constexpr std::uint32_t kMaxMessages = 4096;
  // For `split`: the caller is in none of the new communicators.
  static constexpr std::uint32_t kNoColour = ~0u;

  // Throws Error if the configuration is out of range, or if the router has a communicator with
  // this id, or had one lately.
  Communicator(CompletionRouter& router, const CommunicatorConfig& config);
  // May be called at any time. The router takes over what is still in flight (see its destructor).
  // If a collective has not ended or a message is posted, the communicator is revoked.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank ranks() const noexcept;
  [[nodiscard]] std::uint32_t id() const noexcept;

  // ---- collectives
  // Buffers must be aligned to their elements' size, and may be null if their length is 0. A buffer
  // has at most 2^62 bytes, and a block that goes straight from rank to rank at most 2^40 - 1. n is
  // the number of ranks. Arrays of n segments must live as long as the buffers are in use, and
  // segments of an output must not overlap. All starts return
  //   `ok`: `request` is set.
  //   `again`: kMaxStarted are running; make progress, then call again.
  //   `invalid_argument`: an argument is out of range, or failure() is not null: ranks have started
  //     different collectives.
  //   Any other status: the communicator is revoked, and failure() says why.

  // out[i] = in[i] of rank 0 op ... op in[i] of rank n - 1. In place: out = in.
  [[nodiscard]] Status all_reduce(const void* in, void* out, std::uint64_t count, DataType type,
                                  const Reduction& reduction, Request& request);
  // The same, but only rank `root` gets the result. Other ranks don't use `out`, which may be null.
  [[nodiscard]] Status reduce(const void* in, void* out, std::uint64_t count, DataType type,
                              const Reduction& reduction, Rank root, Request& request);
  // `in` has n · count elements. `out` gets the reduced elements of block `rank`. In place: out =
  // that block.
  [[nodiscard]] Status reduce_scatter(const void* in, void* out, std::uint64_t count, DataType type,
                                      const Reduction& reduction, Request& request);
  // The same with any lengths: block i of `in` is blocks[i], which begins and ends with an element.
  // The lengths are the same at all ranks. In place: out = the own block.
  [[nodiscard]] Status reduce_scatter_v(const void* in, std::span<const Segment> blocks, void* out,
                                        DataType type, const Reduction& reduction,
                                        Request& request);
  // `out` gets `bytes` bytes of every rank, in order. In place: in = block `rank` of out.
  [[nodiscard]] Status all_gather(const void* in, void* out, std::uint64_t bytes, Request& request);
  // The same with any lengths: rank i's bytes go to blocks[i] of `out`. The lengths are the same at
  // all ranks. In place: in = the own block.
  [[nodiscard]] Status all_gather_v(const void* in, void* out, std::span<const Segment> blocks,
                                    Request& request);
  // Block i of `in` goes to rank i; block j of `out` comes from rank j. In place: out = in, at all
  // ranks or at none.
  [[nodiscard]] Status all_to_all(const void* in, void* out, std::uint64_t bytes, Request& request);
  // The same with any lengths: to[i].bytes here equals from[rank].bytes at rank i. Never in place,
  // because a received block may be longer than the sent one, unless nothing moves here.
  [[nodiscard]] Status all_to_all_v(const void* in, std::span<const Segment> to, void* out,
                                    std::span<const Segment> from, Request& request);
  [[nodiscard]] Status broadcast(void* data, std::uint64_t bytes, Rank root, Request& request);
  // Rank `root` gets `bytes` bytes of every rank, in order. Other ranks don't use `out`. In place:
  // the root's `in` = its block of `out`.
  [[nodiscard]] Status gather(const void* in, void* out, std::uint64_t bytes, Rank root,
                              Request& request);
  // The same with any lengths: rank i sends `bytes` bytes, which go to blocks[i] of the root's
  // `out`. Other ranks don't use `blocks`, which may be empty.
  [[nodiscard]] Status gather_v(const void* in, std::uint64_t bytes, void* out,
                                std::span<const Segment> blocks, Rank root, Request& request);
  // Block i of the `in` of rank `root` goes to rank i. Other ranks don't use `in`. In place: the
  // root's `out` = its block of `in`.
  [[nodiscard]] Status scatter(const void* in, void* out, std::uint64_t bytes, Rank root,
                               Request& request);
  // The same with any lengths: blocks[i] of the root's `in` goes to rank i, which gets `bytes`
  // bytes. Other ranks don't use `blocks`, which may be empty.
  [[nodiscard]] Status scatter_v(const void* in, std::span<const Segment> blocks, void* out,
                                 std::uint64_t bytes, Rank root, Request& request);
  [[nodiscard]] Status barrier(Request& request);

  // The bandwidths of all ranks. A rank that has lost a NIC has less. An entry is 1 to 16, in any
  // unit that is the same for all. All ranks call it with the same entries between the same two
  // collectives; if they don't, the next divided all-reduce fails with invalid_argument. Later
  // all-reduces of more than small_bytes are then divided among schedules, so that slower ranks
  // move less (docs/internals/collectives.md), unless `pipeline` is 1. Results have the same bits
  // at all ranks; sums of floats may differ from those with other bandwidths. It allocates, and may
  // throw std::bad_alloc; nothing has changed then.
  //   `ok`; `invalid_argument`, also with follow_bandwidths; or the status with which the
  //   communicator was revoked.
  [[nodiscard]] Status set_bandwidths(std::span<const std::uint8_t> by_rank);

  // The bandwidths by which all-reduces are divided now, by rank; empty if all are equal. Valid
  // until the next call that makes progress, or sets them.
  [[nodiscard]] std::span<const std::uint8_t> bandwidths() const noexcept;

  // ---- messages between two ranks
  // They don't count in the order of collectives. Messages of one rank with one tag match in the
  // order in which it sent them. A request keeps one of kMaxMessages places until `test` or `wait`
  // has told its end. Posted messages are operations of the application: leave the collectives
  // their room in max_operations and max_messages_per_peer. Statuses as above, and
  //   `again`: all places are in use, or the endpoint takes no more operations now.

  // Complete when all bytes are in the receiver's memory. The own rank is an invalid argument, here
  // and in `receive`.
  [[nodiscard]] Status send(const void* data, std::uint64_t bytes, Rank to, std::uint32_t tag,
                            Request& request);
  // `from` may be kAnyRank: such a receive does not end when ranks close their endpoints in order.
  // If the message is longer than `bytes`, its end is `truncated`. A receive can't be taken back.
  [[nodiscard]] Status receive(void* data, std::uint64_t bytes, Rank from, std::uint32_t tag,
                               Request& request);

  // ---- progress and results
  // Runs one turn of the router.
  void progress();

  // Tests a request, without making progress.
  //   `again`: it is running.
  //   `ok`: the result is in place, and the caller owns the buffers again.
  //   `truncated`: a received message was longer than its buffer, which has its first bytes. It is
  //     told once, and `ok` later.
  //   Any other status: the communicator is revoked.
  // `received`, if not null, is set with the end of a receive, unless it failed.
  [[nodiscard]] Status test(const Request& request, Received* received = nullptr);

  // Makes progress until `test` returns something other than `again`. With inline progress, go on
  // polling afterwards: others may wait for what only a later turn can send.
  [[nodiscard]] Status wait(const Request& request, Received* received = nullptr);

  // True when the caller owns the buffers again. After `ok` that is at once. After a failure it is
  // when the last operation has completed, which closing the endpoint guarantees.
  [[nodiscard]] bool released(const Request& request) const;

  // ---- communicators of some of the ranks
  // All ranks call it, in the order of collectives, and it blocks until they have. Ranks with the
  // same colour become a communicator with the same options, in the order of their keys, then of
  // their ranks. `made` is set last: null at ranks of kNoColour, and unchanged with any other
  // status than ok.
  //   `ok`, or the status with which this communicator was revoked.
  // Throws Error if no id below 2^22 is left, or std::bad_alloc; this communicator is then revoked.
  [[nodiscard]] Status split(std::uint32_t colour, std::uint32_t key,
                             std::unique_ptr<Communicator>& made);

  // Makes a communicator of the ranks that are left when this one was revoked, in the order of
  // their ranks, with the same options and the same bandwidth for all. Every living rank calls it,
  // and it blocks until each has, or its session has ended. Ranks may fail meanwhile. Those of
  // `without` are given up although they may live; it is the same at all ranks. Two ranks that have
  // a session with each other, and count each other in, have the same communicator. A partition
  // leaves two. `made` as above.
  //
  // The ranks may have to give up one that lives, if its session with another has ended. They end
  // their sessions with that rank, too, perhaps after this call has returned. Its other messages
  // and communicators with them then fail, but for its receives from any rank. Keep polling
  // afterwards: votes may still be under way. Nobody may connect anew to a member of a revoked
  // communicator before it is shrunk or destroyed.
  //   `ok`
  //   `invalid_argument`: this communicator is not revoked, or has been shrunk, or `without` has a
  //     rank that is out of range.
  //   `cancelled`: the others go on without this rank, or `without` has it. A rank that was stopped
  //     for longer than peer_timeout gets this if it wakes while others live. Several ranks get it
  //     if one of them was given up by as many others as they are.
  //   `endpoint_closed`: this endpoint is closed.
  //   `store_full`: messages that nobody has received leave no room for votes.
  //   `nic_error`: a vote could not be sent or received.
  //   After these two, close the endpoint, because the others count this rank in.
  // Throws as split does. Then close the endpoint, too.
  [[nodiscard]] Status shrink(std::span<const Rank> without, std::unique_ptr<Communicator>& made);
  [[nodiscard]] Status shrink(std::unique_ptr<Communicator>& made) { return shrink({}, made); }

  // ---- failure
  // Revokes the communicator at all members: rank `failed`, which is below ranks(), has failed, for
  // `reason`. Where ok, again or truncated is given, `cancelled` is taken. For callers that know
  // better than the endpoint, or that want to stop. No effect if it is revoked already.
  void abort(Rank failed, Status reason);

  // Null while the communicator works. Never changes once it is set.
  [[nodiscard]] const Failure* failure() const noexcept;

  // True if no collective or message is in flight and all neighbours have been told of a failure.
  // Only receives for control messages are left then, and perhaps a query.
  [[nodiscard]] bool idle() const noexcept;

 private:
  struct SplitOffer;

  [[nodiscard]] bool is_right_at_root(std::span<const Segment> blocks, const void* buffer,
                                      std::uint64_t bytes) const noexcept;
  [[nodiscard]] Status share_offers(std::span<SplitOffer> offers, SplitOffer own);

  CompletionRouter& router_;
  std::unique_ptr<CommunicatorState> state_;
};

}  // namespace hawser::coll
