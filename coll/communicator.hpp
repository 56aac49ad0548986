// SPDX-License-Identifier: Apache-2.0
// Collectives among an ordered list of endpoints.
//
// All ranks make a communicator of the same id, ranks and options, and start the same collectives
// in the same order; several may be in flight. A start does not block: it posts what it can, and
// CompletionRouter::progress() carries on. docs/collectives.md tells how.
//
// Ownership: from a start that returns ok, the input is the communicator's unchanged and the output
// is its to write, until `test` says ok, or, if the communicator failed, until `released` says
// true.
//
// Threads: one, the router's.
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

// The same at all ranks. With the defaults a communicator takes up to 64 sends and 65 receives of
// its endpoint, and 16 MiB of scratch memory, of which only what is used becomes resident.
struct CommunicatorOptions {
  std::uint32_t chunk_bytes = 256 * 1024;  // largest message of a pipelined collective;
                                           // 64 to 2^30, a multiple of 64
  std::uint32_t pipeline = 8;              // pieces on their way together; 1 to 32
  std::uint32_t max_active = 4;            // collectives that run at once; 1 to 64
  std::uint32_t small_bytes = 32 * 1024;   // up to here all-reduce is recursive doubling; <= 2^20

  // The defaults, made small enough that `communicators` of them and as much of the application's
  // own fit an endpoint with these limits.
  [[nodiscard]] static CommunicatorOptions within(const Tunables& tunables,
                                                  std::uint32_t communicators = 1);
};

struct CommunicatorConfig {
  std::uint32_t id = 0;  // below 2^22; no other communicator that shares an endpoint with this one
                         // has it, nor had it if that one failed
  Rank rank = 0;         // this endpoint's
  std::vector<PeerId> peers{};  // by rank, all different; the own entry is not used
  CommunicatorOptions options{};
};

// Names a started collective; copyable. A default one is complete.
struct Request {
  std::uint32_t slot = ~0u;
  std::uint32_t generation = 0;
};

class CommunicatorState;

class Communicator {
 public:
  // Collectives started and not yet complete; beyond it a start answers `again`.
  static constexpr std::uint32_t kMaxStarted = 64;

  // Throws Error if the configuration is out of range.
  Communicator(CompletionRouter& router, const CommunicatorConfig& config);
  // May be called at any time; the router takes over what is still in flight (see its destructor).
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank ranks() const noexcept;

  // Starts. All answer
  //   ok: `request` is set · again: kMaxStarted are running; progress, then call again ·
  //   invalid_argument: out of range · else: the communicator is revoked, as failure() tells.
  // Buffers are aligned to their elements' size and may be null where their length is 0.

  // out[i] = in[i] of rank 0 op ... op in[i] of rank n - 1. In place: out = in.
  [[nodiscard]] Status all_reduce(const void* in, void* out, std::uint64_t count, DataType type,
                                  ReduceOp op, Request& request);
  // The same, but only rank `root` gets the result; at the others `out` is not used and may be
  // null.
  [[nodiscard]] Status reduce(const void* in, void* out, std::uint64_t count, DataType type,
                              ReduceOp op, Rank root, Request& request);
  // `in` has n · count elements, `out` gets those of block `rank`, reduced. In place: out = that
  // block.
  [[nodiscard]] Status reduce_scatter(const void* in, void* out, std::uint64_t count, DataType type,
                                      ReduceOp op, Request& request);
  // `out` gets the `bytes` of every rank, in order. In place: in = block `rank` of out.
  [[nodiscard]] Status all_gather(const void* in, void* out, std::uint64_t bytes, Request& request);
  // Block i of `in` goes to rank i; block j of `out` comes from rank j. In place: out = in.
  [[nodiscard]] Status all_to_all(const void* in, void* out, std::uint64_t bytes, Request& request);
  // The same with any lengths: to[i].bytes here equals from[rank].bytes at rank i. Out of place
  // only, as what comes may be longer than what has left. The two arrays, of n segments each, must
  // stay as long as the buffers.
  [[nodiscard]] Status all_to_all_v(const void* in, std::span<const Segment> to, void* out,
                                    std::span<const Segment> from, Request& request);
  [[nodiscard]] Status broadcast(void* data, std::uint64_t bytes, Rank root, Request& request);
  [[nodiscard]] Status barrier(Request& request);

  // One turn of the router.
  void progress();

  // again: running · ok: the result is in place, and the buffers are the caller's · else: it
  // failed. Makes no progress.
  [[nodiscard]] Status test(const Request& request) const;

  // Progresses until `test` says other than again.
  [[nodiscard]] Status wait(const Request& request);

  // The buffers are the caller's. Follows `ok` at once, a failure when its last operation has
  // completed; closing the endpoint makes sure that it does.
  [[nodiscard]] bool released(const Request& request) const;

  // Revokes the communicator at all members: rank `failed` has failed, for `reason` (other than ok
  // and again). For who knows better than the endpoint, or wants to stop. Without effect if
  // revoked.
  void abort(Rank failed, Status reason);

  // Null while the communicator works. Stays as it is.
  [[nodiscard]] const Failure* failure() const noexcept;

  // Nothing is in flight but the receives that listen for aborts; all neighbours have been told.
  [[nodiscard]] bool idle() const noexcept;

 private:
  CompletionRouter& router_;
  std::unique_ptr<CommunicatorState> state_;
};

}  // namespace hawser::coll
