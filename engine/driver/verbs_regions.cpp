#include "engine/driver/verbs_regions.hpp"

#include <algorithm>
#include <utility>

namespace hawser::engine {

VerbsRegions::VerbsRegions(ibv_pd* domain, std::size_t capacity) : domain_(domain) {
  regions_.reserve(capacity);
}

std::vector<VerbsRegions::Region>::iterator VerbsRegions::exact(const std::byte* begin,
                                                                const std::byte* end) {
  return std::ranges::find_if(
      regions_, [&](const Region& region) { return region.begin == begin && region.end == end; });
}

// The device only reads; access 0 is local reading, which always is allowed.
VerbsMemory VerbsRegions::make_memory(const std::byte* begin, const std::byte* end) {
  if (domain_ == nullptr) return nullptr;
  const auto bytes = static_cast<std::size_t>(end - begin);
  return VerbsMemory(ibv_reg_mr(domain_, const_cast<std::byte*>(begin), bytes, 0));
}

void VerbsRegions::drop() {
  for (Region& region : regions_) region.memory.reset();
  domain_ = nullptr;
}

void VerbsRegions::renew(ibv_pd* domain) {
  domain_ = domain;
  for (Region& region : regions_) {
    region.memory = make_memory(region.begin, region.end);
    if (region.memory) region.key = region.memory->lkey;
  }
}

Status VerbsRegions::add(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  if (const auto found = exact(begin, begin + bytes); found != regions_.end()) {
    ++found->additions;
    return Status::ok;
  }
  if (regions_.size() == regions_.capacity()) return Status::again;
  VerbsMemory memory = make_memory(begin, begin + bytes);
  if (!memory && domain_ != nullptr) return Status::nic_error;
  const std::uint32_t key = memory ? memory->lkey : 0;
  Region region{begin, begin + bytes, nullptr, key, 1, std::move(memory)};
  const auto after = std::ranges::upper_bound(regions_, begin, {},
                                              [](const Region& other) { return other.begin; });
  regions_.insert(after, std::move(region));
  update_reach();
  return Status::ok;
}

void VerbsRegions::remove(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const auto found = exact(begin, begin + bytes);
  if (found == regions_.end() || --found->additions > 0) return;
  regions_.erase(found);
  update_reach();
}

void VerbsRegions::update_reach() {
  const std::byte* reach = nullptr;
  for (Region& region : regions_) region.reach = reach = std::max(reach, region.end);
  last_hit_ = 0;
}

const std::uint32_t* VerbsRegions::find(const std::byte* data, std::size_t bytes) {
  const std::byte* const end = data + bytes;
  const auto holds = [&](const Region& region) {
    return region.begin <= data && end <= region.end && region.memory != nullptr;
  };
  if (last_hit_ < regions_.size() && holds(regions_[last_hit_])) return &regions_[last_hit_].key;
  auto after = std::ranges::upper_bound(regions_, data, {},
                                        [](const Region& region) { return region.begin; });
  while (after != regions_.begin()) {
    --after;
    if (after->reach < end) return nullptr;
    if (holds(*after)) {
      last_hit_ = static_cast<std::size_t>(after - regions_.begin());
      return &after->key;
    }
  }
  return nullptr;
}

}  // namespace hawser::engine
