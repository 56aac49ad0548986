// SPDX-License-Identifier: Apache-2.0
// Memory that the device may read: which bytes are registered, and under which key.
//
// Registering asks the kernel, pins pages and may take milliseconds: any thread does it, and the
// region it makes means nothing to the datapath until that uses it. Looking up is on the datapath:
// the region of the last hit first, then a search. A region whose mapping doesn't hold is passed
// over; whether it holds is asked once a burst, as nobody may change what a send that was handed
// over lies in. Sends count the region that they are read from until they are done, so a region
// that was forgotten is known to be unread.
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
  const proto::Mapping* mapping = nullptr;  // null: it holds until it is forgotten
  std::uint32_t key = 0;
  std::uint32_t additions = 0;  // of add
  std::uint64_t reads = 0;      // sends of the datapath that are not done
  Descriptor dmabuf;            // of a device's memory, its own copy
  std::uint64_t dmabuf_offset = 0;
  VerbsMemory memory;  // null while the device is away, or if it could not be registered anew
};

class VerbsRegions {
 public:
  // Up to `capacity` regions in use at once; `domain` outlives this. What is pinned still when this
  // ends is unpinned: the device must have let go of it.
  VerbsRegions(ibv_pd* domain, std::size_t capacity);

  // Any thread, as Nic::pin and unpin.
  [[nodiscard]] Status pin(const proto::MemoryRange& range, const proto::Mapping* mapping,
                           proto::PinnedMemory*& pinned);
  void unpin(VerbsRegion& region);

  // What follows is the datapath's. False: `capacity` regions are in use.
  [[nodiscard]] bool use(VerbsRegion& region);
  void forget(VerbsRegion& region);

  // Both halves in one, for memory that lasts. The same bytes may be registered several times, and
  // regions may overlap.
  //   ok · again: `capacity` regions are in use · nic_error: the kernel refused (see errno).
  [[nodiscard]] Status add(const void* data, std::size_t bytes);
  // Ends one add of exactly these bytes; none of what was sent from them is unreaped.
  void remove(const void* data, std::size_t bytes);

  // Any thread. The device is going: everything is deregistered, and what is pinned is registered
  // later. Nothing is looked up meanwhile.
  void drop();
  // Any thread. It is there again, and `domain` its own. What can't be registered any more is not
  // found, and copied. False: that would touch a dma-buf, so the device is of no use so far; what
  // was registered is to be dropped.
  [[nodiscard]] bool renew(ibv_pd* domain);

  // The region for these bytes, null if no single one has them all.
  [[nodiscard]] VerbsRegion* search(const std::byte* begin, const std::byte* end);
  // Whether any dma-bufs are in use; and whether some of these bytes lie in one.
  [[nodiscard]] bool has_dmabufs() const { return has_dmabufs_; }
  [[nodiscard]] bool touches_dmabuf(const std::byte* begin, const std::byte* end) const;
  // Another one than before: what was found may not be in use any more.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  struct Row {
    VerbsRegion* region = nullptr;
    const std::byte* begin = nullptr;
    const std::byte* reach = nullptr;  // the largest end up to here: how far back to search
  };
  [[nodiscard]] std::vector<Row>::iterator added(const std::byte* begin, const std::byte* end);
  [[nodiscard]] bool is_too_large(std::size_t bytes) const;
  // Registers it with the device that is there. False: see errno.
  [[nodiscard]] bool connect(VerbsRegion& region);
  void update_reach();
  ibv_pd* domain_;
  // Over the domain, the list, and the memory and keys in it; but the datapath reads these without,
  // as nothing is looked up while they change.
  std::mutex mutex_;
  std::list<VerbsRegion> regions_;
  std::vector<Row> rows_;  // of those in use, by begin; its room is never given up
  std::uint64_t version_ = 1;
  bool has_dmabufs_ = false;           // among the rows
  std::atomic<std::size_t> added_{0};  // regions of add
};

// A search that remembers its last hit: one for each kind of memory that packets alternate between.
class VerbsLookup {
 public:
  explicit VerbsLookup(VerbsRegions& regions) : regions_(regions) {}

  // Before each burst.
  void check() {
    if (version_ != regions_.version() || (mapping_ != nullptr && !mapping_->holds())) forget();
  }
  // Whether the device can read the bytes, 1 or more; users() and key() are then theirs.
  [[nodiscard]] bool find(const std::byte* data, std::size_t bytes) {
    return (begin_ <= data && data + bytes <= end_) || search(data, data + bytes);
  }
  [[nodiscard]] std::uint64_t* users() const { return users_; }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  // Whether some of the bytes, 1 or more, are a dma-buf's that is in use. Then the device alone may
  // read them: the processor may have no access there.
  [[nodiscard]] bool is_untouchable(const std::byte* data, std::size_t bytes) const {
    return dmabufs_ && regions_.touches_dmabuf(data, data + bytes);
  }
  // After regions were dropped and renewed.
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
