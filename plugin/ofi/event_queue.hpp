// SPDX-License-Identifier: Apache-2.0
// fid_eq. Nothing of ours happens asynchronously (connections are Hawser's own business, addresses
// and memory are there when a call returns), so that an event queue holds what the program writes
// to it. It is there for the many programs that open one, whatever the provider.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

namespace hawser::ofi {

int open_event_queue(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** queue, void* context);

}  // namespace hawser::ofi
