// SPDX-License-Identifier: Apache-2.0
// Shares one endpoint between communicators and the application.
//
// An endpoint has one stream of completions, and only the router reads it. user_data tells which
// route (a communicator) posted the operation and gets its completion:
//
//   | 63: 1 | 62..48: route | 47..0: the route's own |        bit 63 = 0: the application's
//
// CompletionRouter (hawser/collectives.hpp) is what its users hold.
#pragma once

#include <algorithm>
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

class Router {
 public:
  explicit Router(Endpoint& endpoint);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  [[nodiscard]] Endpoint& endpoint() noexcept { return endpoint_; }

  // As the calls of CompletionRouter.
  void progress();
  void wait(std::uint64_t timeout_ns);
  std::size_t take(std::span<Completion> completions);
  [[nodiscard]] bool quiet() const noexcept;

  // For communicators. Throws Error if there are 32767 already.
  [[nodiscard]] std::uint64_t add(Route& route);  // returns the upper 16 bits of its user_data
  // Takes over a route whose owner has gone, until its last operation has completed.
  void adopt(std::uint64_t mark, std::unique_ptr<Route> route);

  // For communicators: one of this id has ended, so the router discards what still arrives for it.
  void discard(std::uint32_t id) { leftovers_.add(id); }

  // For communicators: the lowest id above all that it has had.
  [[nodiscard]] std::uint32_t next_id() const noexcept { return next_id_; }
  void note_id(std::uint32_t id) noexcept { next_id_ = std::max(next_id_, id + 1); }
  // Whether a communicator with this id is there, or one was destroyed lately.
  [[nodiscard]] bool knows_id(std::uint32_t id) const noexcept;

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
  std::uint32_t next_id_ = 0;
  bool unflushed_ = false;
};

}  // namespace hawser::coll
