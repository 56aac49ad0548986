// SPDX-License-Identifier: Apache-2.0
#include "proto/region/regions.hpp"

#include "proto/base/assert.hpp"

namespace hawser::proto {

std::optional<SlabId> Regions::expose(std::byte* data, std::uint64_t bytes, RegionAccess rights,
                                      std::uint64_t secret, Placement& placement) {
  HAWSER_ASSERT(data != nullptr && secret != 0);
  SlabId id;
  Region* const region = regions_.try_allocate(id);
  if (region == nullptr) return std::nullopt;
  region->data = data;
  region->bytes = bytes;
  region->secret = secret;
  region->placement = &placement;
  region->rights = rights;
  return id;
}

const Region* Regions::find(SlabId id) const {
  const Region* const region = regions_.get(id);
  return region != nullptr && !region->withdrawn ? region : nullptr;
}

bool Regions::withdraw(SlabId id, Withdrawal withdrawal) {
  Region& region = regions_.at(id.index);
  HAWSER_ASSERT(!region.withdrawn);
  region.withdrawn = true;
  region.withdrawal = withdrawal;
  if (region.readers > 0) return false;
  regions_.free(id.index);
  return true;
}

// All wrong keys get one answer, so that a secret can't be found piece by piece.
Reach Regions::check(const Claimed& claimed, RegionAccess wanted) {
  const SlabId id{claimed.region, claimed.generation};
  const Region* const region = find(id);
  if (region == nullptr || region->secret != claimed.secret || !allows(region->rights, wanted) ||
      claimed.offset > region->bytes || claimed.bytes > region->bytes - claimed.offset) {
    return {.denial = wire::MessageStatus::access_denied};
  }
  return {.region = id, .at = region->data + claimed.offset, .placement = region->placement};
}

Reach Regions::check_word(const Claimed& claimed) {
  const Reach reach = check(claimed, RegionAccess::atomic);
  if (!reach.is_granted() || reinterpret_cast<std::uintptr_t>(reach.at) % claimed.bytes == 0)
    return reach;
  return {.denial = wire::MessageStatus::misaligned};
}

Placement* Regions::still_granted(SlabId id) const {
  const Region* const region = find(id);
  return region == nullptr ? nullptr : region->placement;
}

Withdrawal Regions::end_reading(SlabId id) {
  Region& region = regions_.at(id.index);
  HAWSER_ASSERT(region.readers > 0);
  if (--region.readers > 0 || !region.withdrawn) return {};
  const Withdrawal withdrawal = region.withdrawal;
  regions_.free(id.index);
  return withdrawal;
}

}  // namespace hawser::proto
