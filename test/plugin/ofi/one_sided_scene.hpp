// SPDX-License-Identifier: Apache-2.0
// Memory of a node that others reach, and endpoints with one-sided operations.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "test/plugin/ofi/scene.hpp"

namespace hawser::test {

inline constexpr std::uint64_t kRemoteAccess = FI_REMOTE_READ | FI_REMOTE_WRITE;
// Registration modes, as numbers since newer headers deprecate the names.
inline constexpr int kBasic = 1;
inline constexpr int kScalable = 2;

// Options with one-sided operations and fences.
[[nodiscard]] NodeOptions one_sided(NodeOptions options = {});

// Registered memory of a node. Peers of any registration mode name it by `address` and `key`.
class Memory {
 public:
  explicit Memory(Node& owner, std::size_t size = 1000, std::uint64_t requested_key = 7,
                  std::uint64_t access = kRemoteAccess);

  [[nodiscard]] std::uint64_t key() const { return fi_mr_key(region.get()); }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const { return base_ + offset; }

  std::vector<std::uint8_t> bytes;
  Owned<fid_mr> region;

 private:
  std::uint64_t base_ = 0;
};

// Reads a byte that an engine thread may be writing. Programs that poll their memory do that, and
// ThreadSanitizer can't know that it is harmless.
[[gnu::no_sanitize_thread, gnu::noinline]] inline std::uint8_t peek(const std::uint8_t& byte) {
  return *static_cast<const volatile std::uint8_t*>(&byte);
}

// A counter that is bound to `node`'s next endpoint, not to the one that it has.
[[nodiscard]] Owned<fid_cntr> open_counter(Node& node);
// An endpoint of `node`'s domain with its AV and CQ and these counters, enabled.
[[nodiscard]] Owned<fid_ep> open_counted(Node& node, fid_cntr* reads, fid_cntr* writes);

}  // namespace hawser::test
