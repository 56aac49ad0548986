// SPDX-License-Identifier: Apache-2.0
// The settings of Hawser's endpoints in a comparison.
#pragma once

#include <string>

#include "bench/compare/transport.hpp"
#include "engine/settings.hpp"
#include "hawser/engine.hpp"

namespace hawser::bench {

inline EngineConfig engine_config(const TransportOptions& options) {
  EngineConfig config;
  config.nics = options.server ? options.server_nics : options.client_nics;
  for (unsigned i = config.nics.empty() ? 0 : options.nics; i < options.nics; ++i) {
    config.nics.push_back("udp:127.0." + std::string(options.server ? "2." : "1.") +
                          std::to_string(i + 1));
  }
  config.faults = options.faults;
  // Each process has a core of its own. An emulated RDMA device may need it too: its work may be
  // done by kernel threads.
  if (options.client_nics.empty()) config.tunables.spin_us = 1000000;
  return config;
}

// Settings as an Engine makes them. An Engine has no way to turn the checksum off.
inline engine::EngineSettings engine_settings(const TransportOptions& options) {
  engine::EngineSettings settings = engine::check(engine_config(options));
  settings.udp_checksum = options.checksum;
  return settings;
}

}  // namespace hawser::bench
