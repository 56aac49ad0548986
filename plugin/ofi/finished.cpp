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
  // Each format is the beginning of the next.
  std::size_t bytes = sizeof(fi_cq_tagged_entry);
  if (format == FI_CQ_FORMAT_CONTEXT) bytes = sizeof(fi_cq_entry);
  if (format == FI_CQ_FORMAT_MSG) bytes = sizeof(fi_cq_msg_entry);
  if (format == FI_CQ_FORMAT_DATA) bytes = sizeof(fi_cq_data_entry);
  std::memcpy(out, &entry, bytes);
  return bytes;
}

void write_error(const Operation& operation, const std::string& text, fi_cq_err_entry& entry) {
  void* const room = entry.err_data;
  const std::size_t room_bytes = entry.err_data_size;
  entry.op_context = operation.context;
  entry.flags = operation.flags;
  entry.len = operation.length;
  entry.buf = operation.buffer;
  entry.data = operation.data;
  entry.tag = operation.tag;
  entry.olen = operation.overflow;
  entry.err = operation.error;
  entry.prov_errno = static_cast<int>(operation.status);
  // Who brings no memory of his own gets ours (fi_cq(3)).
  if (room != nullptr && room_bytes > 0) {
    const std::size_t length = std::min(room_bytes - 1, text.size());
    std::memcpy(room, text.data(), length);
    static_cast<char*>(room)[length] = '\0';
    entry.err_data_size = length + 1;
  } else {
    entry.err_data = const_cast<char*>(text.c_str());
    entry.err_data_size = text.size() + 1;
  }
}

const char* error_text(int status, const void* data, char* out, std::size_t bytes) {
  const char* const text = data != nullptr ? static_cast<const char*>(data)
                                           : to_string(static_cast<Status>(status)).data();
  if (out == nullptr || bytes == 0) return text;
  const std::size_t length = std::min(bytes - 1, std::strlen(text));
  std::memcpy(out, text, length);
  out[length] = '\0';
  return out;
}

int error_of(Status status) {
  switch (status) {
    case Status::ok: return 0;
    case Status::again: return FI_EAGAIN;
    case Status::truncated: return FI_ETRUNC;
    case Status::cancelled: return FI_ECANCELED;
    case Status::peer_unreachable: return FI_EHOSTUNREACH;
    case Status::peer_timeout: return FI_ETIMEDOUT;
    case Status::peer_restarted: return FI_ECONNRESET;
    case Status::peer_closed:
    case Status::endpoint_closed: return FI_ESHUTDOWN;
    case Status::store_full: return FI_ENOBUFS;
    case Status::invalid_argument: return FI_EINVAL;
    case Status::unknown_operation: return FI_ENOENT;
    default: return FI_EOTHER;
  }
}

ssize_t answer_of(Status status) { return -error_of(status); }

}  // namespace hawser::ofi
