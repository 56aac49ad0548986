// SPDX-License-Identifier: Apache-2.0
#include "coll/bandwidth_follower.hpp"

#include <algorithm>
#include <limits>
#include <new>

namespace hawser::coll {
namespace {

constexpr std::uint8_t kMostNics = std::numeric_limits<std::uint8_t>::max();

// A silent path may be busy, so a suspect one still counts. At least 1: a rank that takes part has
// a NIC that works.
std::uint8_t working_nics(const Endpoint& endpoint) {
  const std::vector<NicStats> nics = endpoint.nic_stats();
  const auto works = [](const NicStats& nic) {
    return nic.state == PathState::up || nic.state == PathState::suspect;
  };
  const auto count = std::ranges::count_if(nics, works);
  return static_cast<std::uint8_t>(std::clamp<std::ptrdiff_t>(count, 1, kMostNics));
}

// In sixteenths of the rank with the most NICs, to nearest.
Bandwidth bandwidth_of(std::uint8_t nics, std::uint8_t most) {
  const unsigned sixteenths = (2u * kMostBandwidth * nics + most) / (2u * most);
  return static_cast<Bandwidth>(std::max(sixteenths, 1u));
}

}  // namespace

BandwidthFollower::BandwidthFollower(Rank ranks, Rank own, std::uint64_t check_bytes,
                                     std::uint32_t users)
    : own_(own), check_bytes_(check_bytes), reduced_(check_bytes), entries_(ranks) {
  bandwidths_.reserve(ranks);
  // One more for the next plans.
  for (std::uint32_t i = 0; i <= users; ++i) {
    orders_.push_back(std::make_shared<BandwidthOrder>());
    orders_.back()->reserve(ranks);
  }
}

void BandwidthFollower::count_all_reduce(std::uint64_t bytes) noexcept {
  reduced_ += std::min(bytes, std::numeric_limits<std::uint64_t>::max() - reduced_);
}

std::uint8_t BandwidthFollower::after(std::uint8_t found) noexcept {
  if (told_ == 0 || found == found_) told_ = found;
  found_ = found;
  return told_;
}

void BandwidthFollower::begin_check(const Endpoint& endpoint) {
  std::uint8_t found = std::max<std::uint8_t>(found_, 1);
  try {
    found = working_nics(endpoint);
  } catch (const std::bad_alloc&) {
    // The former finding is as good as any.
  }
  std::ranges::fill(entries_, std::uint8_t{0});
  entries_[own_] = after(found);
}

std::shared_ptr<const BandwidthOrder> BandwidthFollower::end_check() noexcept {
  const std::uint8_t most = std::max<std::uint8_t>(std::ranges::max(entries_), 1);
  bandwidths_.clear();
  for (const std::uint8_t nics : entries_) bandwidths_.push_back(bandwidth_of(nics, most));
  if (!are_unlike(bandwidths_)) return nullptr;
  for (const auto& order : orders_) {
    if (order.use_count() > 1 && std::ranges::equal(order->by_rank, bandwidths_)) return order;
  }
  const auto free =
      std::ranges::find_if(orders_, [](const auto& one) { return one.use_count() == 1; });
  (*free)->arrange(bandwidths_, own_);
  return *free;
}

}  // namespace hawser::coll
