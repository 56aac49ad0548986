// SPDX-License-Identifier: Apache-2.0
// fid_fabric: the object on which domains are opened. There is one kind.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>

namespace hawser::ofi {

class Fabric : public fid_fabric {
 public:
  Fabric(std::uint32_t version, void* context);
  std::atomic<unsigned> users{0};  // domains and event queues
};

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context);

}  // namespace hawser::ofi
