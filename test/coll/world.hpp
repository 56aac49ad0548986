// SPDX-License-Identifier: Apache-2.0
// N ranks in one thread: a router and a communicator each, over loopback endpoints.
// The collectives' buffers must outlive it: declare them first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hawser/collectives.hpp"
#include "proto/base/random.hpp"
#include "test/support/loopback_endpoints.hpp"

namespace hawser::test {

class World {
 public:
  World(std::uint32_t ranks, const LoopbackOptions& network_options,
        const coll::CommunicatorOptions& options = {}, std::uint32_t id = 7,
        const std::vector<std::uint8_t>& bandwidths = {});

  [[nodiscard]] std::uint32_t ranks() const {
    return static_cast<std::uint32_t>(communicators.size());
  }
  [[nodiscard]] coll::CommunicatorConfig config(std::uint32_t rank, std::uint32_t id) const;

  // Takes a turn of one living rank, drawn at random.
  void step(proto::Random& random);
  // Steps until `done`; false if it still isn't after so many steps per rank that something hangs.
  [[nodiscard]] bool run_until(proto::Random& random, const std::function<bool()>& done);
  void kill(std::uint32_t rank);
  // Takes turns until only listeners are pending.
  [[nodiscard]] bool settle(proto::Random& random);

  LoopbackNetwork network;
  std::vector<std::unique_ptr<coll::CompletionRouter>> routers;
  std::vector<std::unique_ptr<coll::Communicator>> communicators;
  std::vector<bool> alive;
  coll::CommunicatorOptions options;
  std::vector<std::uint8_t> bandwidths;
};

}  // namespace hawser::test
