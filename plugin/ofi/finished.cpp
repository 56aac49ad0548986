// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/finished.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

namespace hawser::ofi {

std::size_t write_entry(const Operation& operation, fi_cq_format format, std::byte* out) {
  fi_cq_tagged_entry entry{};
  entry.op_context = operation.context;
  entry.flags = operation.flags;
  entry.len = operation.length;
  entry.buf = operation.buffer;
  entry.data = operation.data;
  entry.tag = operation.tag;
  // Each format is a prefix of the next.
  std::size_t bytes = sizeof(fi_cq_tagged_entry);
  if (format == FI_CQ_FORMAT_CONTEXT) bytes = sizeof(fi_cq_entry);
  if (format == FI_CQ_FORMAT_MSG) bytes = sizeof(fi_cq_msg_entry);
  if (format == FI_CQ_FORMAT_DATA) bytes = sizeof(fi_cq_data_entry);
  std::memcpy(out, &entry, bytes);
  return bytes;
}

bool has_details(Status status) {
  return status != Status::again && status != Status::cancelled && status != Status::truncated;
}

void write_error(const Operation& operation, const std::string& text, std::uint32_t version,
                 fi_cq_err_entry& entry) {
  entry.op_context = operation.context;
  entry.flags = operation.flags;
  entry.len = operation.length;
  entry.buf = operation.buffer;
  entry.data = operation.data;
  entry.tag = operation.tag;
  entry.olen = operation.overflow;
  entry.err = operation.error;
  entry.prov_errno = static_cast<int>(operation.status);
  const bool knows_size = version >= FI_VERSION(1, 5);
  if (text.empty()) {
    if (knows_size) entry.err_data_size = 0;
    return;
  }
  // A program that brings no memory of its own gets ours (fi_cq(3)).
  if (knows_size && entry.err_data != nullptr && entry.err_data_size > 0) {
    const std::size_t length = std::min(entry.err_data_size - 1, text.size());
    std::memcpy(entry.err_data, text.data(), length);
    static_cast<char*>(entry.err_data)[length] = '\0';
    entry.err_data_size = length + 1;
    return;
  }
  entry.err_data = const_cast<char*>(text.c_str());
  if (knows_size) entry.err_data_size = text.size() + 1;
}

const char* error_text(int error, const void* data, char* out, std::size_t bytes) {
  const auto status = static_cast<Status>(error);
  const char* text = to_string(status).data();
  if (status == Status::again) text = "no matching message has arrived";
  if (data != nullptr && has_details(status)) text = static_cast<const char*>(data);
  if (out == nullptr || bytes == 0) return text;
  const std::size_t length = std::min(bytes - 1, std::strlen(text));
  std::memcpy(out, text, length);
  out[length] = '\0';
  return out;
}

bool is_end_of_session(Status status) {
  return status == Status::peer_unreachable || status == Status::peer_timeout ||
         status == Status::peer_restarted || status == Status::peer_closed ||
         status == Status::peer_full;
}

int error_of(Status status) {
  switch (status) {
    case Status::ok: return 0;
    case Status::again: return FI_EAGAIN;
    case Status::truncated: return FI_ETRUNC;
    case Status::no_route:
    case Status::peer_unreachable: return FI_EHOSTUNREACH;
    case Status::peer_full: return FI_ECONNREFUSED;
    case Status::peer_timeout: return FI_ETIMEDOUT;
    case Status::peer_restarted: return FI_ECONNRESET;
    case Status::peer_closed:
    case Status::endpoint_closed: return FI_ESHUTDOWN;
    case Status::store_full: return FI_ENOBUFS;
    case Status::access_denied: return FI_EACCES;
    case Status::stale_region:
    case Status::region_withdrawn: return FI_EKEYREJECTED;
    case Status::misaligned:
    case Status::invalid_argument: return FI_EINVAL;
    case Status::cancelled:
    case Status::predecessor_failed: return FI_ECANCELED;
    case Status::unsupported: return FI_EOPNOTSUPP;
    case Status::unknown_operation: return FI_ENOENT;
    default: return FI_EOTHER;
  }
}

ssize_t answer_of(Status status) { return -error_of(status); }

}  // namespace hawser::ofi
