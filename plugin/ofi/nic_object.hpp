// SPDX-License-Identifier: Apache-2.0
// fid_nic: the known attributes of a NIC, for fi_info and for launchers that place ranks near NICs.
#pragma once

#include <rdma/fabric.h>

#include "hawser/nics.hpp"

namespace hawser::ofi {

// The fi_info owns it, and fi_freeinfo closes it. Null if memory is short.
[[nodiscard]] fid_nic* make_nic_object(const HostNic& nic);

}  // namespace hawser::ofi
