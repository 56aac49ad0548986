// SPDX-License-Identifier: Apache-2.0
// The bytes of injected sends, one place for each operation. The endpoint owns the copy, so the
// caller's buffer is free at once, and no completion has to give it back.
//
// Only a send that failed completes, once no NIC reads its copy any more. Its operation then
// belongs to the caller of poll, who hides its name.
//
// One thread at a time uses the place of an operation: the one that holds the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/driver/aligned_memory.hpp"
#include "hawser/status.hpp"
#include "hawser/types.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

class InjectedSends {
 public:
  InjectedSends(std::size_t max_operations, std::uint32_t most_bytes)
      : most_bytes_(most_bytes),
        is_injected_(max_operations, 0),
        copies_(allocate_aligned(max_operations * most_bytes)) {}

  [[nodiscard]] bool takes(const SendRequest& request) const {
    return bytes_of(request) <= most_bytes_;
  }

  // Copies a message that `takes` allows, and lets `asked` be of the copy, which stays until the
  // operation's next use.
  void copy(std::uint32_t index, const SendRequest& request, proto::SendRequest& asked) {
    std::byte* const to = copies_.get() + std::size_t{index} * most_bytes_;
    std::byte* end = to;
    const auto append = [&](const void* data, std::uint64_t bytes) {
      if (bytes > 0) std::memcpy(end, data, bytes);
      end += bytes;
    };
    append(request.data, request.bytes);
    for (const SendPiece& piece : request.pieces) append(piece.data, piece.bytes);
    is_injected_[index] = 1;
    asked.data = to;
    asked.bytes = static_cast<std::uint64_t>(end - to);
  }
  [[nodiscard]] bool holds(std::uint32_t index) const { return is_injected_[index] != 0; }
  void forget(std::uint32_t index) { is_injected_[index] = 0; }

  // Whether the caller hears of this completion of an injected send.
  [[nodiscard]] static bool is_told(const Completion& completion) {
    return completion.released && completion.status != Status::ok;
  }

 private:
  // The sum means nothing if the request is not valid, which its caller finds as well.
  [[nodiscard]] static std::uint64_t bytes_of(const SendRequest& request) {
    std::uint64_t bytes = request.bytes;
    for (const SendPiece& piece : request.pieces) bytes += piece.bytes;
    return bytes;
  }

  std::uint32_t most_bytes_;
  std::vector<std::uint8_t> is_injected_;  // not bits: threads write neighbours
  AlignedMemory copies_;                   // the system backs only what was used
};

}  // namespace hawser::engine
