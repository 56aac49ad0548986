// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/provider.hpp"

#include "plugin/ofi/config.hpp"
#include "plugin/ofi/fabric.hpp"
#include "plugin/ofi/info.hpp"

namespace hawser::ofi {

fi_provider& provider() noexcept {
  static fi_provider instance{.version = kVersion,
                              .fi_version = kApi,
                              .context = {},
                              .name = kName,
                              .getinfo = get_info,
                              .fabric = open_fabric,
                              .cleanup = [] {}};
  return instance;
}

}  // namespace hawser::ofi

// libfabric looks for this symbol in each lib*-fi.so that it finds, and calls it once.
extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  hawser::ofi::define_parameters();
  return &hawser::ofi::provider();
}
