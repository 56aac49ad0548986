// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_regions.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hawser::engine {
namespace {

Status status_of(int error) {
  switch (error) {
    case ENOMEM:
    case EAGAIN:
    case EPERM: return Status::lock_limit;
    case EFAULT: return Status::invalid_argument;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT: return Status::unsupported;
    default: return Status::nic_error;
  }
}

}  // namespace

VerbsRegions::VerbsRegions(ibv_pd* domain, std::size_t capacity) : domain_(domain) {
  rows_.reserve(capacity);
}

bool VerbsRegions::is_too_large(std::size_t bytes) const {
  ibv_device_attr attributes{};
  return domain_ != nullptr && ibv_query_device(domain_->context, &attributes) == 0 &&
         attributes.max_mr_size > 0 && bytes > attributes.max_mr_size;
}

Status VerbsRegions::pin(const proto::MemoryRange& range, const proto::Mapping* mapping,
                         proto::PinnedMemory*& pinned) {
  const std::lock_guard lock(mutex_);
  if (is_too_large(range.bytes)) return Status::too_large;
  // It would be known too late whether the device that comes back accepts the dma-buf.
  if (range.dmabuf >= 0 && domain_ == nullptr) return Status::nic_error;
  // If the headers' memory was refused, headers are copied together with their payload, which a
  // dma-buf forbids.
  if (range.dmabuf >= 0 && added_.load() == 0) return Status::lock_limit;
  VerbsRegion& region = regions_.emplace_back();
  region.begin = range.data;
  region.end = range.data + range.bytes;
  region.mapping = mapping;
  if (range.dmabuf >= 0) region.dmabuf = Descriptor(::fcntl(range.dmabuf, F_DUPFD_CLOEXEC, 0));
  region.dmabuf_offset = range.dmabuf_offset;
  const bool has_its_memory = range.dmabuf < 0 || region.dmabuf;
  if (has_its_memory && (domain_ == nullptr || connect(region))) {
    pinned = &region;
    return Status::ok;
  }
  const Status refusal = status_of(errno);
  regions_.pop_back();
  return refusal;
}

// Access 0 allows local reading only, and the device does nothing else.
bool VerbsRegions::connect(VerbsRegion& region) {
  auto* const data = const_cast<std::byte*>(region.begin);
  const auto bytes = static_cast<std::size_t>(region.end - region.begin);
  region.memory.reset(region.dmabuf ? ibv_reg_dmabuf_mr(domain_, region.dmabuf_offset, bytes,
                                                        reinterpret_cast<std::uint64_t>(data),
                                                        region.dmabuf.get(), 0)
                                    : ibv_reg_mr(domain_, data, bytes, 0));
  if (region.memory) region.key = region.memory->lkey;
  return region.memory != nullptr;
}

void VerbsRegions::unpin(VerbsRegion& region) {
  const std::lock_guard lock(mutex_);
  regions_.remove_if([&](const VerbsRegion& other) { return &other == &region; });
}

void VerbsRegions::drop() {
  const std::lock_guard lock(mutex_);
  for (VerbsRegion& region : regions_) region.memory.reset();
  domain_ = nullptr;
}

// Headers and payloads are gathered in one send. A dma-buf therefore needs all regions except those
// of the cache.
bool VerbsRegions::renew(ibv_pd* domain) {
  const std::lock_guard lock(mutex_);
  domain_ = domain;
  bool all = true;
  bool any_dmabuf = false;
  for (VerbsRegion& region : regions_) {
    any_dmabuf |= bool{region.dmabuf};
    all &= connect(region) || region.mapping != nullptr;
  }
  return all || !any_dmabuf;
}

bool VerbsRegions::use(VerbsRegion& region) {
  if (rows_.size() == rows_.capacity()) return false;
  const auto after = std::ranges::upper_bound(rows_, region.begin, {}, &Row::begin);
  rows_.insert(after, Row{&region, region.begin, nullptr});
  update_reach();
  return true;
}

void VerbsRegions::forget(VerbsRegion& region) {
  std::erase_if(rows_, [&](const Row& row) { return row.region == &region; });
  update_reach();
}

std::vector<VerbsRegions::Row>::iterator VerbsRegions::added(const std::byte* begin,
                                                             const std::byte* end) {
  return std::ranges::find_if(rows_, [&](const Row& row) {
    return row.region->additions > 0 && row.begin == begin && row.region->end == end;
  });
}

Status VerbsRegions::add(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  if (const auto found = added(begin, begin + bytes); found != rows_.end()) {
    ++found->region->additions;
    return Status::ok;
  }
  if (rows_.size() == rows_.capacity()) return Status::again;
  proto::PinnedMemory* pinned = nullptr;
  if (pin({begin, bytes}, nullptr, pinned) != Status::ok) return Status::nic_error;
  auto& region = static_cast<VerbsRegion&>(*pinned);
  region.additions = 1;
  ++added_;
  return use(region) ? Status::ok : Status::again;
}

void VerbsRegions::remove(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const auto found = added(begin, begin + bytes);
  if (found == rows_.end() || --found->region->additions > 0) return;
  VerbsRegion& region = *found->region;
  --added_;
  forget(region);
  unpin(region);
}

void VerbsRegions::update_reach() {
  ++version_;
  has_dmabufs_ =
      std::ranges::any_of(rows_, [](const Row& row) { return bool{row.region->dmabuf}; });
  const std::byte* reach = nullptr;
  for (Row& row : rows_) row.reach = reach = std::max(reach, row.region->end);
}

VerbsRegion* VerbsRegions::search(const std::byte* begin, const std::byte* end) {
  auto after = std::ranges::upper_bound(rows_, begin, {}, &Row::begin);
  while (after != rows_.begin()) {
    --after;
    if (after->reach < end) return nullptr;
    VerbsRegion& region = *after->region;
    if (end <= region.end && region.memory != nullptr &&
        (region.mapping == nullptr || region.mapping->holds())) {
      return &region;
    }
  }
  return nullptr;
}

bool VerbsRegions::touches_dmabuf(const std::byte* begin, const std::byte* end) const {
  auto after = std::ranges::lower_bound(rows_, end, {}, &Row::begin);
  while (after != rows_.begin()) {
    --after;
    if (after->reach <= begin) return false;
    if (after->region->dmabuf && begin < after->region->end) return true;
  }
  return false;
}

void VerbsLookup::forget() {
  begin_ = end_ = nullptr;
  users_ = nullptr;
  mapping_ = nullptr;
  version_ = regions_.version();
  dmabufs_ = regions_.has_dmabufs();
}

bool VerbsLookup::search(const std::byte* begin, const std::byte* end) {
  VerbsRegion* const found = regions_.search(begin, end);
  if (found == nullptr) return false;
  begin_ = found->begin;
  end_ = found->end;
  users_ = &found->reads;
  mapping_ = found->mapping;
  key_ = found->key;
  return true;
}

}  // namespace hawser::engine
