// SPDX-License-Identifier: Apache-2.0
// One-sided calls as the tables of fi_ops_rma and fi_ops_atomic hand them to an endpoint.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "plugin/ofi/operation.hpp"

namespace hawser::ofi {

// Vectors of a call, on each side.
inline constexpr std::size_t kVectors = kMostPieces;
// Words of one atomic call.
inline constexpr std::size_t kWords = 16;
// Operations that one call may become.
inline constexpr std::size_t kParts = kWords;

// One of Hawser's operations.
struct OneSidedPart {
  std::byte* local = nullptr;  // of a write: only read; of an atomic: null, or for the old word
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // of the peer's memory
  std::uint64_t key = 0;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
};

struct OneSidedCall {
  Act act = Act::write;
  Word word{};                            // of an atomic
  std::span<const OneSidedPart> parts{};  // at least one
  fi_addr_t to = FI_ADDR_UNSPEC;
  std::uint64_t flags = 0;
  std::uint64_t remote_data = 0;
  void* op_context = nullptr;
  bool is_silent = false;  // fi_inject_write, fi_inject_atomic: no entry, no context
};

enum class AtomicForm : std::uint8_t { base, fetch, compare };
// The word operation behind an atomic call. Nothing: Hawser has no such operation.
[[nodiscard]] std::optional<Word> word_of(fi_datatype type, fi_op op, AtomicForm form);
// fi_query_atomic.
int query_atomic(fid_domain* domain, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags);

[[nodiscard]] fi_ops_rma& rma_calls();
[[nodiscard]] fi_ops_atomic& atomic_calls();

}  // namespace hawser::ofi
