// SPDX-License-Identifier: Apache-2.0
// Collectives among an ordered list of endpoints.
//
// All ranks make a communicator with the same id, ranks and options, and start the same collectives
// in the same order. Several collectives may be in flight. A start does not block: it posts what it
// can, and CompletionRouter::progress() does the rest. docs/collectives.md describes it.
//
// Ownership: after a start that returns ok, the communicator owns the buffers. The input must not
// change, and the output may be written at any time. The caller owns them again when `test` returns
// ok or, if the communicator failed, when `released` returns true.
//
// Threads: only one, that of the router.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coll/channel.hpp"
#include "coll/completion_router.hpp"
#include "coll/data_type.hpp"
#include "coll/exchange_plan.hpp"
#include "hawser/tunables.hpp"

namespace hawser::coll {

// Options, which must be the same at all ranks. With the defaults a communicator takes up to 64
// sends and 65 receives of its endpoint, and 16 MiB of scratch memory. Only the used part of that
// memory becomes resident.
struct CommunicatorOptions {
  std::uint32_t chunk_bytes = 256 * 1024;  // largest message of a pipelined collective;
                                           // 64 to 2^30, a multiple of 64
  std::uint32_t pipeline = 8;              // pieces in flight at once; 1 to 32
  std::uint32_t max_active = 4;            // collectives that run at once; 1 to 64
  std::uint32_t small_bytes = 32 * 1024;   // up to this, all-reduce is recursive doubling; <= 2^20

  // The defaults, reduced so that `communicators` of them, and as many operations of the
  // application, fit an endpoint with these limits.
  [[nodiscard]] static CommunicatorOptions within(const Tunables& tunables,
                                                  std::uint32_t communicators = 1);
};

struct CommunicatorConfig {
  // Below 2^22. Unique among the communicators that share an endpoint, former ones included.
  std::uint32_t id = 0;
  Rank rank = 0;                // of this endpoint
  std::vector<PeerId> peers{};  // by rank, all different; the own entry is not used
  CommunicatorOptions options{};
};

// Names a started collective. Copyable. A default one counts as complete.
struct Request {
  std::uint32_t slot = ~0u;
  std::uint32_t generation = 0;
};

class CommunicatorState;

class Communicator {
 public:
  // Collectives that are started and not complete. Beyond this a start returns `again`.
  static constexpr std::uint32_t kMaxStarted = 64;

  // Throws Error if the configuration is out of range.
  Communicator(CompletionRouter& router, const CommunicatorConfig& config);
  // May be called at any time. The router takes over what is still in flight (see its destructor).
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank ranks() const noexcept;

  // Starts a collective. Buffers must be aligned to their elements' size, and may be null if their
  // length is 0. All starts return
  //   `ok`: `request` is set.
  //   `again`: kMaxStarted are running; make progress, then call again.
  //   `invalid_argument`: an argument is out of range.
  //   Any other status: the communicator is revoked, and failure() says why.

  // out[i] = in[i] of rank 0 op ... op in[i] of rank n - 1. In place: out = in.
  [[nodiscard]] Status all_reduce(const void* in, void* out, std::uint64_t count, DataType type,
                                  ReduceOp op, Request& request);
  // The same, but only rank `root` gets the result. Other ranks don't use `out`, which may be null.
  [[nodiscard]] Status reduce(const void* in, void* out, std::uint64_t count, DataType type,
                              ReduceOp op, Rank root, Request& request);
  // `in` has n · count elements. `out` gets the reduced elements of block `rank`. In place: out =
  // that block.
  [[nodiscard]] Status reduce_scatter(const void* in, void* out, std::uint64_t count, DataType type,
                                      ReduceOp op, Request& request);
  // `out` gets `bytes` bytes of every rank, in order. In place: in = block `rank` of out.
  [[nodiscard]] Status all_gather(const void* in, void* out, std::uint64_t bytes, Request& request);
  // Block i of `in` goes to rank i; block j of `out` comes from rank j. In place: out = in, at all
  // ranks or at none.
  [[nodiscard]] Status all_to_all(const void* in, void* out, std::uint64_t bytes, Request& request);
  // The same with any lengths: to[i].bytes here equals from[rank].bytes at rank i. Never in place,
  // because a received block may be longer than the sent one. The two arrays of n segments must
  // live as long as the buffers are in use.
  [[nodiscard]] Status all_to_all_v(const void* in, std::span<const Segment> to, void* out,
                                    std::span<const Segment> from, Request& request);
  [[nodiscard]] Status broadcast(void* data, std::uint64_t bytes, Rank root, Request& request);
  [[nodiscard]] Status barrier(Request& request);

  // Runs one turn of the router.
  void progress();

  // Tests a collective, without making progress.
  //   `again`: it is running.
  //   `ok`: the result is in place, and the caller owns the buffers again.
  //   Any other status: it failed.
  [[nodiscard]] Status test(const Request& request) const;

  // Makes progress until `test` returns something other than `again`. With inline progress, go on
  // polling afterwards: others may wait for what only a later turn can send.
  [[nodiscard]] Status wait(const Request& request);

  // True when the caller owns the buffers again. After `ok` that is at once. After a failure it is
  // when the last operation has completed, which closing the endpoint guarantees.
  [[nodiscard]] bool released(const Request& request) const;

  // Revokes the communicator at all members: rank `failed` has failed, for `reason` (other than ok
  // and again). For callers that know better than the endpoint, or that want to stop. No effect if
  // it is revoked already.
  void abort(Rank failed, Status reason);

  // Null while the communicator works. Never changes once it is set.
  [[nodiscard]] const Failure* failure() const noexcept;

  // True if no collective has operations in flight and all neighbours have been told of a failure.
  // Only receives for control messages are left then, and perhaps a query.
  [[nodiscard]] bool idle() const noexcept;

 private:
  CompletionRouter& router_;
  std::unique_ptr<CommunicatorState> state_;
};

}  // namespace hawser::coll
