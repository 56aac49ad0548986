// SPDX-License-Identifier: Apache-2.0
// Ranks of one process over real engines: an engine, an endpoint, a router and a communicator each.
// The engines run in real time, but no test measures it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hawser/collectives.hpp"
#include "hawser/engine.hpp"

namespace hawser::test {

struct EngineWorldConfig {
  std::uint32_t ranks = 2;
  unsigned threads = 0;  // of each engine
  Tunables tunables{};
  std::string faults{};
  coll::CommunicatorOptions options{};
};

class EngineWorld {
 public:
  explicit EngineWorld(const EngineWorldConfig& config);

  [[nodiscard]] std::uint32_t ranks() const {
    return static_cast<std::uint32_t>(communicators.size());
  }
  [[nodiscard]] Endpoint& endpoint(std::uint32_t rank) { return *endpoints_[rank]; }
  [[nodiscard]] Engine& engine(std::uint32_t rank) { return *engines_[rank]; }

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;

 public:
  std::vector<std::unique_ptr<coll::CompletionRouter>> routers;
  std::vector<std::unique_ptr<coll::Communicator>> communicators;
};

}  // namespace hawser::test
