// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and the attributes of ports.
#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "proto/base/assert.hpp"
#include "test/support/fake_verbs/world.hpp"

#undef ibv_get_device_list
#undef ibv_query_port

namespace hawser::test::fake {

Gid gid_of(const char* address) {
  Gid gid{};
  if (::inet_pton(AF_INET6, address, gid.data()) == 1) return gid;
  gid[10] = gid[11] = std::byte{0xff};
  HAWSER_ASSERT(::inet_pton(AF_INET, address, gid.data() + 12) == 1, "no IP address");
  return gid;
}

Context& context_of(ibv_context* context) {
  auto* const bytes = reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context);
  return static_cast<Context&>(*reinterpret_cast<verbs_context*>(bytes));
}

int gone(ibv_context* context) { return context_of(context).device->removed ? EIO : 0; }

namespace {

// A port of the device, null if it has no such port.
const PortSettings* port_at(ibv_context* context, std::uint32_t number) {
  const auto& ports = context_of(context).device->settings.ports;
  return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
}

int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attributes,
               std::size_t bytes) {
  const std::lock_guard lock(world().mutex);
  if (const int error = world().faults.strike(Call::query_port)) return error;
  const PortSettings* const port = port_at(context, number);
  if (const int error = gone(context)) return error;
  if (port == nullptr) return EINVAL;
  ibv_port_attr said{};
  said.state = port->state;
  said.max_mtu = IBV_MTU_4096;
  said.active_mtu = static_cast<ibv_mtu>(port->mtu);
  said.gid_tbl_len = static_cast<int>(port->gids.size());
  said.pkey_tbl_len = 1;
  said.lid = port->lid;
  const PortCounters& counters = context_of(context).device->counters[number - 1u];
  said.qkey_viol_cntr = static_cast<std::uint32_t>(counters.qkey_violations);
  said.bad_pkey_cntr = static_cast<std::uint32_t>(counters.pkey_violations);
  said.active_speed = port->speed;
  said.active_width = port->width;
  said.link_layer = !port->has_link_layer ? IBV_LINK_LAYER_UNSPECIFIED
                    : port->infiniband    ? IBV_LINK_LAYER_INFINIBAND
                                          : IBV_LINK_LAYER_ETHERNET;
  std::memcpy(attributes, &said, std::min(bytes, sizeof said));
  return 0;
}

bool is_zero(const Gid& gid) { return gid == Gid{}; }

}  // namespace
}  // namespace hawser::test::fake

using namespace hawser::test::fake;  // NOLINT: what follows are libibverbs' own functions

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  if (const int error = all.faults.strike(Call::get_device_list)) {
    errno = error;
    if (count != nullptr) *count = 0;
    return nullptr;
  }
  auto** const list = new ibv_device* [all.devices.size() + 1] {};
  for (std::size_t i = 0; i < all.devices.size(); ++i) list[i] = all.devices[i].get();
  if (count != nullptr) *count = static_cast<int>(all.devices.size());
  ++all.objects;
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  const std::lock_guard lock(world().mutex);
  --world().objects;
  delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* which) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  int error = all.faults.strike(Call::open_device);
  if (static_cast<Device*>(which)->removed) error = ENODEV;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  auto made = std::make_unique<Context>();
  made->device = static_cast<Device*>(which);
  // Threads of NICs on this device read it at any time, so it is written only if a test changed it.
  const ibv_transport_type transport = made->device->settings.transport;
  if (which->transport_type != transport) which->transport_type = transport;
  made->sz = sizeof(verbs_context);
  made->query_port = query_port;
  ibv_context& base = made->context;
  base.device = which;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.num_comp_vectors = 1;
  base.cmd_fd = -1;
  base.async_fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  base.ops.post_send = post_send;
  base.ops.post_recv = post_receive;
  base.ops.poll_cq = poll;
  base.ops.req_notify_cq = request_notification;
  if (made->device->settings.extended) offer_extended(*made);
  made->device->contexts.push_back(made.get());
  ++all.objects;
  return &made.release()->context;
}

int ibv_close_device(ibv_context* context) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  Context& closed = context_of(context);
  if (closed.objects > 0) all.violation("a device is closed with objects left");
  if (std::ranges::any_of(closed.events, &AsyncEvent::read)) {
    all.violation("a device is closed with events that were not acknowledged");
  }
  std::erase(closed.device->contexts, &closed);
  ::close(context->async_fd);
  --all.objects;
  delete &closed;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  if (const int error = world().faults.strike(Call::query_device)) return error;
  if (const int error = gone(context)) return error;
  *attributes = {};
  attributes->vendor_id = context_of(context).device->settings.vendor_id;
  attributes->max_mr_size = context_of(context).device->settings.max_memory_bytes;
  attributes->phys_port_cnt =
      static_cast<std::uint8_t>(context_of(context).device->settings.ports.size());
  return 0;
}

// Old programs call this function; new ones go through verbs_context.
int ibv_query_port(ibv_context* context, std::uint8_t number, _compat_ibv_port_attr* attributes) {
  return query_port(context, number, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t room,
                             std::uint32_t, std::size_t) {
  const std::lock_guard lock(world().mutex);
  if (const int error = world().faults.strike(Call::query_gid_table)) return -error;
  if (const int error = gone(context)) return -error;
  std::size_t count = 0;
  const auto& ports = context_of(context).device->settings.ports;
  for (std::size_t port = 0; port < ports.size(); ++port) {
    for (const GidRow& row : ports[port].gids) {
      if (is_zero(row.gid)) continue;
      if (count == room) return -EINVAL;
      ibv_gid_entry& entry = entries[count++];
      entry = {};
      entry.gid_index = row.index;
      entry.port_num = static_cast<std::uint32_t>(port + 1);
      entry.gid_type = row.type;
      std::memcpy(entry.gid.raw, row.gid.data(), row.gid.size());
    }
  }
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* context, std::uint8_t number, int index, __be16* key) {
  const std::lock_guard lock(world().mutex);
  int error = world().faults.strike(Call::query_pkey);
  if (error == 0) error = gone(context);
  const PortSettings* const port = port_at(context, number);
  if (error == 0 && (port == nullptr || index != 0)) error = EINVAL;
  if (error != 0) {
    errno = error;
    return -1;
  }
  *key = htons(port->pkey);
  return 0;
}

const char* ibv_port_state_str(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_NOP: return "no state change (NOP)";
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "init";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active defer";
  }
  return "unknown";
}

}  // extern "C"
