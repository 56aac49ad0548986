// SPDX-License-Identifier: Apache-2.0
// fid_mr. If memory can't be registered (too much, or no memory to lock), sends from it are copied:
// the program's call still succeeds, and the log says why. A registration holds for the endpoints
// that are enabled at that time. The others copy, or use Hawser's own cache.
//
// A program may request remote access, as with other providers: MPI libraries register windows
// before they check for one-sided operations. There are none here (no endpoint has FI_RMA), so
// nobody can use the key.
#include "plugin/ofi/memory_region.hpp"

#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "hawser/registration.hpp"
#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

constexpr std::uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t kLocal = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

class MemoryRegion : public fid_mr {
 public:
  // `is_sent`: the program sends from the memory, or receives into it.
  MemoryRegion(Domain& domain, const void* data, std::size_t bytes, bool is_sent, void* context);
  ~MemoryRegion();

 private:
  Domain& domain_;
  // By the serial numbers of endpoints: another endpoint may get the address of one that closed,
  // and its registrations have the same ids.
  std::vector<std::pair<std::uint64_t, RegistrationId>> registrations_;
};

int close_region(struct fid* fid) {
  delete &object_of<MemoryRegion, fid_mr>(fid);
  return 0;
}

fi_ops region_ops = [] {
  fi_ops ops{};
  ops.close = close_region;
  // Binding has no effect, because there is no remote access that endpoints or counters would need
  // to know of.
  ops.bind = [](struct fid*, struct fid*, std::uint64_t) { return 0; };
  ops.control = [](struct fid*, int command, void*) {
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
  };
  return completed(ops);
}();

MemoryRegion::MemoryRegion(Domain& domain, const void* data, std::size_t bytes, bool is_sent,
                           void* owner)
    : fid_mr{}, domain_(domain) {
  fid.fclass = FI_CLASS_MR;
  fid.context = owner;
  fid.ops = &region_ops;
  mem_desc = this;
  key = domain.next_key++;
  ++domain_.users;
  if (!domain_.has_rdma() || bytes == 0 || !is_sent) return;
  domain_.for_each_endpoint([&](Endpoint& endpoint) {
    RegistrationId id = kNoRegistration;
    std::string why;
    const Status status = endpoint.register_memory(data, bytes, id, why);
    if (status == Status::ok) {
      registrations_.emplace_back(endpoint.serial(), id);
    } else if (status != Status::overlapping && status != Status::endpoint_closed) {
      log_warning("fi_mr_reg: " + why);
    }
  });
}

MemoryRegion::~MemoryRegion() {
  domain_.for_each_endpoint([&](Endpoint& endpoint) {
    for (const auto& [owner, id] : registrations_) {
      if (owner == endpoint.serial()) endpoint.release_memory(id);
    }
  });
  --domain_.users;
}

int check(std::uint64_t access, std::uint64_t flags, std::uint64_t offset) {
  if (access == 0 || (access & ~(kLocal | kRemote)) != 0 || flags != 0 || offset != 0) {
    return -FI_EINVAL;
  }
  return 0;
}

int register_one(struct fid* fid, const void* data, std::size_t bytes, std::uint64_t access,
                 fid_mr** region, void* context) {
  if (fid->fclass != FI_CLASS_DOMAIN || (data == nullptr && bytes > 0)) return -FI_EINVAL;
  try {
    *region = new MemoryRegion(object_of<Domain, fid_domain>(fid), data, bytes,
                               (access & kLocal) != 0, context);
    return 0;
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

int reg(struct fid* fid, const void* data, std::size_t bytes, std::uint64_t access,
        std::uint64_t offset, std::uint64_t, std::uint64_t flags, fid_mr** region, void* context) {
  const int wrong = check(access, flags, offset);
  return wrong != 0 ? wrong : register_one(fid, data, bytes, access, region, context);
}

int regv(struct fid* fid, const iovec* iov, std::size_t count, std::uint64_t access,
         std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** region,
         void* context) {
  if (count != 1) return -FI_EINVAL;
  return reg(fid, iov->iov_base, iov->iov_len, access, offset, key, flags, region, context);
}

int regattr(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** region) {
  if (attr->iface != FI_HMEM_SYSTEM) return -FI_ENOSYS;
  return regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key,
              flags, region, attr->context);
}

}  // namespace

fi_ops_mr& registration_ops() {
  static fi_ops_mr ops{.size = sizeof ops, .reg = reg, .regv = regv, .regattr = regattr};
  return ops;
}

}  // namespace hawser::ofi
