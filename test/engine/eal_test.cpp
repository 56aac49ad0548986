// SPDX-License-Identifier: Apache-2.0
// Engines in a program that has started DPDK's EAL: their endpoints' packets lie in rte_mempools.
#include <rte_mempool.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "test/engine/eal.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

constexpr unsigned kBuffers = 1024;

// The library's pools in EAL.
std::set<rte_mempool*> pools() {
  std::set<rte_mempool*> found;
  rte_mempool_walk(
      [](rte_mempool* pool, void* into) {
        const bool is_ours = std::string(pool->name).starts_with("hawser_");
        if (is_ours) static_cast<std::set<rte_mempool*>*>(into)->insert(pool);
      },
      &found);
  return found;
}

TEST_CASE("Eal__endpoints_exchange_messages_out_of_its_pools") {
  const Setting setting = GENERATE(from_range(all_settings()));
  const std::string faults = GENERATE("", "loss=0.05,duplicate=0.05,seed=3");
  CAPTURE(setting, faults);
  start_eal();
  const std::set<rte_mempool*> before = pools();
  {
    Tunables tunables = short_close();
    tunables.packet_buffers = kBuffers;
    EndpointPair pair(setting, tunables, 2, faults);
    for (int i = 0; i < 20; ++i) check_that_messages_pass(pair);
    const std::set<rte_mempool*> now = pools();
    CHECK(now.size() == before.size() + 2);
    for (rte_mempool* pool : now) {
      if (before.contains(pool)) continue;
      CHECK(pool->size == kBuffers);
      CHECK(rte_mempool_in_use_count(pool) > 0);
    }
  }
  CHECK(pools() == before);
}

}  // namespace
}  // namespace hawser::engine
