// SPDX-License-Identifier: Apache-2.0
// Protection domains, registered memory and address handles.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "test/support/fake_verbs/world.hpp"

#undef ibv_reg_mr

namespace hawser::test::fake {
namespace {

// The low bits differ from one registration in a place to the next, so that using an old key shows.
constexpr std::uint32_t kGenerationBits = 8;
constexpr std::uint32_t kGenerations = 1u << kGenerationBits;

ibv_mr* register_memory(ibv_pd* pd, void* data, std::size_t bytes, unsigned access) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  int error = all.faults.strike(Call::reg_mr);
  const std::uint64_t most = context_of(pd->context).device->settings.max_memory_bytes;
  if (bytes == 0 || (most > 0 && bytes > most)) error = EINVAL;
  if (error == 0) error = gone(pd->context);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  static std::uint32_t generation = 0;  // under the lock
  auto* const memory = new Memory;
  auto place = std::ranges::find(all.memories, nullptr);
  if (place == all.memories.end()) place = all.memories.insert(place, nullptr);
  *place = memory;
  const auto index = static_cast<std::uint32_t>(place - all.memories.begin()) + 1;
  memory->context = pd->context;
  memory->pd = pd;
  memory->addr = data;
  memory->length = bytes;
  memory->access = access;
  memory->lkey = memory->rkey = index << kGenerationBits | ++generation % kGenerations;
  ++static_cast<Domain*>(pd)->objects;
  ++all.objects;
  return memory;
}

// Whether the kernel would make a handle of these attributes: zero, or the error number.
int refusal_of(Context& context, const ibv_ah_attr& attributes) {
  const auto& ports = context.device->settings.ports;
  if (attributes.port_num < 1 || attributes.port_num > ports.size()) return EINVAL;
  const PortSettings& port = ports[attributes.port_num - 1];
  if (port.infiniband && attributes.is_global == 0) return 0;  // LIDs are not looked up
  if (attributes.is_global == 0) return EINVAL;
  const auto own = std::ranges::find(port.gids, attributes.grh.sgid_index, &GidRow::index);
  if (own == port.gids.end()) return EINVAL;
  if (port.infiniband) return 0;
  // The kernel resolves the address on the network, so some port must have it.
  for (const auto& device : world().devices) {
    for (const PortSettings& other : device->settings.ports) {
      for (const GidRow& row : other.gids) {
        if (std::memcmp(row.gid.data(), attributes.grh.dgid.raw, row.gid.size()) == 0) return 0;
      }
    }
  }
  return ETIMEDOUT;
}

// Whether the address of such a handle has not been resolved yet.
bool is_blocked(const ibv_ah_attr& attributes) {
  const World& all = world();
  return all.handles_are_blocked &&
         (all.blocked_gids.empty() || std::ranges::any_of(all.blocked_gids, [&](const Gid& gid) {
            return std::memcmp(gid.data(), attributes.grh.dgid.raw, gid.size()) == 0;
          }));
}

}  // namespace

Memory* memory_with(std::uint32_t key) {
  const auto& memories = world().memories;
  const std::uint32_t index = key >> kGenerationBits;
  if (index < 1 || index > memories.size()) return nullptr;
  Memory* const memory = memories[index - 1];
  return memory != nullptr && memory->lkey == key ? memory : nullptr;
}

const std::byte* data_of(const ibv_sge& part) {
  const auto* const data = reinterpret_cast<const std::byte*>(part.addr);
  const Memory* const memory = memory_with(part.lkey);
  if (memory == nullptr || memory->dmabuf == nullptr) return data;
  return memory->dmabuf + (data - static_cast<const std::byte*>(memory->addr));
}

Memory* memory_of(const ibv_sge& part, const ibv_pd* domain, unsigned access) {
  World& all = world();
  Memory* const memory = memory_with(part.lkey);
  if (memory == nullptr || memory->pd != domain) {
    all.violation("a request has a key that stands for no memory of its domain");
    return nullptr;
  }
  const auto begin = reinterpret_cast<std::uint64_t>(memory->addr);
  if (part.addr < begin || part.addr + part.length > begin + memory->length) {
    all.violation("a request reaches out of its registered memory");
    return nullptr;
  }
  if ((memory->access & access) != access) {
    all.violation("a request writes memory that was registered for reading");
    return nullptr;
  }
  return memory;
}

}  // namespace hawser::test::fake

using namespace hawser::test::fake;  // NOLINT: what follows are libibverbs' own functions

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  int error = all.faults.strike(Call::alloc_pd);
  if (error == 0) error = gone(context);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const domain = new Domain;
  domain->context = context;
  ++context_of(context).objects;
  ++all.objects;
  return domain;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto* const domain = static_cast<Domain*>(pd);
  if (domain->objects > 0) {
    all.violation("a protection domain goes before what was made in it");
    return EBUSY;
  }
  --context_of(pd->context).objects;
  --all.objects;
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* data, std::size_t bytes, int access) {
  return register_memory(pd, data, bytes, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* data, std::size_t bytes, std::uint64_t address,
                         unsigned access) {
  if (address != reinterpret_cast<std::uint64_t>(data)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return register_memory(pd, data, bytes, access);
}

// A descriptor that can't be mapped stands for this process's memory, at the addresses that the
// requests name.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes,
                          std::uint64_t address, int fd, int access) {
  if (!context_of(pd->context).device->settings.takes_dmabufs) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if (::fcntl(fd, F_GETFD) < 0) return nullptr;  // EBADF
  ibv_mr* const memory =
      register_memory(pd, reinterpret_cast<void*>(address), bytes, static_cast<unsigned>(access));
  if (memory == nullptr) return nullptr;
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (mapped != MAP_FAILED) static_cast<Memory*>(memory)->dmabuf = static_cast<std::byte*>(mapped);
  return memory;
}

ibv_fork_status ibv_is_fork_initialized() {
  const std::lock_guard lock(world().mutex);
  return world().copies_on_fork ? IBV_FORK_UNNEEDED : IBV_FORK_DISABLED;
}

int ibv_dereg_mr(ibv_mr* mr) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto* const memory = static_cast<Memory*>(mr);
  std::ranges::replace(all.memories, memory, nullptr);
  if (memory->dmabuf != nullptr) ::munmap(memory->dmabuf, memory->length);
  --static_cast<Domain*>(mr->pd)->objects;
  --all.objects;
  if (memory->uses == 0) {
    delete memory;
  } else {
    all.violation("memory is deregistered while the device has it");
  }
  return 0;
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  World& all = world();
  std::unique_lock lock(all.mutex);
  ++all.blocked_handles;
  all.changed.wait(lock, [&] { return !is_blocked(*attributes); });
  --all.blocked_handles;
  int error = all.faults.strike(Call::create_ah);
  if (error == 0) error = gone(pd->context);
  if (error == 0) error = refusal_of(context_of(pd->context), *attributes);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto* const handle = new Handle;
  handle->context = pd->context;
  handle->pd = pd;
  handle->attributes = *attributes;
  all.handles.push_back(handle);
  ++static_cast<Domain*>(pd)->objects;
  ++all.objects;
  return handle;
}

int ibv_destroy_ah(ibv_ah* ah) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto* const handle = static_cast<Handle*>(ah);
  std::erase(all.handles, handle);
  --static_cast<Domain*>(ah->pd)->objects;
  --all.objects;
  if (handle->uses == 0) {
    delete handle;
  } else {
    all.violation("an address handle goes while a send has it");
  }
  return 0;
}

}  // extern "C"
