// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/senders.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "proto/wire/layout.hpp"
#include "sim/baseline/baseline_run.hpp"
#include "sim/baseline/named.hpp"
#include "sim/core/pool.hpp"

namespace hawser::experiment {

namespace {

constexpr std::size_t kPoolBuffers = 4096;  // of headers, for all hosts: fabric_nic.hpp
constexpr std::array<std::string_view, 3> kNames{"hawser", "hawser:no_spraying", "hawser:no_hints"};

// The protocol, and the parts that its hosts share.
class Hawser final : public Carrier {
 public:
  Hawser(const SenderWorld& world, const HostConfig& config, Hints hints)
      : slots_(config.nic.max_datagram_bytes),
        run_({world.events, world.network, pool_, slots_}, world.matrix, config, world.nics,
             hints) {}

  [[nodiscard]] bool connect(fabric::Span most) override { return run_.connect(most); }
  [[nodiscard]] bool run(fabric::Span most) override { return run_.run(most); }
  [[nodiscard]] fabric::Instant begun() const override { return run_.begun(); }
  [[nodiscard]] const FlowTimes& times(std::uint32_t connection) const override {
    return run_.times(connection);
  }
  [[nodiscard]] CarrierTotals totals() const override { return run_.totals(); }
  [[nodiscard]] const std::vector<Accusation>* accusations() const override {
    return run_.accusations();
  }

 private:
  sim::Pool pool_{kPoolBuffers};
  ViewSlots slots_;
  MatrixRun run_;
};

}  // namespace

std::span<const std::string_view> sender_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all(kNames.begin(), kNames.end());
    for (const baseline::Baseline& one : baseline::baselines()) all.push_back(one.name);
    return all;
  }();
  return names;
}

std::unique_ptr<Carrier> make_carrier(std::string_view name, const SenderWorld& world) {
  if (std::ranges::find(kNames, name) == kNames.end()) {
    baseline::Setup setup;  // headers as long as Hawser's own
    const std::uint32_t outside = world.nic.overhead_bytes;
    setup.sizes.overhead = outside + static_cast<std::uint32_t>(proto::wire::kDataHeaderBytes);
    setup.sizes.ack = outside + static_cast<std::uint32_t>(sizeof(proto::wire::CommonHeader));
    setup.seed = world.seed;
    return std::make_unique<baseline::BaselineRun>(world.events, world.network, world.matrix,
                                                   baseline::baseline(name), setup, world.nics);
  }
  HostConfig config;
  config.nic = world.nic;
  config.endpoint.seed = world.seed;
  if (name == "hawser:no_spraying") config.nic.entropies = 1;
  return std::make_unique<Hawser>(world, config,
                                  name == "hawser:no_hints" ? Hints::none : world.hints);
}

}  // namespace hawser::experiment
