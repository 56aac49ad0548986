// SPDX-License-Identifier: Apache-2.0
// Shares one endpoint between communicators and the application.
//
// An endpoint has one stream of completions, and only the router reads it. user_data tells which
// route (a communicator) posted the operation and gets its completion:
//
//   | 63: 1 | 62..48: route | 47..0: the route's own |        bit 63 = 0: the application's
//
// Threads: only one thread may use a router and all communicators on it.
// Lifetime: make the endpoint first, then the router, then communicators; destroy them in the
// opposite order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "coll/leftovers.hpp"
#include "coll/look_schedule.hpp"
#include "coll/route.hpp"
#include "hawser/engine.hpp"

namespace hawser::coll {

class CompletionRouter {
 public:
  explicit CompletionRouter(Endpoint& endpoint);
  // If operations of communicators are still pending, waits briefly for them, then closes the
  // endpoint, which ends them. All communicators must have been destroyed.
  ~CompletionRouter();
  CompletionRouter(const CompletionRouter&) = delete;
  CompletionRouter& operator=(const CompletionRouter&) = delete;

  [[nodiscard]] Endpoint& endpoint() noexcept { return endpoint_; }

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

  // For communicators. Throws Error if there are 32767 already.
  [[nodiscard]] std::uint64_t add(Route& route);  // returns the upper 16 bits of its user_data
  // Takes over a route whose owner has gone, until its last operation has completed.
  void adopt(std::uint64_t mark, std::unique_ptr<Route> route);

  // For communicators: one of this id has ended, so the router discards what still arrives for it.
  void discard(std::uint32_t id, bool revoked) { leftovers_.add(id, revoked); }

  // For communicators: Endpoint::send, and a note for the next flush.
  [[nodiscard]] Status send(const SendRequest& request, OperationId& operation);
  // Flushes the endpoint if communicators have sent anything since the last flush. Whoever lets a
  // communicator send between two turns calls this, because the caller may not poll soon, while
  // other ranks wait for the message.
  void flush();

 private:
  struct Entry {
    Route* route = nullptr;
    std::unique_ptr<Route> adopted;
  };

  static constexpr std::size_t kBatch = 64;

  void turn(std::uint64_t timeout_ns, bool may_block);
  void release_adopted();

  Endpoint& endpoint_;
  std::vector<Entry> entries_;
  Leftovers leftovers_;
  LookSchedule looks_;
  std::array<Completion, kBatch> batch_;
  std::deque<Completion> application_;
  bool unflushed_ = false;
};

}  // namespace hawser::coll
