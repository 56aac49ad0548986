// SPDX-License-Identifier: Apache-2.0
#include "tool/run/exposure.hpp"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

void check(Status status, std::string_view what) {
  if (status == Status::ok) return;
  throw Error(
      fmt::format("cannot {} memory for one-sided operations: {}", what, to_string(status)));
}

// The completion says that no NIC reads the memory any more. The memory stays, so nobody waits for
// it.
void withdraw(Endpoint& endpoint, RegionId region) {
  if (region == kNoRegion) return;
  OperationId operation = kNoOperation;
  check(endpoint.withdraw(region, 0, operation), "withdraw");
}

}  // namespace

Exposure::Exposure(std::span<std::byte> window, std::uint32_t ranks)
    : window_(window), counters_(ranks) {}

void Exposure::renew(Endpoint& endpoint) {
  withdraw(endpoint, window_region_);
  withdraw(endpoint, counters_region_);
  std::fill(counters_.begin(), counters_.end(), 0);
  check(endpoint.expose(
            {.data = window_.data(), .bytes = window_.size(), .access = RegionAccess::all},
            window_region_),
        "expose");
  check(endpoint.expose({.data = counters_.data(),
                         .bytes = counters_.size() * sizeof(std::uint64_t),
                         .access = RegionAccess::atomic},
                        counters_region_),
        "expose");
  check(endpoint.region_key(window_region_, keys_.window), "name");
  check(endpoint.region_key(counters_region_, keys_.counters), "name");
}

std::uint64_t Exposure::signals_of(std::uint32_t rank) const {
  return std::atomic_ref(counters_[rank]).load(std::memory_order_acquire);
}

}  // namespace hawser::tool
