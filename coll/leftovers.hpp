// SPDX-License-Identifier: Apache-2.0
// Discards what still arrives for communicators that were destroyed.
//
// A destroyed communicator has no receives, but other members may send to it until they learn that
// it is revoked, and abort messages come even later. Unmatched messages would hold descriptors of
// the endpoint for the life of their sessions. They are therefore claimed and received into nothing
// whenever the router looks. No receive stays posted for that.
//
// Everything for a revoked communicator is discarded, because its id is never used again. A healthy
// one has received all its data, so only control messages can be left.
#pragma once

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
  void add(std::uint32_t id, bool revoked);

  void on_completion(const Completion&) override { --in_flight_; }
  void advance() override {}
  void look() override;
  [[nodiscard]] bool busy() const noexcept override { return false; }
  [[nodiscard]] bool held_back() const noexcept override { return false; }
  [[nodiscard]] std::uint64_t in_flight() const noexcept override { return in_flight_; }
  void retire() override {}

 private:
  struct Departed {
    std::uint32_t id = 0;
    bool revoked = false;
  };

  [[nodiscard]] bool discard_one(const Departed& departed);

  Endpoint& endpoint_;
  std::uint64_t route_ = 0;
  std::vector<Departed> ids_;  // oldest first
  std::size_t next_ = 0;       // of ids_: where the next look begins
  std::uint64_t in_flight_ = 0;
};

}  // namespace hawser::coll
