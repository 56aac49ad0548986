// What libfabric knows of the provider itself.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <cstdint>

namespace hawser::ofi {

inline constexpr const char* kName = "hawser";  // of the provider, its fabric, and its first domain
inline constexpr std::uint32_t kVersion = FI_VERSION(117, 0);  // as libfabric's own: its version
inline constexpr std::uint32_t kApi = FI_VERSION(1, 17);

[[nodiscard]] fi_provider& provider() noexcept;

}  // namespace hawser::ofi
