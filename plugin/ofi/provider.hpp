// SPDX-License-Identifier: Apache-2.0
// What libfabric knows of the provider itself.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>

namespace hawser::ofi {

inline constexpr const char* kName = "hawser";  // of the provider, its fabric, and its first domain
inline constexpr std::uint32_t kVersion = FI_VERSION(117, 0);  // as libfabric's own: its version
// The newest that programs may ask for. From 1.17 to there headers only append to the structures
// that are exchanged, so a provider that was built with either works under both.
inline constexpr std::uint32_t kApi = FI_VERSION(2, 6);

[[nodiscard]] fi_provider& provider() noexcept;

}  // namespace hawser::ofi
