// SPDX-License-Identifier: Apache-2.0
#include "engine/registration/registrations.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "proto/base/assert.hpp"

namespace hawser::engine {
namespace {

RegistrationId id_of(std::size_t index, std::uint32_t generation) {
  return RegistrationId{std::uint64_t{generation} << 32 | index};
}

std::string complaint_of(Status status, const proto::MemoryRange& range, const std::string& nic) {
  const std::string what = nic + ": " + std::to_string(range.bytes) + " bytes";
  switch (status) {
    case Status::too_large:
      return what + " are more than the device registers at once; register them in parts";
    case Status::lock_limit:
      return what +
             " can't be locked for the device; raise the limit (`ulimit -l unlimited`, or memlock "
             "in /etc/security/limits.conf), or deregister something";
    case Status::invalid_argument:
      return what + " are not all mapped; register only memory that is mapped";
    case Status::unsupported:
      return nic +
             " does not support dma-bufs; copy the device's data to memory of this process, and "
             "register that";
    default:
      if (range.dmabuf >= 0) {
        return what +
               " of a dma-buf can't be registered: the device refuses, or is absent; try again, or "
               "send from memory of this process";
      }
      return what +
             " can't be registered: the device refuses; send without registering them, and the "
             "engine copies them";
  }
}

// Whether pages are mapped at all of these addresses. UDP NICs pin nothing, so none of them tells.
bool is_mapped(const proto::MemoryRange& range) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(range.data);
  const std::uintptr_t begin = address / page * page;
  // The system rounds the end up to a page, which must not wrap.
  const std::uintptr_t room = std::numeric_limits<std::uintptr_t>::max() - address;
  if (room < page || range.bytes > room - page) return false;
  // With MS_ASYNC the call only looks for gaps.
  return ::msync(reinterpret_cast<void*>(begin), address - begin + range.bytes, MS_ASYNC) == 0 ||
         errno != ENOMEM;
}

}  // namespace

Registrations::Registrations(std::uint64_t limit, const Pinning& pinning,
                             std::function<void()> wake)
    : pinning_(pinning), wake_(std::move(wake)), limit_(limit) {}

Status Registrations::take(const proto::MemoryRange& range, RegistrationId& id, std::string& why) {
  if (range.data == nullptr || range.bytes == 0 ||
      range.bytes > std::numeric_limits<std::uintptr_t>::max() -
                        reinterpret_cast<std::uintptr_t>(range.data)) {
    why =
        "Memory to register must have an address and at least one byte, and must end within the "
        "address space; pass the buffer of the sends";
    return Status::invalid_argument;
  }
  if (range.dmabuf >= 0 && pinning_.empty()) {
    why =
        "No NIC of this endpoint supports dma-bufs; use a NIC of an RDMA device, or send from "
        "memory of this process";
    return Status::unsupported;
  }
  if (range.dmabuf >= 0 && !pinning_.has_all()) {
    why =
        "Not every NIC of this endpoint belongs to an RDMA device: for the others the processor "
        "would have to read the dma-buf; create an endpoint of verbs NICs only, or send from "
        "memory of this process";
    return Status::unsupported;
  }
  if (range.dmabuf >= 0 && ::fcntl(range.dmabuf, F_GETFD) == -1) {
    why = "The dma-buf's descriptor isn't open; pass the one that its exporter returned";
    return Status::invalid_argument;
  }
  if (range.dmabuf < 0 && !is_mapped(range)) {
    why = complaint_of(Status::invalid_argument, range, "Memory to register");
    return Status::invalid_argument;
  }
  std::size_t index = 0;
  if (const Status status = reserve(range, index, why); status != Status::ok) return status;
  Pins pins{};
  std::string refuser;
  const Status status = pinning_.pin_all(range, pins, refuser);
  const std::lock_guard lock(mutex_);
  Row& row = rows_[index];
  if (status != Status::ok) {
    release(row);
    why = complaint_of(status, range, refuser);
    return status;
  }
  row.pins = pins;
  row.state = State::standing;
  id = id_of(index, row.generation);
  return Status::ok;
}

