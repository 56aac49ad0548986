// SPDX-License-Identifier: Apache-2.0
// Memory that the device may read: the registered bytes and their keys.
//
// Registering asks the kernel, pins pages and may take milliseconds, so any thread may do it. The
// datapath doesn't know the new region until it calls use. The datapath looks up regions: it first
// tries the region of the last hit, then searches. It ignores a region whose mapping no longer
// holds. It checks that once per burst, since nobody may change the memory of a send that was
// handed over. Each region counts the sends that read it until they are done. This shows when a
// forgotten region is no longer read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/driver/verbs/verbs_handles.hpp"
#include "hawser/status.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

struct VerbsRegion final : proto::PinnedMemory {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  const proto::Mapping* mapping = nullptr;  // null: the region holds until it is forgotten
  std::uint32_t key = 0;
  std::uint32_t additions = 0;  // number of add calls
  std::uint64_t reads = 0;      // sends of the datapath that are not done yet
  Descriptor dmabuf;            // for another device's memory: our copy of its descriptor
  std::uint64_t dmabuf_offset = 0;
  VerbsMemory memory;  // null while the device is away, or if it could not be registered anew
};

class VerbsRegions {
 public:
  // Allows up to `capacity` regions in use at once. `domain` outlives this. The destructor unpins
  // what is still pinned, and requires that the device has released it.
  VerbsRegions(ibv_pd* domain, std::size_t capacity);

  // For any thread, as Nic::pin and unpin.
  [[nodiscard]] Status pin(const proto::MemoryRange& range, const proto::Mapping* mapping,
                           proto::PinnedMemory*& pinned);
  void unpin(VerbsRegion& region);

  // For the datapath, as are the members below. Returns false if `capacity` regions are in use.
  [[nodiscard]] bool use(VerbsRegion& region);
  void forget(VerbsRegion& region);

  // pin and use in one step, for memory that lasts. The same bytes may be registered several times,
  // and regions may overlap.
  //   `ok`: the region is in use.
  //   `again`: `capacity` regions are in use.
  //   `nic_error`: the kernel refused (see errno).
  [[nodiscard]] Status add(const void* data, std::size_t bytes);
  // Ends one add of exactly these bytes. All sends from them must have been reaped.
  void remove(const void* data, std::size_t bytes);

  // For any thread. The device is going away: deregisters everything. Pinned memory is registered
  // again later. No look-up may run meanwhile.
  void drop();
  // For any thread. The device is back, with `domain`. A region that can't be registered any more
  // is not found, so its bytes are copied. Returns false if that affects a dma-buf, which can't be
  // copied: the caller must then drop the registrations.
  [[nodiscard]] bool renew(ibv_pd* domain);

  // The region for these bytes; null if no single region contains them all.
  [[nodiscard]] VerbsRegion* search(const std::byte* begin, const std::byte* end);
  // True if any dma-bufs are in use. touches_dmabuf: true if some of these bytes lie in one.
  [[nodiscard]] bool has_dmabufs() const { return has_dmabufs_; }
  [[nodiscard]] bool touches_dmabuf(const std::byte* begin, const std::byte* end) const;
  // Changes when a region found before may no longer be in use.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  struct Row {
    VerbsRegion* region = nullptr;
    const std::byte* begin = nullptr;
    const std::byte* reach = nullptr;  // the largest end up to here, where a search may stop
  };
  [[nodiscard]] std::vector<Row>::iterator added(const std::byte* begin, const std::byte* end);
  [[nodiscard]] bool is_too_large(std::size_t bytes) const;
  // Registers the region with the present device. False: see errno.
  [[nodiscard]] bool connect(VerbsRegion& region);
  void update_reach();
  ibv_pd* domain_;
  // Guards the domain, the list, and the memory and keys in it. The datapath reads these without
  // it, because no look-up runs while they change.
  std::mutex mutex_;
  std::list<VerbsRegion> regions_;
  std::vector<Row> rows_;  // regions in use, by begin; its capacity never shrinks
  std::uint64_t version_ = 1;
  bool has_dmabufs_ = false;           // among the rows
  std::atomic<std::size_t> added_{0};  // regions made by add
};

// A search that remembers its last hit. There is one for each kind of memory that packets alternate
// between.
class VerbsLookup {
 public:
  explicit VerbsLookup(VerbsRegions& regions) : regions_(regions) {}

  // Call it before each burst.
  void check() {
    if (version_ != regions_.version() || (mapping_ != nullptr && !mapping_->holds())) forget();
  }
  // True if the device can read the bytes, 1 or more. users() and key() then belong to them.
  [[nodiscard]] bool find(const std::byte* data, std::size_t bytes) {
    return (begin_ <= data && data + bytes <= end_) || search(data, data + bytes);
  }
  [[nodiscard]] std::uint64_t* users() const { return users_; }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  // True if some of the bytes, 1 or more, lie in a dma-buf in use. Only the device may read them
  // then, because the processor may have no access.
  [[nodiscard]] bool is_untouchable(const std::byte* data, std::size_t bytes) const {
    return dmabufs_ && regions_.touches_dmabuf(data, data + bytes);
  }
  // Call it after regions were dropped and renewed.
  void forget();

 private:
  [[nodiscard]] bool search(const std::byte* begin, const std::byte* end);

  VerbsRegions& regions_;
  const std::byte* begin_ = nullptr;
  const std::byte* end_ = nullptr;
  std::uint64_t* users_ = nullptr;
  const proto::Mapping* mapping_ = nullptr;
  std::uint64_t version_ = 0;
  std::uint32_t key_ = 0;
  bool dmabufs_ = false;
};

}  // namespace hawser::engine
