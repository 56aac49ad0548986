// The endpoints that an engine has at the moment, so that inject_fault reaches them. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <vector>

namespace hawser::engine {

class FaultTarget {
 public:
  virtual ~FaultTarget() = default;
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
  void inject_fault(std::size_t nic, std::string_view spec) {
    const std::lock_guard lock(mutex_);
    for (FaultTarget* endpoint : endpoints_) endpoint->inject_fault(nic, spec);
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
