// SPDX-License-Identifier: Apache-2.0
// fi_tsend, fi_trecv and the like: tagged messages.
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/vectors.hpp"

namespace hawser::ofi {
namespace {

// A flag of untagged receives only, though an endpoint's default may apply to both kinds.
constexpr std::uint64_t kUntaggedOnly = FI_MULTI_RECV;

ssize_t send(fid_ep* ep, const void* data, std::size_t bytes, void*, fi_addr_t to,
             std::uint64_t tag, void* context) {
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.send({.data = data,
                        .bytes = bytes,
                        .to = to,
                        .tag = tag,
                        .flags = endpoint.send_flags(),
                        .op_context = context});
}

ssize_t send_vector(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t to,
                    std::uint64_t tag, void* context) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(iov, count, memory); wrong != 0) return wrong;
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.send({.data = memory.data,
                        .bytes = memory.bytes,
                        .to = to,
                        .tag = tag,
                        .flags = endpoint.send_flags(),
                        .op_context = context,
                        .vectors = memory.vectors});
}

ssize_t send_message(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(msg->msg_iov, msg->iov_count, memory); wrong != 0) {
    return wrong;
  }
  return object_of<Endpoint>(ep).send({.data = memory.data,
                                       .bytes = memory.bytes,
                                       .to = msg->addr,
                                       .tag = msg->tag,
                                       .flags = flags,
                                       .remote_data = msg->data,
                                       .op_context = msg->context,
                                       .vectors = memory.vectors});
}

ssize_t inject(fid_ep* ep, const void* data, std::size_t bytes, fi_addr_t to, std::uint64_t tag) {
  return object_of<Endpoint>(ep).send(
      {.data = data, .bytes = bytes, .to = to, .tag = tag, .flags = FI_INJECT, .is_silent = true});
}

ssize_t send_data(fid_ep* ep, const void* data, std::size_t bytes, void*, std::uint64_t remote_data,
                  fi_addr_t to, std::uint64_t tag, void* context) {
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.send({.data = data,
                        .bytes = bytes,
                        .to = to,
                        .tag = tag,
                        .flags = endpoint.send_flags() | FI_REMOTE_CQ_DATA,
                        .remote_data = remote_data,
                        .op_context = context});
}

ssize_t inject_data(fid_ep* ep, const void* data, std::size_t bytes, std::uint64_t remote_data,
                    fi_addr_t to, std::uint64_t tag) {
  return object_of<Endpoint>(ep).send({.data = data,
                                       .bytes = bytes,
                                       .to = to,
                                       .tag = tag,
                                       .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                       .remote_data = remote_data,
                                       .is_silent = true});
}

ssize_t receive(fid_ep* ep, void* data, std::size_t bytes, void*, fi_addr_t from, std::uint64_t tag,
                std::uint64_t ignore, void* context) {
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.receive({.data = data,
                           .bytes = bytes,
                           .from = from,
                           .tag = tag,
                           .ignore = ignore,
                           .flags = endpoint.receive_flags() & ~kUntaggedOnly,
                           .op_context = context});
}

ssize_t receive_vector(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t from,
                       std::uint64_t tag, std::uint64_t ignore, void* context) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(iov, count, memory); wrong != 0) return wrong;
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.receive({.data = memory.data,
                           .bytes = memory.bytes,
                           .from = from,
                           .tag = tag,
                           .ignore = ignore,
                           .flags = endpoint.receive_flags() & ~kUntaggedOnly,
                           .op_context = context,
                           .vectors = memory.vectors});
}

ssize_t receive_message(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(msg->msg_iov, msg->iov_count, memory); wrong != 0) {
    return wrong;
  }
  return object_of<Endpoint>(ep).receive({.data = memory.data,
                                          .bytes = memory.bytes,
                                          .from = msg->addr,
                                          .tag = msg->tag,
                                          .ignore = msg->ignore,
                                          .flags = flags,
                                          .op_context = msg->context,
                                          .vectors = memory.vectors});
}

}  // namespace

fi_ops_tagged& tagged_calls() {
  static fi_ops_tagged calls{.size = sizeof calls,
                             .recv = receive,
                             .recvv = receive_vector,
                             .recvmsg = receive_message,
                             .send = send,
                             .sendv = send_vector,
                             .sendmsg = send_message,
                             .inject = inject,
                             .senddata = send_data,
                             .injectdata = inject_data};
  return calls;
}

}  // namespace hawser::ofi
