// SPDX-License-Identifier: Apache-2.0
// fid_eq. Nothing in this provider is asynchronous: Hawser handles connections itself, and
// addresses and memory are ready when a call returns. An event queue therefore holds only what the
// program writes to it. It exists because many programs open one, whatever the provider.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

namespace hawser::ofi {

int open_event_queue(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** queue, void* context);

}  // namespace hawser::ofi
