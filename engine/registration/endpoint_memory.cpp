// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/endpoint_memory.hpp"

#include <string_view>

#include "engine/background_thread.hpp"
#include "engine/driver/event_descriptor.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/log.hpp"

namespace hawser::engine {
namespace {

bool is_wanted(const Tunables& tunables) {
  return tunables.registration_cache_bytes > 0 && tunables.registration_cache_entries > 0;
}

// Explains why there is no cache; empty if there is one.
std::string complaint(const Tunables& tunables, std::shared_ptr<Userfault>& userfault) {
  if (!is_wanted(tunables)) return "its tunables turn it off";
  if (!registered_memory_survives_fork()) {
    return "after a fork the device would read stale pages (Linux 5.12 or later prevents that)";
  }
  std::string why;
  userfault = Userfault::shared(why);
  return why;
}

}  // namespace

EndpointMemory::EndpointMemory(const Tunables& tunables, const std::vector<proto::Nic*>& nics)
    : pinning_(nics),
      wake_(make_event_descriptor("Registration")),
      registrations_(tunables.max_registrations, pinning_, [this] { wake(); }) {
  if (pinning_.empty()) {
    why_no_cache_ = "no NIC needs registered memory";
    return;
  }
  start_cache(tunables);
  thread_ = start_background_thread("hawser-memory", [this] { run(); });
}

void EndpointMemory::start_cache(const Tunables& tunables) {
  why_no_cache_ = complaint(tunables, userfault_);
  if (!why_no_cache_.empty()) {
    if (is_wanted(tunables)) {
      log_warning("Sends from memory that the program doesn't register are copied: " +
                  why_no_cache_);
    }
    return;
  }
  registrar_.emplace(tunables.registration_cache_entries, pinning_, *userfault_, news_,
                     [this] { wake(); });
  cache_.emplace(
      RegistrationLimits{tunables.registration_cache_bytes, tunables.registration_cache_entries,
                         tunables.registration_min_bytes},
      *registrar_);
}

EndpointMemory::~EndpointMemory() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

void EndpointMemory::turn() {
  registrations_.turn();
  if (!cache_) return;
  if (news_.take()) registrar_->deliver(*cache_);
  cache_->turn();
}

void EndpointMemory::wake() const { raise_event(wake_.get()); }

void EndpointMemory::run() {
  while (!stopping_.load(std::memory_order_acquire)) {
    wait_for_event(wake_.get(), -1);
    lower_event(wake_.get());
    registrations_.serve();
    if (!registrar_) continue;
    registrar_->serve();
    tell_of_refusal();
  }
}

void EndpointMemory::tell_of_refusal() {
  const Status refusal = registrar_->take_refusal();
  if (refusal == Status::ok || told_of_refusal_) return;
  told_of_refusal_ = true;
  log_warning(
      refusal == Status::lock_limit
          ? std::string_view("The memory of sends can't be locked for the devices, so the engine "
                             "copies it; raise the limit (`ulimit -l unlimited`, or memlock in "
                             "/etc/security/limits.conf), or lower registration_cache_bytes")
          : std::string_view(
                "A device refuses to register the memory of sends, so the engine copies it"));
}

void EndpointMemory::add_to(EndpointStats& stats) const {
  stats.registrations = registrations_.count();
  stats.registered_bytes = registrations_.bytes();
  if (!cache_) return;
  stats.registrations += cache_->registrations();
  stats.registered_bytes += cache_->bytes();
  const RegistrationStats& cache = cache_->stats();
  stats.registration_hits = cache.hits;
  stats.registration_misses = cache.misses;
  stats.registrations_made = cache.made;
  stats.registrations_refused = cache.refused;
  stats.registrations_evicted = cache.evicted;
  stats.registrations_stale = cache.stale;
}

std::string describe_registration_cache(const Tunables& tunables) {
  std::shared_ptr<Userfault> userfault;
  const std::string why = verbs_ports().empty() ? "no NIC listed here needs registered memory"
                                                : complaint(tunables, userfault);
  if (!why.empty()) return "off: " + why;
  return "on: the memory of sends stays registered until it is unmapped";
}

}  // namespace hawser::engine