Status Registrations::reserve(const proto::MemoryRange& range, std::size_t& index,
                              std::string& why) {
  const std::lock_guard lock(mutex_);
  const std::byte* const end = range.data + range.bytes;
  const bool overlaps = std::ranges::any_of(rows_, [&](const Row& row) {
    return row.state != State::free && range.data < row.begin + row.bytes && row.begin < end;
  });
  if (overlaps) {
    why = "The memory overlaps an existing registration; use that one, or deregister it first";
    return Status::overlapping;
  }
  const auto free = std::ranges::find(rows_, State::free, &Row::state);
  index = static_cast<std::size_t>(free - rows_.begin());
  if (index >= limit_) {
    why = std::to_string(limit_) +
          " registrations exist, which is the limit max_registrations; deregister one, or raise "
          "the tunable";
    return Status::again;
  }
  if (free == rows_.end()) rows_.emplace_back();
  Row& row = rows_[index];
  row.state = State::pinning;
  row.begin = range.data;
  row.bytes = range.bytes;
  row.dmabuf = range.dmabuf >= 0;
  if (row.dmabuf) dmabufs_.fetch_add(1, std::memory_order_relaxed);
  return Status::ok;
}

Registrations::Row* Registrations::find(RegistrationId id) {
  const auto number = static_cast<std::uint64_t>(id);
  const std::size_t index = number & 0xffffffffu;
  if (index >= rows_.size() || rows_[index].generation != number >> 32) return nullptr;
  return &rows_[index];
}

void Registrations::begin(RegistrationId id) {
  const std::lock_guard lock(mutex_);
  Row* const row = find(id);
  HAWSER_ASSERT(row != nullptr && row->state == State::standing, "not taken");
  pinning_.use(row->pins);
  row->in_use = true;
}

Registrations::Place Registrations::search(const std::byte* data, std::uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const Row& row : rows_) {
    const std::byte* const end = row.begin + row.bytes;
    if (!row.dmabuf || end <= data || data + bytes <= row.begin) continue;
    const bool whole = row.in_use && row.begin <= data && data + bytes <= end;
    return whole ? Place::dmabuf : Place::torn;
  }
  return Place::elsewhere;
}

Status Registrations::end(RegistrationId id, End how, bool& finish, std::string& why) {
  const std::lock_guard lock(mutex_);
  Row* const row = find(id);
  if (row == nullptr || row->state != State::standing) {
    why =
        "There is no such registration: it was deregistered already, or belongs to another "
        "endpoint";
    return Status::unknown_operation;
  }
  const bool read = pinning_.is_reading(row->pins);
  if (read && how == End::now) {
    why =
        "A NIC still reads from the memory; poll until the sends from it have completed, then "
        "deregister it";
    return Status::in_use;
  }
  pinning_.forget(row->pins);
  row->in_use = false;
  row->state = read ? State::leaving : State::finishing;
  if (read) leaving_.fetch_add(1, std::memory_order_relaxed);
  finish = !read;
  return Status::ok;
}

void Registrations::finish(RegistrationId id) {
  Pins pins{};
  {
    const std::lock_guard lock(mutex_);
    Row* const row = find(id);
    HAWSER_ASSERT(row != nullptr && row->state == State::finishing, "not ended");
    std::swap(pins, row->pins);
  }
  pinning_.unpin(pins);
  const std::lock_guard lock(mutex_);
  release(*find(id));
}

void Registrations::release(Row& row) {
  row.state = State::free;
  row.bytes = 0;
  if (std::exchange(row.dmabuf, false)) dmabufs_.fetch_sub(1, std::memory_order_relaxed);
  ++row.generation;
}

void Registrations::turn() {
  if (leaving_.load(std::memory_order_relaxed) == 0) return;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    for (Row& row : rows_) {
      if (row.state != State::leaving || pinning_.is_reading(row.pins)) continue;
      row.state = State::unread;
      leaving_.fetch_sub(1, std::memory_order_relaxed);
      any = true;
    }
  }
  if (any) wake_();
}

void Registrations::serve() {
  for (;;) {
    RegistrationId id = kNoRegistration;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::ranges::find(rows_, State::unread, &Row::state);
      if (found == rows_.end()) return;
      found->state = State::finishing;
      id = id_of(static_cast<std::size_t>(found - rows_.begin()), found->generation);
    }
    finish(id);
  }
}

std::size_t Registrations::count() const {
  const std::lock_guard lock(mutex_);
  return rows_.size() -
         static_cast<std::size_t>(std::ranges::count(rows_, State::free, &Row::state));
}

std::uint64_t Registrations::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Row& row : rows_) sum += row.bytes;
  return sum;
}

}  // namespace hawser::engine
