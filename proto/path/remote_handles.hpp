// SPDX-License-Identifier: Apache-2.0
// The handles that drivers have given for the NICs of peers: a list per peer, the pair of NICs used
// last comes first.
//
// A peer uses few of its pairs: those of its paths, and those that control goes over. Invariant: no
// peer has more than kMostOfPeer, so there is always room for one more. The least recently used one
// makes way.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/assert.hpp"
#include "proto/base/slab.hpp"
#include "proto/nic.hpp"

namespace hawser::proto {

class RemoteHandles {
 public:
  static constexpr std::uint32_t kMostOfPeer = 32;
  static constexpr std::size_t kEntryBytes = 12;

  explicit RemoteHandles(std::uint32_t peers) : entries_(peers * kMostOfPeer) {}

  // `head` is the peer's list, kNoIndex if it is empty. kNoRemote: the pair has no handle.
  [[nodiscard]] RemoteHandle find(std::uint32_t& head, std::uint8_t local, std::uint8_t remote) {
    for (std::uint32_t* link = &head; *link != kNoIndex; link = &entries_.at(*link).next) {
      const std::uint32_t index = *link;
      Entry& entry = entries_.at(index);
      if (entry.local != local || entry.remote != remote) continue;
      if (link == &head) return entry.handle;
      *link = entry.next;
      entry.next = head;
      head = index;
      return entry.handle;
    }
    return kNoRemote;
  }

  // For a pair that has none. close(local, handle) is called if another handle makes way.
  template <class Close>
  void add(std::uint32_t& head, std::uint8_t local, std::uint8_t remote, RemoteHandle handle,
           Close&& close) {
    std::uint32_t count = 0;
    for (std::uint32_t* link = &head; *link != kNoIndex;) {
      if (++count == kMostOfPeer) {
        drop(*link, close);
      } else {
        link = &entries_.at(*link).next;
      }
    }
    SlabId id;
    Entry* entry = entries_.try_allocate(id);
    HAWSER_ASSERT(entry != nullptr);  // so many for each peer
    *entry = {handle, head, local, remote};
    head = id.index;
  }

  // Calls close(local, handle) for the handles of one NIC of the peer, and forgets them.
  template <class Close>
  void close_to(std::uint32_t& head, std::size_t remote, Close&& close) {
    for (std::uint32_t* link = &head; *link != kNoIndex;) {
      if (entries_.at(*link).remote == remote) {
        drop(*link, close);
      } else {
        link = &entries_.at(*link).next;
      }
    }
  }

  [[nodiscard]] std::uint32_t size() const { return entries_.size(); }

 private:
  struct Entry {
    RemoteHandle handle = kNoRemote;
    std::uint32_t next = kNoIndex;
    std::uint8_t local = 0;
    std::uint8_t remote = 0;
  };
  static_assert(sizeof(Entry) == kEntryBytes);

  template <class Close>
  void drop(std::uint32_t& link, Close&& close) {
    const std::uint32_t index = link;
    const Entry entry = entries_.at(index);
    link = entry.next;
    entries_.free(index);
    close(entry.local, entry.handle);
  }

  Slab<Entry> entries_;
};

}  // namespace hawser::proto
