// SPDX-License-Identifier: Apache-2.0
// Discards what still arrives for communicators that were destroyed.
//
// A destroyed communicator has no receives, but other members may send to it until they learn that
// it is revoked, and abort messages come even later. Unmatched messages would hold descriptors of
// the endpoint for the life of their sessions. They are therefore claimed and received into nothing
// whenever the router looks. No receive stays posted for that.
//
// Everything for such a communicator is discarded, because its id is never used again. One that was
// not revoked has received all data of its collectives, so control messages can be left, and
// messages between two ranks that nobody has received.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll/route.hpp"
#include "hawser/engine.hpp"

namespace hawser::coll {

class Leftovers final : public Route {
 public:
  // The ids that it remembers. Older ones are forgotten, with whatever is still on its way to them.
  static constexpr std::size_t kMostIds = 64;

  explicit Leftovers(Endpoint& endpoint) : endpoint_(endpoint) { ids_.reserve(kMostIds); }

  // Requires the upper 16 bits of user_data, as the router assigns them.
  void set_route(std::uint64_t route) noexcept { route_ = route; }

  // A communicator of this id was destroyed.
  void add(std::uint32_t id);
  [[nodiscard]] bool has(std::uint32_t id) const noexcept {
    return std::find(ids_.begin(), ids_.end(), id) != ids_.end();
  }

  void on_completion(const Completion&) override { --in_flight_; }
  void advance() override {}
  void look() override;
  [[nodiscard]] bool busy() const noexcept override { return false; }
  [[nodiscard]] bool held_back() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t in_flight() const noexcept override { return in_flight_; }
  void retire() override {}

 private:
  [[nodiscard]] bool discard_one(std::uint32_t id);

  Endpoint& endpoint_;
  std::uint64_t route_ = 0;
  std::vector<std::uint32_t> ids_;  // oldest first
  std::size_t next_ = 0;            // of ids_: where the next look begins
  std::uint64_t in_flight_ = 0;
};

}  // namespace hawser::coll
