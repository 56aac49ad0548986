// SPDX-License-Identifier: Apache-2.0
// The provider's description for libfabric.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>

namespace hawser::ofi {

inline constexpr const char* kName = "hawser";  // provider, its fabric, its first domain
inline constexpr std::uint32_t kVersion = FI_VERSION(117, 0);  // as libfabric's own: its version
// The newest version that programs may ask for. From 1.17 up to it, headers only append to the
// exchanged structures, so a provider built with either works under both.
inline constexpr std::uint32_t kApi = FI_VERSION(2, 6);

[[nodiscard]] fi_provider& provider() noexcept;

}  // namespace hawser::ofi
