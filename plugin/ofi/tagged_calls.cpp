// SPDX-License-Identifier: Apache-2.0
// fi_tsend, fi_trecv and the like: tagged messages.
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/object.hpp"

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
  if (count > 1) return -FI_EINVAL;
  return count == 0 ? send(ep, nullptr, 0, nullptr, to, tag, context)
                    : send(ep, iov->iov_base, iov->iov_len, nullptr, to, tag, context);
}

ssize_t send_message(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) {
  if (msg->iov_count > 1) return -FI_EINVAL;
  const bool empty = msg->iov_count == 0;
  return object_of<Endpoint>(ep).send({.data = empty ? nullptr : msg->msg_iov->iov_base,
                                       .bytes = empty ? 0 : msg->msg_iov->iov_len,
                                       .to = msg->addr,
                                       .tag = msg->tag,
                                       .flags = flags,
                                       .remote_data = msg->data,
                                       .op_context = msg->context});
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
  if (count > 1) return -FI_EINVAL;
  return count == 0 ? receive(ep, nullptr, 0, nullptr, from, tag, ignore, context)
                    : receive(ep, iov->iov_base, iov->iov_len, nullptr, from, tag, ignore, context);
}

ssize_t receive_message(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) {
  if (msg->iov_count > 1) return -FI_EINVAL;
  const bool empty = msg->iov_count == 0;
  return object_of<Endpoint>(ep).receive({.data = empty ? nullptr : msg->msg_iov->iov_base,
                                          .bytes = empty ? 0 : msg->msg_iov->iov_len,
                                          .from = msg->addr,
                                          .tag = msg->tag,
                                          .ignore = msg->ignore,
                                          .flags = flags,
                                          .op_context = msg->context});
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
