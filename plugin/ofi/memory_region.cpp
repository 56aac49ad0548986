// SPDX-License-Identifier: Apache-2.0
// fid_mr. If memory can't be registered (too much, or no memory to lock), sends from it are copied:
// the program's call still succeeds, and the log says why. A registration holds for the endpoints
// that are enabled at that time. The others copy, or use Hawser's own cache.
//
// Memory with remote access stands in the domain's table of regions. An endpoint exposes it when a
// peer asks for its key (key_exchange.hpp), so memory that no peer reaches costs nothing. Closing
// it waits until no peer reaches it any more. In a domain without one-sided operations nobody asks.
#include "plugin/ofi/memory_region.hpp"

#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <new>
#include <thread>
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
  // `is_sent`: the program sends from the memory, or receives into it. `is_remote`: it stands in
  // the table of regions.
  MemoryRegion(Domain& domain, const void* data, std::size_t bytes, bool is_sent, bool is_remote,
               std::uint64_t region_key, void* context);
  ~MemoryRegion();

 private:
  void withdraw();

  Domain& domain_;
  bool is_remote_;
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
  // A region serves all endpoints of the domain. No counter can tell how often peers reach it.
  ops.bind = [](struct fid*, struct fid* other, std::uint64_t) {
    return other->fclass == FI_CLASS_CNTR ? -FI_ENOSYS : 0;
  };
  ops.control = [](struct fid*, int command, void*) {
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
  };
  return completed(ops);
}();

MemoryRegion::MemoryRegion(Domain& domain, const void* data, std::size_t bytes, bool is_sent,
                           bool is_remote, std::uint64_t region_key, void* owner)
    : fid_mr{}, domain_(domain), is_remote_(is_remote) {
  fid.fclass = FI_CLASS_MR;
  fid.context = owner;
  fid.ops = &region_ops;
  mem_desc = this;
  key = region_key;
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

// First no endpoint may expose the memory any more, then each ends its exposure.
void MemoryRegion::withdraw() {
  domain_.regions().remove(key);
  for (bool is_gone = false; !is_gone;) {
    is_gone = true;
    domain_.for_each_endpoint(
        [&](Endpoint& endpoint) { is_gone = endpoint.withdraw(key) && is_gone; });
    if (!is_gone) std::this_thread::yield();
  }
}

MemoryRegion::~MemoryRegion() {
  if (is_remote_) withdraw();
  domain_.for_each_endpoint([&](Endpoint& endpoint) {
    for (const auto& [owner, id] : registrations_) {
      if (owner == endpoint.serial()) endpoint.release_memory(id);
    }
  });
  --domain_.users;
}

// A region without any access is allowed: programs register first, and ask what for later.
int check(std::uint64_t access, std::uint64_t flags, std::uint64_t offset) {
  return (access & ~(kLocal | kRemote)) != 0 || flags != 0 || offset != 0 ? -FI_EINVAL : 0;
}

// As fi_mr(3) has it: what may be written may be computed on.
RegionAccess rights_of(std::uint64_t access) {
  const RegionAccess reads =
      (access & FI_REMOTE_READ) != 0 ? RegionAccess::read : RegionAccess::none;
  return (access & FI_REMOTE_WRITE) != 0 ? reads | RegionAccess::write | RegionAccess::atomic
                                         : reads;
}

int register_one(struct fid* fid, const void* data, std::size_t bytes, std::uint64_t access,
                 std::uint64_t requested, fid_mr** region, void* context) {
  if (fid->fclass != FI_CLASS_DOMAIN || (data == nullptr && bytes > 0)) return -FI_EINVAL;
  Domain& domain = object_of<Domain, fid_domain>(fid);
  const bool is_remote = (access & kRemote) != 0;
  std::uint64_t key = requested;
  try {
    if (!domain.has_requested_keys()) key = domain.regions().draw();
    if (is_remote) {
      const auto base = reinterpret_cast<std::uintptr_t>(data);
      const RemoteMemory memory{.data = const_cast<void*>(data),
                                .bytes = bytes,
                                .access = rights_of(access),
                                .base = domain.has_virtual_addresses() ? base : 0};
      if (key == FI_KEY_NOTAVAIL) return -FI_EINVAL;
      if (!domain.regions().add(key, memory)) return -FI_ENOKEY;
    }
  } catch (const std::exception&) {
    return -FI_ENOMEM;
  }
  try {
    *region =
        new MemoryRegion(domain, data, bytes, (access & kLocal) != 0, is_remote, key, context);
    return 0;
  } catch (const std::bad_alloc&) {
    if (is_remote) domain.regions().remove(key);
    return -FI_ENOMEM;
  }
}

int reg(struct fid* fid, const void* data, std::size_t bytes, std::uint64_t access,
        std::uint64_t offset, std::uint64_t requested, std::uint64_t flags, fid_mr** region,
        void* context) {
  const int wrong = check(access, flags, offset);
  return wrong != 0 ? wrong : register_one(fid, data, bytes, access, requested, region, context);
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
