// SPDX-License-Identifier: Apache-2.0
// fid_nic: what is known of a NIC, for fi_info and for who places ranks near NICs.
#pragma once

#include <rdma/fabric.h>

#include "hawser/nics.hpp"

namespace hawser::ofi {

// Owned by its fi_info, whose fi_freeinfo closes it. Null if memory is short.
[[nodiscard]] fid_nic* make_nic_object(const HostNic& nic);

}  // namespace hawser::ofi
