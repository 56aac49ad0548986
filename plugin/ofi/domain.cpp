// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/domain.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "hawser/nics.hpp"
#include "plugin/ofi/address_vector.hpp"
#include "plugin/ofi/completion_queue.hpp"
#include "plugin/ofi/counter.hpp"
#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/info.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/memory_region.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/one_sided.hpp"
#include "plugin/ofi/poll_set.hpp"
#include "plugin/ofi/provider.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

int close_domain(struct fid* fid) {
  Domain& domain = object_of<Domain, fid_domain>(fid);
  if (domain.users != 0) return -FI_EBUSY;
  delete &domain;
  return 0;
}

fi_ops domain_fid_ops = [] {
  fi_ops ops{};
  ops.close = close_domain;
  return completed(ops);
}();

fi_ops_domain domain_ops = [] {
  fi_ops_domain ops{};
  ops.size = sizeof ops;
  ops.av_open = open_address_vector;
  ops.cq_open = open_completion_queue;
  ops.endpoint = open_endpoint;
  ops.cntr_open = open_counter;
  ops.poll_open = open_poll_set;
  ops.query_atomic = query_atomic;
  refuse(ops.scalable_ep);
  refuse(ops.stx_ctx);
  refuse(ops.srx_ctx);
  refuse(ops.query_collective);
  refuse(ops.endpoint2);
  return ops;
}();

}  // namespace

Domain::Domain(Fabric& fabric, const fi_info& info, Config config, void* opener)
    : fid_domain{},
      fabric_(fabric),
      config_(std::move(config)),
      threads_(threads_of(config_, info.domain_attr->data_progress)),
      // An endpoint with one-sided operations and an engine thread has a thread of its own, too.
      locking_(info.domain_attr->threading != FI_THREAD_DOMAIN ||
               (threads_ > 0 && (info.caps & kOneSidedCaps) != 0)),
      address_format_(info.addr_format),
      has_requested_keys_((info.caps & kOneSidedCaps) != 0 &&
                          (info.domain_attr->mr_mode & (kBasicRegistration | FI_MR_PROV_KEY)) == 0),
      has_virtual_addresses_((info.domain_attr->mr_mode & (kBasicRegistration | FI_MR_VIRT_ADDR)) !=
                             0) {
  fid.fclass = FI_CLASS_DOMAIN;
  fid.context = opener;
  fid.ops = &domain_fid_ops;
  ops = &domain_ops;
  mr = &registration_ops();
  ++fabric_.users;
}

Domain::~Domain() { --fabric_.users; }

bool Domain::has_rdma() const {
  return std::ranges::any_of(config_.nics,
                             [](const auto& n) { return split_nic_name(n).kind == "verbs"; });
}

void Domain::add(Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  endpoints_.push_back(&endpoint);
}

void Domain::remove(Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  std::erase(endpoints_, &endpoint);
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  if (info == nullptr || info->domain_attr == nullptr || !is_known_format(info->addr_format)) {
    return -FI_EINVAL;
  }
  try {
    Config config;
    if (const std::string complaint = read_config(config); !complaint.empty()) {
      complain(complaint);
      return -FI_EINVAL;
    }
    const std::string name = info->domain_attr->name != nullptr ? info->domain_attr->name : kName;
    if (name != kName) {
      if (std::ranges::count(config.nics, name) == 0) return -FI_ENODATA;
      config.nics = {name};
      // A plan numbers the domain's NICs, and this domain has only NIC 0. Remove the other faults.
      std::erase_if(config.fault_plan, [](const PlannedFault& fault) { return fault.nic > 0; });
    }
    *domain = new Domain(object_of<Fabric>(fabric), *info, std::move(config), context);
    return 0;
  } catch (const std::exception& error) {
    complain(error.what());
    return -FI_ENOMEM;
  }
}

}  // namespace hawser::ofi
