// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_verbs/fabric.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "proto/base/assert.hpp"
#include "test/support/fake_verbs/world.hpp"

namespace hawser::test::fake {
namespace {

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

// Between two fabrics this world has no devices.
std::unique_ptr<World>& current() {
  static auto only = std::make_unique<World>();
  return only;
}

Device& device_named(const std::string& name) {
  const auto& devices = world().devices;
  const auto found =
      std::ranges::find_if(devices, [&](const auto& device) { return device->name == name; });
  HAWSER_ASSERT(found != devices.end(), "no such device");
  return **found;
}

QueuePair& pair_numbered(std::uint32_t number) {
  QueuePair* const pair = find_pair(number);
  HAWSER_ASSERT(pair != nullptr, "no such queue pair");
  return *pair;
}

ibv_cq* completions_on(QueuePair& pair, Side side) {
  return side == Side::send ? pair.qp_base.send_cq : pair.qp_base.recv_cq;
}

void wake_all(Device& device) {
  for (Context* const context : device.contexts) wake(context->context.async_fd);
}

void raise_on(Device& device, const ibv_async_event& event) {
  for (Context* const context : device.contexts) raise_event(*context, event);
}

void run_all(std::uint64_t most) {
  for (QueuePair* const pair : world().pairs) run_sends(*pair, most);
}

}  // namespace

World& world() { return *current(); }

Fabric::Fabric() { current() = std::make_unique<World>(); }

Fabric::~Fabric() {
  const std::vector<std::string> violations = end();
  for (const std::string& violation : violations) {
    std::fprintf(stderr, "fake_verbs: %s\n", violation.c_str());
  }
  HAWSER_ASSERT(violations.empty(), "a device was misused");
}

std::vector<std::string> Fabric::end() {
  {
    const std::lock_guard lock(world().mutex);
    if (const std::size_t left = std::exchange(world().objects, 0)) {
      world().violation(std::to_string(left) + " objects are left at the end");
    }
  }
  return take_violations();
}

void Fabric::add(DeviceSettings settings) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  auto device = std::make_unique<Device>();
  HAWSER_ASSERT(settings.name.size() < sizeof device->name);
  std::memcpy(device->name, settings.name.c_str(), settings.name.size() + 1);
  device->counters.resize(settings.ports.size());
  device->settings = std::move(settings);
  all.devices.push_back(std::move(device));
}

void Fabric::change(const std::string& device, const std::function<void(DeviceSettings&)>& how) {
  const std::lock_guard lock(world().mutex);
  how(device_named(device).settings);
}

void Fabric::remove(const std::string& name, Removal removal) {
  World& all = world();
  const std::lock_guard lock(all.mutex);
  Device& device = device_named(name);
  device.removed = true;
  ibv_async_event event{};
  if (removal == Removal::told) {
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    raise_on(device, event);
    for (Context* const context : device.contexts) context->events_broken = true;
    wake_all(device);
  } else {
    event.event_type = IBV_EVENT_PORT_ERR;
    for (std::size_t port = 1; port <= device.settings.ports.size(); ++port) {
      event.element.port_num = static_cast<int>(port);
      raise_on(device, event);
    }
  }
  const auto found =
      std::ranges::find_if(all.devices, [&](const auto& other) { return other.get() == &device; });
  all.removed_devices.push_back(std::move(*found));
  all.devices.erase(found);
}

std::size_t Fabric::removed_in_use() const {
  const std::lock_guard lock(world().mutex);
  return static_cast<std::size_t>(std::ranges::count_if(
      world().removed_devices, [](const auto& device) { return !device->contexts.empty(); }));
}

void Fabric::set_gids(const std::string& name, std::uint8_t port, std::vector<GidRow> gids) {
  const std::lock_guard lock(world().mutex);
  Device& device = device_named(name);
  device.settings.ports.at(port - 1u).gids = std::move(gids);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_GID_CHANGE;
  event.element.port_num = port;
  raise_on(device, event);
}

void Fabric::fail(Call call, int error, std::uint64_t skip, std::uint64_t times) {
  const std::lock_guard lock(world().mutex);
  world().faults.fail(call, error, skip, times);
}

void Fabric::fail_setup(std::uint64_t n, int error) {
  const std::lock_guard lock(world().mutex);
  world().faults.fail_setup(n, error);
}

void Fabric::refuse_after(Side side, std::uint64_t requests, int error) {
  const std::lock_guard lock(world().mutex);
  world().faults.refuse_after(side, requests, error);
}

void Fabric::complete_with(Side side, ibv_wc_status status, std::uint64_t skip) {
  const std::lock_guard lock(world().mutex);
  world().faults.complete_with(side, status, skip);
}

void Fabric::lie(Side side, std::function<void(ibv_wc&)> how, std::uint64_t skip) {
  const std::lock_guard lock(world().mutex);
  world().faults.lie(side, std::move(how), skip);
}

