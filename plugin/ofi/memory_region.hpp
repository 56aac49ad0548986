// SPDX-License-Identifier: Apache-2.0
// fid_mr. Registration is optional; with an RDMA port it saves a copy.
#pragma once

#include <rdma/fi_domain.h>

namespace hawser::ofi {

[[nodiscard]] fi_ops_mr& registration_ops();

}  // namespace hawser::ofi
