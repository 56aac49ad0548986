// SPDX-License-Identifier: Apache-2.0
// The memory of a domain that peers may reach, by its 64-bit libfabric key. Any thread may call it:
// its lock is the last of all (docs/internals/ofi_provider.md).
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "hawser/one_sided.hpp"

namespace hawser::ofi {

// Memory as fi_mr_reg got it.
struct RemoteMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  RegionAccess access = RegionAccess::none;
  std::uint64_t base = 0;  // the address that peers give the first byte: 0, or its virtual address
};

class RegionTable {
 public:
  // False if the key is taken.
  [[nodiscard]] bool add(std::uint64_t key, const RemoteMemory& memory) {
    const std::lock_guard lock(mutex_);
    return memories_.emplace(key, memory).second;
  }
  void remove(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    memories_.erase(key);
  }
  [[nodiscard]] std::optional<RemoteMemory> find(std::uint64_t key) const {
    const std::lock_guard lock(mutex_);
    const auto found = memories_.find(key);
    return found == memories_.end() ? std::nullopt : std::optional(found->second);
  }
  // Draws a key at random. A key of an earlier process thus names nothing in the next one. Throws
  // std::system_error.
  [[nodiscard]] std::uint64_t draw() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t key = kNotAKey;
    do {
      if (::getrandom(&key, sizeof key, 0) != sizeof key) {
        throw std::system_error(errno, std::generic_category(), "getrandom");
      }
    } while (key == kNotAKey || memories_.contains(key));
    return key;
  }

 private:
  static constexpr std::uint64_t kNotAKey = ~std::uint64_t{0};  // FI_KEY_NOTAVAIL

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, RemoteMemory> memories_;
};

}  // namespace hawser::ofi
