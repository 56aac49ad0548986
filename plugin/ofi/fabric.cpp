// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/fabric.hpp"

#include <rdma/fi_eq.h>

#include <cstring>
#include <new>

#include "plugin/ofi/completion_queue.hpp"
#include "plugin/ofi/counter.hpp"
#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/event_queue.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/provider.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

int close_fabric(struct fid* fid) {
  Fabric& fabric = object_of<Fabric, fid_fabric>(fid);
  if (fabric.users != 0) return -FI_EBUSY;
  delete &fabric;
  return 0;
}

// Returns 0 if a thread that now waits for these descriptors misses nothing.
int try_wait(fid_fabric*, struct fid** fids, int count) {
  for (int i = 0; i < count; ++i) {
    int answer = -FI_EINVAL;
    if (fids[i]->fclass == FI_CLASS_CQ) {
      answer = object_of<CompletionQueue, fid_cq>(fids[i]).try_wait();
    } else if (fids[i]->fclass == FI_CLASS_CNTR) {
      answer = object_of<Counter, fid_cntr>(fids[i]).try_wait();
    }
    if (answer != 0) return answer;
  }
  return 0;
}

fi_ops fabric_fid_ops = [] {
  fi_ops ops{};
  ops.close = close_fabric;
  return completed(ops);
}();

fi_ops_fabric fabric_ops = [] {
  fi_ops_fabric ops{};
  ops.size = sizeof ops;
  ops.domain = open_domain;
  ops.eq_open = open_event_queue;
  ops.trywait = try_wait;
  refuse(ops.passive_ep);
  refuse(ops.wait_open);
  refuse(ops.domain2);
  return ops;
}();

}  // namespace

Fabric::Fabric(std::uint32_t version, void* opener) : fid_fabric{} {
  fid.fclass = FI_CLASS_FABRIC;
  fid.context = opener;
  fid.ops = &fabric_fid_ops;
  ops = &fabric_ops;
  api_version = version;
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  if (attr == nullptr || (attr->name != nullptr && std::strcmp(attr->name, kName) != 0)) {
    return -FI_ENODATA;
  }
  *fabric = new (std::nothrow) Fabric(attr->api_version, context);
  return *fabric == nullptr ? -FI_ENOMEM : 0;
}

}  // namespace hawser::ofi
