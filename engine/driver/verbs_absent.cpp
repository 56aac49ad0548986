// A build without libibverbs.
#include "engine/driver/verbs.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {

std::unique_ptr<proto::Nic> open_verbs_nic(const VerbsNicConfig& config, proto::PacketPool&) {
  throw Error("verbs:" + to_string(config.port) +
              ": this build has no RDMA verbs; install libibverbs-dev and build again, or use "
              "udp:ADDRESS");
}

std::vector<VerbsPortInfo> verbs_ports() { return {}; }

std::vector<std::uint16_t> roce_source_ports() { return {}; }

bool has_verbs() noexcept { return false; }

bool registered_memory_survives_fork() noexcept { return true; }

}  // namespace hawser::engine
