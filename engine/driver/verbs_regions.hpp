// Memory that the device may read: which bytes are registered, and under which key.
//
// Registering asks the kernel, pins pages and may take milliseconds: any thread does it, and the
// region it makes means nothing to the datapath until that uses it. Looking up is on the datapath:
// the region of the last hit first, then a search. A region whose mapping doesn't hold is passed
// over. Sends count the region that they are read from until they are done, so a region that was
// forgotten is known to be unread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/driver/verbs_handles.hpp"
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
  // found.
  void renew(ibv_pd* domain);

  // The region for these bytes, null if no single one has them all. `hint` is the caller's memory
  // of where it found the last one of the same kind; 0 at first.
  [[nodiscard]] VerbsRegion* find(const std::byte* data, std::size_t bytes, std::size_t& hint) {
    if (hint < rows_.size() && holds(*rows_[hint].region, data, data + bytes)) {
      return rows_[hint].region;
    }
    return search(data, data + bytes, hint);
  }

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
  [[nodiscard]] static bool holds(const VerbsRegion& region, const std::byte* begin,
                                  const std::byte* end) {
    return region.begin <= begin && end <= region.end && region.memory != nullptr &&
           (region.mapping == nullptr || region.mapping->holds());
  }
  [[nodiscard]] VerbsRegion* search(const std::byte* begin, const std::byte* end,
                                    std::size_t& hint);

  ibv_pd* domain_;
  // Over the domain, the list, and the memory and keys in it; but the datapath reads these without,
  // as nothing is looked up while they change.
  std::mutex mutex_;
  std::list<VerbsRegion> regions_;
  std::vector<Row> rows_;  // of those in use, by begin; its room is never given up
};

}  // namespace hawser::engine
