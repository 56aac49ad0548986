// SPDX-License-Identifier: Apache-2.0
#include "test/coll/world.hpp"

namespace hawser::test {

World::World(std::uint32_t ranks, const LoopbackOptions& network_options,
             const coll::CommunicatorOptions& communicator_options, std::uint32_t id,
             const std::vector<std::uint8_t>& given_bandwidths)
    : network(ranks, network_options),
      routers(ranks),
      communicators(ranks),
      alive(ranks, true),
      options(communicator_options),
      bandwidths(given_bandwidths) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    routers[rank] = std::make_unique<coll::CompletionRouter>(network.endpoint(rank));
    communicators[rank] = std::make_unique<coll::Communicator>(*routers[rank], config(rank, id));
  }
}

coll::CommunicatorConfig World::config(std::uint32_t rank, std::uint32_t id) const {
  coll::CommunicatorConfig config{
      .id = id, .rank = rank, .options = options, .bandwidths = bandwidths};
  for (std::uint32_t other = 0; other < alive.size(); ++other) {
    config.peers.push_back(network.peer(rank, other));
  }
  return config;
}

void World::step(proto::Random& random) {
  const std::uint64_t rank = random.below(routers.size());
  if (alive[rank]) routers[rank]->progress();
}

bool World::run_until(proto::Random& random, const std::function<bool()>& done) {
  const std::uint64_t limit = 200'000 * routers.size();
  for (std::uint64_t i = 0; i < limit; ++i) {
    if (i % routers.size() == 0 && done()) return true;
    step(random);
  }
  return done();
}

void World::kill(std::uint32_t rank) {
  alive[rank] = false;
  network.kill(rank);
}

bool World::settle(proto::Random& random) {
  return run_until(random, [this] {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      if (alive[rank] && !communicators[rank]->idle()) return false;
    }
    return true;
  });
}

}  // namespace hawser::test
