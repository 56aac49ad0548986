// SPDX-License-Identifier: Apache-2.0
// The registered memory of one endpoint: the program's registrations, the cache, and the thread
// that may block for them. If no NIC pins memory, there is no thread and nothing to cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/registration/cache_registrar.hpp"
#include "engine/registration/news.hpp"
#include "engine/registration/pinning.hpp"
#include "engine/registration/registration_cache.hpp"
#include "engine/registration/registrations.hpp"
#include "engine/registration/userfault.hpp"
#include "hawser/stats.hpp"
#include "hawser/tunables.hpp"

namespace hawser::engine {

class EndpointMemory {
 public:
  // The NICs outlive this. Throws hawser::Error.
  EndpointMemory(const Tunables& tunables, const std::vector<proto::Nic*>& nics);
  ~EndpointMemory();
  EndpointMemory(const EndpointMemory&) = delete;
  EndpointMemory& operator=(const EndpointMemory&) = delete;

  [[nodiscard]] Registrations& registrations() { return registrations_; }
  // Explains in a sentence why sends' memory is not registered automatically; empty if it is.
  [[nodiscard]] const std::string& why_no_cache() const { return why_no_cache_; }
  // Readable when turn has work; -1 if it never has.
  [[nodiscard]] int descriptor() const { return pinning_.empty() ? -1 : news_.descriptor(); }

  // For the datapath: send is called when a send begins, turn once a turn. add_to adds to the
  // endpoint's statistics.
  void send(const void* data, std::uint64_t bytes) {
    if (cache_) cache_->send(data, bytes);
  }
  void turn();
  void add_to(EndpointStats& stats) const;

 private:
  void start_cache(const Tunables& tunables);
  void wake() const;
  void run();
  void tell_of_refusal();

  Pinning pinning_;
  News news_;
  Descriptor wake_;
  std::string why_no_cache_;
  Registrations registrations_;
  std::shared_ptr<Userfault> userfault_;
  std::optional<CacheRegistrar> registrar_;
  std::optional<RegistrationCache> cache_;
  std::atomic<bool> stopping_{false};
  bool told_of_refusal_ = false;  // used by the helping thread
  std::thread thread_;
};

// Describes the cache on this host in a sentence, for `hawser info`.
[[nodiscard]] std::string describe_registration_cache(const Tunables& tunables);

}  // namespace hawser::engine
