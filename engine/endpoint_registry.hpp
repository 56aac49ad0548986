// SPDX-License-Identifier: Apache-2.0
// The current endpoints of an engine, so that inject_fault reaches them. For any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::engine {

class FaultTarget {
 public:
  virtual ~FaultTarget() = default;
  // For any thread. Explains in a sentence why the fault can't be injected; empty if it can.
  [[nodiscard]] virtual std::string complaint_about_fault(std::size_t nic,
                                                          std::string_view spec) const = 0;
  // For any thread. The target applies the fault by itself, soon.
  virtual void inject_fault(std::size_t nic, std::string_view spec) = 0;
};

class EndpointRegistry {
 public:
  void add(FaultTarget& endpoint) {
    const std::lock_guard lock(mutex_);
    endpoints_.push_back(&endpoint);
  }
  void remove(FaultTarget& endpoint) {
    const std::lock_guard lock(mutex_);
    std::erase(endpoints_, &endpoint);
  }
  // Injects the fault at all endpoints. If one of them can't, it injects at none and returns the
  // reason.
  [[nodiscard]] std::string inject_fault(std::size_t nic, std::string_view spec) {
    const std::lock_guard lock(mutex_);
    for (const FaultTarget* endpoint : endpoints_) {
      std::string complaint = endpoint->complaint_about_fault(nic, spec);
      if (!complaint.empty()) return complaint;
    }
    for (FaultTarget* endpoint : endpoints_) endpoint->inject_fault(nic, spec);
    return {};
  }
  [[nodiscard]] bool empty() const {
    const std::lock_guard lock(mutex_);
    return endpoints_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<FaultTarget*> endpoints_;
};

}  // namespace hawser::engine
