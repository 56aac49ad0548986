// SPDX-License-Identifier: Apache-2.0
// The handles that a driver has given out: a counted map from addresses to dense handles. It uses
// no heap after construction. A look-up follows a hash chain, so opening n remotes takes time
// linear in n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/nic.hpp"

namespace hawser::engine {

class RemoteTable {
 public:
  explicit RemoteTable(std::uint32_t capacity);

  struct Opened {
    proto::RemoteHandle handle = proto::kNoRemote;  // kNoRemote: every handle is in use
    bool is_new = false;                            // the caller must fill in its own data
  };
  // Opens an address. It has the same handle until all its openings are closed.
  [[nodiscard]] Opened open(const proto::NicAddress& address);

  // Ends one opening. True if it was the last, so that the handle is free. False also for a handle
  // that isn't open.
  bool close(proto::RemoteHandle handle);

  [[nodiscard]] bool is_open(proto::RemoteHandle handle) const {
    const auto index = static_cast<std::uint32_t>(handle);
    return index < entries_.size() && entries_[index].openings > 0;
  }
  [[nodiscard]] std::size_t capacity() const { return entries_.size(); }

 private:
  static constexpr std::uint32_t kEnd = 0xffffffffu;
  struct Entry {
    proto::NicAddress address{};
    std::uint32_t openings = 0;
    std::uint32_t next = kEnd;  // in its bucket if open, in the free list if not
  };

  [[nodiscard]] std::uint32_t& bucket_of(const proto::NicAddress& address);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> buckets_;  // power of two; the first entry of each chain
  std::uint32_t free_ = kEnd;
};

}  // namespace hawser::engine
