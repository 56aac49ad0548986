// SPDX-License-Identifier: Apache-2.0
// The verbs driver of a build without libibverbs.
#include "engine/driver/verbs/verbs.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {

namespace {

std::string refusal(const VerbsPortName& name) {
  return "verbs:" + to_string(name) +
         ": this build has no RDMA verbs; install libibverbs-dev and build again, or use "
         "udp:ADDRESS";
}

}  // namespace

std::unique_ptr<proto::Nic> open_verbs_nic(const VerbsNicConfig& config, proto::PacketPool&) {
  throw Error(refusal(config.port));
}

VerbsPortInfo verbs_port(const VerbsPortName& name) {
  return {.name = to_string(name), .description = refusal(name)};
}

std::vector<VerbsPortInfo> verbs_ports() { return {}; }

std::vector<std::uint16_t> roce_source_ports() { return {}; }

bool has_verbs() noexcept { return false; }

bool registered_memory_survives_fork() noexcept { return true; }

}  // namespace hawser::engine
