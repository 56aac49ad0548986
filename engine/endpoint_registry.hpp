// SPDX-License-Identifier: Apache-2.0
// The endpoints that an engine has at the moment, so that inject_fault reaches them. Any thread.
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
  // Any thread. Why it can't be done, in a sentence; empty if it can.
  [[nodiscard]] virtual std::string complaint_about_fault(std::size_t nic,
                                                          std::string_view spec) const = 0;
  // Any thread. The target applies it by itself, soon.
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
  // At all endpoints or, if one of them can't, at none; then the answer says why.
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
