// SPDX-License-Identifier: Apache-2.0
#include "test/coll/engine_world.hpp"

#include <catch2/catch.hpp>

namespace hawser::test {

EngineWorld::EngineWorld(const EngineWorldConfig& config) {
  static int fabrics = 0;
  const std::string nic = "memory:collectives-" + std::to_string(++fabrics);
  for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
    Tunables tunables = config.tunables;
    tunables.close_timeout_ms = 10;  // one thread closes them in turn: no peer answers
    std::string faults = config.faults;
    if (!faults.empty()) faults += ",seed=" + std::to_string(rank + 1);
    engines_.push_back(std::make_unique<Engine>(EngineConfig{
        .nics = {nic, nic}, .threads = config.threads, .tunables = tunables, .faults = faults}));
    endpoints_.push_back(
        engines_.back()->create_endpoint({.endpoint_id = rank + 1, .epoch = 1, .job_secret = {}}));
  }
  for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
    coll::CommunicatorConfig communicator{.id = 3, .rank = rank, .options = config.options};
    communicator.peers.resize(config.ranks);
    for (std::uint32_t other = 0; other < config.ranks; ++other) {
      if (other == rank) continue;
      REQUIRE(endpoints_[rank]->connect(endpoints_[other]->address(), communicator.peers[other]) ==
              Status::ok);
    }
    routers.push_back(std::make_unique<coll::CompletionRouter>(*endpoints_[rank]));
    communicators.push_back(std::make_unique<coll::Communicator>(*routers[rank], communicator));
  }
}

}  // namespace hawser::test
