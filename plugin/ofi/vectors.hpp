// SPDX-License-Identifier: Apache-2.0
// The memory of a message that lies in several places. libfabric lends the list for the call only,
// so a record keeps its own.
#pragma once

#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "hawser/types.hpp"
#include "plugin/ofi/operation.hpp"

namespace hawser::ofi {

// A call's memory: one buffer, or a list.
struct CallMemory {
  void* data = nullptr;
  std::size_t bytes = 0;  // of all
  std::span<const iovec> vectors{};
};

// Returns 0, or what is wrong with the list. Lists of one buffer, and of none, are no lists.
inline ssize_t memory_of(const iovec* iov, std::size_t count, CallMemory& memory) {
  if (count > kMostPieces || (iov == nullptr && count > 0)) return -FI_EINVAL;
  if (count == 0) return 0;
  if (count == 1) {
    memory = {.data = iov->iov_base, .bytes = iov->iov_len};
    return 0;
  }
  memory.vectors = {iov, count};
  for (const iovec& vector : memory.vectors) {
    if (vector.iov_len > kMaxMessageBytes - std::min(memory.bytes, kMaxMessageBytes)) {
      return -FI_EMSGSIZE;
    }
    memory.bytes += vector.iov_len;
  }
  return 0;
}

inline void keep_vectors(Operation& operation, std::span<const iovec> vectors) {
  operation.vector_count = static_cast<std::uint32_t>(vectors.size());
  std::ranges::copy(vectors, operation.vectors.begin());
}

// The list of a record, for a request of Hawser's. It is empty if the record has one buffer.
template <class Piece>
class PiecesOf {
 public:
  explicit PiecesOf(const Operation& operation) : count_(operation.vector_count) {
    for (std::size_t i = 0; i < count_; ++i) {
      pieces_[i] = {operation.vectors[i].iov_base, operation.vectors[i].iov_len};
    }
  }
  [[nodiscard]] std::span<const Piece> list() const { return std::span(pieces_).first(count_); }
  // The length that the request names beside the list.
  [[nodiscard]] std::uint64_t bytes(const Operation& operation) const {
    return count_ > 0 ? 0 : operation.length;
  }

 private:
  std::array<Piece, kMostPieces> pieces_;
  std::size_t count_;
};

}  // namespace hawser::ofi
