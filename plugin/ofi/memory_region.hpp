// SPDX-License-Identifier: Apache-2.0
// fid_mr. Nobody has to register memory; where a NIC is an RDMA port, doing so spares a copy.
#pragma once

#include <rdma/fi_domain.h>

namespace hawser::ofi {

[[nodiscard]] fi_ops_mr& registration_ops();

}  // namespace hawser::ofi
