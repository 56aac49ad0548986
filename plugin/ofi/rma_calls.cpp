// SPDX-License-Identifier: Apache-2.0
// fi_read, fi_write and the like. A call whose vectors do not fit each other piece by piece becomes
// several operations of Hawser's, which end as one.
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/one_sided.hpp"

namespace hawser::ofi {
namespace {

// The pieces of a call.
struct Pieces {
  std::array<OneSidedPart, kParts> parts;
  std::size_t count = 0;
  [[nodiscard]] std::span<const OneSidedPart> span() const { return {parts.data(), count}; }
};

// Cuts both lists at each border of either. A call of no bytes is one piece. Returns 0, or what is
// wrong with the lists.
ssize_t cut(std::span<const iovec> local, std::span<const fi_rma_iov> remote, Pieces& pieces) {
  if (local.size() > kVectors || remote.size() > kVectors || remote.empty()) return -FI_EINVAL;
  std::size_t l = 0, r = 0, from = 0, to = 0;
  while (l < local.size() && r < remote.size()) {
    const std::size_t bytes = std::min(local[l].iov_len - from, remote[r].len - to);
    if (bytes > 0) {
      pieces.parts[pieces.count++] = {.local = static_cast<std::byte*>(local[l].iov_base) + from,
                                      .bytes = bytes,
                                      .address = remote[r].addr + to,
                                      .key = remote[r].key};
    }
    from += bytes;
    to += bytes;
    const bool ends_local = from == local[l].iov_len;
    if (to == remote[r].len) {
      ++r;
      to = 0;
    }
    if (ends_local) {
      ++l;
      from = 0;
    }
  }
  // The rest must be empty: the two sides have the same length.
  for (; l < local.size(); ++l, from = 0) {
    if (local[l].iov_len > from) return -FI_EINVAL;
  }
  for (; r < remote.size(); ++r, to = 0) {
    if (remote[r].len > to) return -FI_EINVAL;
  }
  if (pieces.count == 0) {
    pieces.parts[pieces.count++] = {.address = remote[0].addr, .key = remote[0].key};
  }
  return 0;
}

ssize_t call_vector(fid_ep* ep, Act act, std::span<const iovec> local, std::uint64_t address,
                    std::uint64_t key, fi_addr_t to, void* context) {
  std::size_t bytes = 0;
  for (const iovec& vector : local) bytes += vector.iov_len;
  const fi_rma_iov remote{.addr = address, .len = bytes, .key = key};
  Pieces pieces;
  if (const ssize_t wrong = cut(local, {&remote, 1}, pieces); wrong != 0) return wrong;
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.start({.act = act,
                         .parts = pieces.span(),
                         .to = to,
                         .flags = endpoint.one_sided_flags(act),
                         .op_context = context});
}

ssize_t call_message(fid_ep* ep, Act act, const fi_msg_rma& msg, std::uint64_t flags) {
  Pieces pieces;
  const ssize_t wrong = cut({msg.msg_iov, msg.iov_count}, {msg.rma_iov, msg.rma_iov_count}, pieces);
  if (wrong != 0) return wrong;
  return object_of<Endpoint>(ep).start({.act = act,
                                        .parts = pieces.span(),
                                        .to = msg.addr,
                                        .flags = flags,
                                        .remote_data = msg.data,
                                        .op_context = msg.context});
}

ssize_t read(fid_ep* ep, void* data, std::size_t bytes, void*, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
  const iovec local{data, bytes};
  return call_vector(ep, Act::read, {&local, 1}, address, key, from, context);
}

ssize_t read_vector(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t from,
                    std::uint64_t address, std::uint64_t key, void* context) {
  return call_vector(ep, Act::read, {iov, count}, address, key, from, context);
}

ssize_t read_message(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) {
  return call_message(ep, Act::read, *msg, flags);
}

ssize_t write(fid_ep* ep, const void* data, std::size_t bytes, void*, fi_addr_t to,
              std::uint64_t address, std::uint64_t key, void* context) {
  const iovec local{const_cast<void*>(data), bytes};
  return call_vector(ep, Act::write, {&local, 1}, address, key, to, context);
}

ssize_t write_vector(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key, void* context) {
  return call_vector(ep, Act::write, {iov, count}, address, key, to, context);
}

ssize_t write_message(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) {
  return call_message(ep, Act::write, *msg, flags);
}

// A write of one piece, with flags and data of its own.
ssize_t write_one(fid_ep* ep, const void* data, std::size_t bytes, std::uint64_t address,
                  std::uint64_t key, OneSidedCall call) {
  const OneSidedPart part{.local = static_cast<std::byte*>(const_cast<void*>(data)),
                          .bytes = bytes,
                          .address = address,
                          .key = key};
  call.parts = {&part, 1};
  return object_of<Endpoint>(ep).start(call);
}

ssize_t inject_write(fid_ep* ep, const void* data, std::size_t bytes, fi_addr_t to,
                     std::uint64_t address, std::uint64_t key) {
  return write_one(ep, data, bytes, address, key,
                   {.to = to, .flags = FI_INJECT, .is_silent = true});
}

ssize_t write_data(fid_ep* ep, const void* data, std::size_t bytes, void*,
                   std::uint64_t remote_data, fi_addr_t to, std::uint64_t address,
                   std::uint64_t key, void* context) {
  const std::uint64_t flags = object_of<Endpoint>(ep).one_sided_flags(Act::write);
  return write_one(ep, data, bytes, address, key,
                   {.to = to,
                    .flags = flags | FI_REMOTE_CQ_DATA,
                    .remote_data = remote_data,
                    .op_context = context});
}

ssize_t inject_write_data(fid_ep* ep, const void* data, std::size_t bytes,
                          std::uint64_t remote_data, fi_addr_t to, std::uint64_t address,
                          std::uint64_t key) {
  return write_one(ep, data, bytes, address, key,
                   {.to = to,
                    .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                    .remote_data = remote_data,
                    .is_silent = true});
}

}  // namespace

fi_ops_rma& rma_calls() {
  static fi_ops_rma calls{.size = sizeof calls,
                          .read = read,
                          .readv = read_vector,
                          .readmsg = read_message,
                          .write = write,
                          .writev = write_vector,
                          .writemsg = write_message,
                          .inject = inject_write,
                          .writedata = write_data,
                          .injectdata = inject_write_data};
  return calls;
}

}  // namespace hawser::ofi
