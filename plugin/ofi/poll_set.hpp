// SPDX-License-Identifier: Apache-2.0
// fid_poll: a set of completion queues and counters that the program polls together.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

namespace hawser::ofi {

int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** set);

}  // namespace hawser::ofi
