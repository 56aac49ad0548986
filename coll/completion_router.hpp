// SPDX-License-Identifier: Apache-2.0
// Shares one endpoint between communicators and the application.
//
// An endpoint has one stream of completions, and the router is its only reader. A completion goes
// to the route (a communicator) that posted the operation, told by user_data:
//
//   | 63: 1 | 62..48: route | 47..0: the route's own |        bit 63 = 0: the application's
//
// Threads: one thread uses a router and all communicators on it.
// Lifetime: endpoint, then router, then communicators are made; they end in the opposite order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser::coll {

// Who posts operations through a router.
class Route {
 public:
  virtual ~Route() = default;

  virtual void on_completion(const Completion& completion) = 0;
  // Once a turn, after its completions: post what has become possible.
  virtual void advance() = 0;
  // There is something to do without a further completion: the router must not block.
  [[nodiscard]] virtual bool busy() const noexcept = 0;
  // The endpoint answered `again`: the router must not block for long.
  [[nodiscard]] virtual bool held_back() const noexcept = 0;
  // Operations whose last completion is outstanding.
  [[nodiscard]] virtual std::uint64_t in_flight() const noexcept = 0;
  // The owner has gone: post nothing more, cancel what can be cancelled.
  virtual void retire() = 0;
};

class CompletionRouter {
 public:
  explicit CompletionRouter(Endpoint& endpoint);
  // If operations of communicators are still pending, waits a moment for them, then closes the
  // endpoint, which ends them. No communicator may be left.
  ~CompletionRouter();
  CompletionRouter(const CompletionRouter&) = delete;
  CompletionRouter& operator=(const CompletionRouter&) = delete;

  [[nodiscard]] Endpoint& endpoint() noexcept { return endpoint_; }

  // One turn: polls the endpoint once, hands out what completed, advances every communicator.
  void progress();

  // As progress, but waits up to `timeout_ns` for the first completion if there is nothing to do.
  void wait(std::uint64_t timeout_ns);

  // Completions of the application's own operations, oldest first; returns how many. They are kept
  // until they are taken, so never more than the operations that the application has posted.
  std::size_t take(std::span<Completion> completions);

  // No operation of any communicator, past or present, is outstanding.
  [[nodiscard]] bool quiet() const noexcept;

  // For communicators. Throws Error when 32768 are there.
  [[nodiscard]] std::uint64_t add(Route& route);  // returns the upper 16 bits of its user_data
  // Takes over a route whose owner has gone, until its last operation has completed.
  void adopt(std::uint64_t mark, std::unique_ptr<Route> route);

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
  std::array<Completion, kBatch> batch_;
  std::deque<Completion> application_;
};

}  // namespace hawser::coll
