// SPDX-License-Identifier: Apache-2.0
#include "proto/region/regions.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"

namespace hawser::proto {

std::optional<SlabId> Regions::expose(const ExposeRequest& request, std::uint64_t secret,
                                      Placement& placement) {
  HAWSER_ASSERT(request.data != nullptr && secret != 0);
  SlabId id;
  Region* const region = regions_.try_allocate(id);
  if (region == nullptr) return std::nullopt;
  region->data = static_cast<std::byte*>(request.data);
  region->bytes = request.bytes;
  region->secret = secret;
  region->user_data = request.user_data;
  region->placement = &placement;
  region->rights = request.access;
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

void Regions::note_unfinished(SlabId id, std::uint64_t offset, std::uint64_t bytes) {
  Region* const region = regions_.get(id);
  if (region == nullptr) return;
  RegionStats& left = region->left;
  const bool is_first = left.unfinished_writes++ == 0;
  left.unfinished_from = is_first ? offset : std::min(left.unfinished_from, offset);
  left.unfinished_to = std::max(left.unfinished_to, offset + bytes);
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
