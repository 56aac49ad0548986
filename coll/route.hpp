// SPDX-License-Identifier: Apache-2.0
// What a completion router serves: an object that posts operations through it.
#pragma once

#include <cstdint>

#include "hawser/types.hpp"

namespace hawser::coll {

class Route {
 public:
  virtual ~Route() = default;

  virtual void on_completion(const Completion& completion) = 0;
  // Called once a turn, after its completions: posts what has become possible.
  virtual void advance() = 0;
  // Called now and then, mostly in long idle times: looks for messages that no receive will take.
  // It may cost an engine thread's turn.
  virtual void look() = 0;
  // True if there is work without a further completion: the router must not block.
  [[nodiscard]] virtual bool busy() const noexcept = 0;
  // True if the endpoint has returned `again`: the router must not block for long.
  [[nodiscard]] virtual bool held_back() const noexcept = 0;
  // The number of operations whose last completion is outstanding.
  [[nodiscard]] virtual std::uint64_t in_flight() const noexcept = 0;
  // The id of the communicator; kNoId: it is none.
  static constexpr std::uint32_t kNoId = ~0u;
  [[nodiscard]] virtual std::uint32_t id() const noexcept { return kNoId; }
  // The owner has gone: posts nothing more, and cancels what can be cancelled.
  virtual void retire() = 0;
};

}  // namespace hawser::coll
