// SPDX-License-Identifier: Apache-2.0
// fi_send, fi_recv and the like: untagged messages.
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/vectors.hpp"

namespace hawser::ofi {
namespace {

// Calls without flags use the endpoint's defaults. fi_sendmsg and fi_recvmsg use only their own
// flags.
ssize_t send(fid_ep* ep, const void* data, std::size_t bytes, void*, fi_addr_t to, void* context) {
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.send({.channel = kUntaggedChannel,
                        .data = data,
                        .bytes = bytes,
                        .to = to,
                        .flags = endpoint.send_flags(),
                        .op_context = context});
}

ssize_t send_vector(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t to,
                    void* context) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(iov, count, memory); wrong != 0) return wrong;
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.send({.channel = kUntaggedChannel,
                        .data = memory.data,
                        .bytes = memory.bytes,
                        .to = to,
                        .flags = endpoint.send_flags(),
                        .op_context = context,
                        .vectors = memory.vectors});
}

ssize_t send_message(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(msg->msg_iov, msg->iov_count, memory); wrong != 0) {
    return wrong;
  }
  return object_of<Endpoint>(ep).send({.channel = kUntaggedChannel,
                                       .data = memory.data,
                                       .bytes = memory.bytes,
                                       .to = msg->addr,
                                       .flags = flags,
                                       .remote_data = msg->data,
                                       .op_context = msg->context,
                                       .vectors = memory.vectors});
}

ssize_t inject(fid_ep* ep, const void* data, std::size_t bytes, fi_addr_t to) {
  return object_of<Endpoint>(ep).send({.channel = kUntaggedChannel,
                                       .data = data,
                                       .bytes = bytes,
                                       .to = to,
                                       .flags = FI_INJECT,
                                       .is_silent = true});
}

ssize_t send_data(fid_ep* ep, const void* data, std::size_t bytes, void*, std::uint64_t remote_data,
                  fi_addr_t to, void* context) {
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.send({.channel = kUntaggedChannel,
                        .data = data,
                        .bytes = bytes,
                        .to = to,
                        .flags = endpoint.send_flags() | FI_REMOTE_CQ_DATA,
                        .remote_data = remote_data,
                        .op_context = context});
}

ssize_t inject_data(fid_ep* ep, const void* data, std::size_t bytes, std::uint64_t remote_data,
                    fi_addr_t to) {
  return object_of<Endpoint>(ep).send({.channel = kUntaggedChannel,
                                       .data = data,
                                       .bytes = bytes,
                                       .to = to,
                                       .flags = FI_INJECT | FI_REMOTE_CQ_DATA,
                                       .remote_data = remote_data,
                                       .is_silent = true});
}

ssize_t receive(fid_ep* ep, void* data, std::size_t bytes, void*, fi_addr_t from, void* context) {
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.receive({.channel = kUntaggedChannel,
                           .data = data,
                           .bytes = bytes,
                           .from = from,
                           .flags = endpoint.receive_flags(),
                           .op_context = context});
}

ssize_t receive_vector(fid_ep* ep, const iovec* iov, void**, std::size_t count, fi_addr_t from,
                       void* context) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(iov, count, memory); wrong != 0) return wrong;
  Endpoint& endpoint = object_of<Endpoint>(ep);
  return endpoint.receive({.channel = kUntaggedChannel,
                           .data = memory.data,
                           .bytes = memory.bytes,
                           .from = from,
                           .flags = endpoint.receive_flags(),
                           .op_context = context,
                           .vectors = memory.vectors});
}

ssize_t receive_message(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) {
  CallMemory memory;
  if (const ssize_t wrong = memory_of(msg->msg_iov, msg->iov_count, memory); wrong != 0) {
    return wrong;
  }
  return object_of<Endpoint>(ep).receive({.channel = kUntaggedChannel,
                                          .data = memory.data,
                                          .bytes = memory.bytes,
                                          .from = msg->addr,
                                          .flags = flags,
                                          .op_context = msg->context,
                                          .vectors = memory.vectors});
}

}  // namespace

fi_ops_msg& message_calls() {
  static fi_ops_msg calls{.size = sizeof calls,
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