void Fabric::invent(std::uint32_t queue_pair, Side side, const ibv_wc& completion) {
  const std::lock_guard lock(world().mutex);
  QueuePair& pair = pair_numbered(queue_pair);
  push(completions_of(completions_on(pair, side)), {completion, nullptr, side, 0});
}

std::uint64_t Fabric::calls(Call call) const {
  const std::lock_guard lock(world().mutex);
  return world().faults.calls(call);
}

std::uint64_t Fabric::setup_calls() const {
  const std::lock_guard lock(world().mutex);
  return world().faults.setup_calls();
}

void Fabric::set_port(const std::string& device, std::uint8_t port, ibv_port_state state) {
  const std::lock_guard lock(world().mutex);
  Device& changed = device_named(device);
  changed.settings.ports.at(port - 1u).state = state;
  ibv_async_event event{};
  event.event_type = state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  event.element.port_num = port;
  raise_on(changed, event);
  if (state == IBV_PORT_ACTIVE && !world().held) run_all(kAll);  // what had stalled
}

void Fabric::raise(const std::string& device, ibv_event_type type, std::uint8_t port,
                   std::uint64_t times) {
  const std::lock_guard lock(world().mutex);
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  for (; times > 0; --times) raise_on(device_named(device), event);
}

void Fabric::raise_of_pair(std::uint32_t queue_pair, ibv_event_type type) {
  const std::lock_guard lock(world().mutex);
  QueuePair& pair = pair_numbered(queue_pair);
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = base_of(pair);
  raise_event(context_of(pair.qp_base.context), event);
}

void Fabric::raise_of_completions(std::uint32_t queue_pair, Side side) {
  const std::lock_guard lock(world().mutex);
  QueuePair& pair = pair_numbered(queue_pair);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = completions_on(pair, side);
  completions_of(event.element.cq).dead = true;
  raise_event(context_of(pair.qp_base.context), event);
}

void Fabric::break_events(const std::string& device) {
  const std::lock_guard lock(world().mutex);
  for (Context* const context : device_named(device).contexts) {
    context->events_broken = true;
    wake(context->context.async_fd);
  }
}

std::size_t Fabric::events_waiting(const std::string& device) const {
  const std::lock_guard lock(world().mutex);
  std::size_t sum = 0;
  for (const Context* const context : device_named(device).contexts) sum += context->events.size();
  return sum;
}

void Fabric::hold(bool held) {
  const std::lock_guard lock(world().mutex);
  world().held = held;
  if (!held) run_all(kAll);
}

void Fabric::let_go(std::uint64_t sends) {
  const std::lock_guard lock(world().mutex);
  run_all(sends);
}

void Fabric::mark(bool marked) {
  const std::lock_guard lock(world().mutex);
  world().marked = marked;
}

void Fabric::copy_on_fork(bool copied) {
  const std::lock_guard lock(world().mutex);
  world().copies_on_fork = copied;
}

std::size_t Fabric::registrations() const {
  const std::lock_guard lock(world().mutex);
  const auto& memories = world().memories;
  return memories.size() - static_cast<std::size_t>(std::ranges::count(memories, nullptr));
}

void Fabric::block_handles(bool blocked) {
  {
    const std::lock_guard lock(world().mutex);
    world().handles_are_blocked = blocked;
    world().blocked_gids.clear();
  }
  world().changed.notify_all();
}

void Fabric::block_handles_to(std::vector<Gid> gids) {
  {
    const std::lock_guard lock(world().mutex);
    world().handles_are_blocked = !gids.empty();
    world().blocked_gids = std::move(gids);
  }
  world().changed.notify_all();
}

std::size_t Fabric::handles_blocked() const {
  const std::lock_guard lock(world().mutex);
  return world().blocked_handles;
}

PortCounters Fabric::counters(const std::string& device, std::uint8_t port) const {
  const std::lock_guard lock(world().mutex);
  return device_named(device).counters.at(port - 1u);
}

std::vector<HandleInfo> Fabric::handles(const std::string& device) const {
  const std::lock_guard lock(world().mutex);
  const Device& of = device_named(device);
  std::vector<HandleInfo> result;
  for (const Handle* const handle : world().handles) {
    if (context_of(handle->context).device != &of) continue;
    result.push_back({handle->attributes, handle->sent});
  }
  return result;
}

std::vector<std::uint32_t> Fabric::pairs(const std::string& device) const {
  const std::lock_guard lock(world().mutex);
  const Device& of = device_named(device);
  std::vector<std::uint32_t> numbers;
  for (QueuePair* const pair : world().pairs) {
    if (&device_of(*pair) == &of) numbers.push_back(pair->qp_base.qp_num);
  }
  return numbers;
}

ibv_qp_state Fabric::state_of(std::uint32_t queue_pair) const {
  const std::lock_guard lock(world().mutex);
  return pair_numbered(queue_pair).qp_base.state;
}

std::size_t Fabric::objects() const {
  const std::lock_guard lock(world().mutex);
  return world().objects;
}

std::vector<std::string> Fabric::take_violations() {
  const std::lock_guard lock(world().mutex);
  return std::exchange(world().violations, {});
}

}  // namespace hawser::test::fake
