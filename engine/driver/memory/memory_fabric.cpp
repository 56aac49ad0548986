// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/memory/memory_fabric.hpp"

#include <cstring>
#include <utility>

namespace hawser::engine {
namespace {

using proto::NicAddress;

// An address is its kind, 7 zero bytes, the fabric's id and the NIC's number. Both numbers are in
// host order, because no other host can use them.
constexpr std::size_t kIdAt = 8;
constexpr std::size_t kNumberAt = 16;

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<MemoryFabric>, std::less<>> fabrics;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

// Returns a new fabric id. Ids never repeat within a process, and hardly ever between two
// processes. An address that strays into another process is therefore refused there, instead of
// naming another NIC.
std::uint64_t next_fabric_id() {
  static std::atomic<std::uint64_t> made{0};
  std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(&registry()) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return mixed + 1 + made.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::shared_ptr<MemoryFabric> MemoryFabric::named(std::string_view name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.fabrics.find(name); found != all.fabrics.end()) {
    if (auto fabric = found->second.lock()) return fabric;
  }
  auto fabric = std::make_shared<MemoryFabric>(std::string(name), next_fabric_id());
  all.fabrics.insert_or_assign(std::string(name), fabric);
  return fabric;
}

MemoryFabric::MemoryFabric(std::string name, std::uint64_t id) : name_(std::move(name)), id_(id) {}

NicAddress MemoryFabric::address_of(std::uint64_t number) const {
  NicAddress address;
  address.bytes[0] = static_cast<std::byte>(proto::NicKind::memory);
  std::memcpy(address.bytes.data() + kIdAt, &id_, sizeof id_);
  std::memcpy(address.bytes.data() + kNumberAt, &number, sizeof number);
  return address;
}

NicAddress MemoryFabric::attach(std::shared_ptr<MemoryPort> port) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = next_number_++;
  ports_.emplace(number, std::move(port));
  return address_of(number);
}

void MemoryFabric::detach(const NicAddress& address) {
  std::uint64_t number = 0;
  std::memcpy(&number, address.bytes.data() + kNumberAt, sizeof number);
  const std::lock_guard lock(mutex_);
  ports_.erase(number);
}

bool MemoryFabric::names(const NicAddress& address) const {
  std::uint64_t number = 0;
  std::memcpy(&number, address.bytes.data() + kNumberAt, sizeof number);
  return address == address_of(number);
}

Status MemoryFabric::find(const NicAddress& address, std::shared_ptr<MemoryPort>& port) {
  std::uint64_t number = 0;
  std::memcpy(&number, address.bytes.data() + kNumberAt, sizeof number);
  if (!names(address)) return Status::invalid_argument;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Status::again;
  if (number == 0 || number >= next_number_) return Status::invalid_argument;
  const auto found = ports_.find(number);
  port = found == ports_.end() ? nullptr : found->second;
  return Status::ok;
}

}  // namespace hawser::engine
