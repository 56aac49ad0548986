// SPDX-License-Identifier: Apache-2.0
// The configuration with which driver tests make verbs NICs, on any port.
#pragma once

#include <memory>
#include <string>

#include "engine/driver/verbs/verbs_nic.hpp"
#include "test/engine/driver/conformance/rig.hpp"

namespace hawser::test {

// Tests fail NICs again and again, so only the tests of damping let a NIC be held down.
inline engine::VerbsNicConfig verbs_config(const std::string& port) {
  return {.port = engine::parse_verbs_port(port),
          .qkey = 0x12345,
          .receive_bytes = 1 << 20,
          .send_slots = 256,
          .max_remotes = kRigRemotes,
          .max_regions = 16,
          .entropies = 4,
          .longest_hold = {}};
}

enum class Registered { nothing, headers };

inline std::unique_ptr<engine::VerbsNic> make_verbs_nic(const engine::VerbsNicConfig& config,
                                                        Registered registered, SimplePool& pool) {
  auto nic = std::make_unique<engine::VerbsNic>(config, pool);
  if (registered == Registered::headers) {
    REQUIRE(nic->register_memory(pool.memory().data(), pool.memory().size()) == Status::ok);
  }
  return nic;
}

}  // namespace hawser::test
