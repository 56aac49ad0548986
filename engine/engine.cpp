// SPDX-License-Identifier: Apache-2.0
#include "hawser/engine.hpp"

#include <algorithm>
#include <utility>

#include "engine/cancellation.hpp"
#include "engine/endpoint_registry.hpp"
#include "engine/engine_thread.hpp"
#include "engine/inline_endpoint.hpp"
#include "engine/log.hpp"
#include "engine/own_process.hpp"
#include "engine/settings.hpp"
#include "engine/threaded_endpoint.hpp"
#include "hawser/faults.hpp"
#include "proto/base/assert.hpp"

namespace hawser {

struct Engine::State {
  explicit State(const EngineConfig& config) : settings(engine::check(config)) {
    for (unsigned i = 0; i < settings.threads; ++i) {
      threads.push_back(std::make_unique<engine::EngineThread>(settings.tunables, i));
    }
  }

  engine::OwnProcess owner;
  engine::EngineSettings settings;
  engine::EndpointRegistry registry;
  std::vector<std::unique_ptr<engine::EngineThread>> threads;
};

Engine::Engine(EngineConfig config) {
  const engine::CancellationHold hold;
  state_ = std::make_unique<State>(config);
}

// In a child of fork the destructor does nothing, because the threads belong to the parent.
Engine::~Engine() {
  if (state_->owner.is_here()) {
    HAWSER_ASSERT(state_->registry.empty(), "an endpoint outlives its engine");
    const engine::CancellationHold hold;
    state_.reset();
  } else {
    static_cast<void>(state_.release());
  }
}

std::unique_ptr<Endpoint> Engine::create_endpoint(const EndpointConfig& config) {
  if (!state_->owner.is_here()) {
    throw Error(
        "This engine belongs to the process that created it; after a fork, the child must create "
        "its own");
  }
  const engine::CancellationHold hold;
  if (state_->threads.empty()) {
    return std::make_unique<engine::InlineEndpoint>(state_->settings, config, state_->registry);
  }
  const auto least = std::ranges::min_element(state_->threads, {},
                                              [](const auto& thread) { return thread->load(); });
  return std::make_unique<engine::ThreadedEndpoint>(state_->settings, config, state_->registry,
                                                    **least);
}

std::size_t Engine::nic_count() const noexcept { return state_->settings.nics.size(); }

Status Engine::inject_fault(std::size_t nic, std::string_view spec) {
  if (!state_->owner.is_here()) return Status::unsupported;
  if (!state_->settings.has_fault_layer()) return Status::unsupported;
  std::string complaint = complaint_about_faults(spec);
  if (nic >= nic_count()) complaint = "There is no NIC " + std::to_string(nic);
  if (!complaint.empty()) {
    engine::log_warning(complaint);
    return Status::invalid_argument;
  }
  complaint = state_->registry.inject_fault(nic, spec);
  if (!complaint.empty()) {
    engine::log_warning(complaint);
    return Status::unsupported;
  }
  return Status::ok;
}

}  // namespace hawser
