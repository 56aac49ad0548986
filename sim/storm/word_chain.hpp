// SPDX-License-Identifier: Apache-2.0
// The judge of a word to which each operation writes a value of its own, never 0.
//
// Whoever fetches such a value has come right after the operation that wrote it. Operations that
// changed the word therefore form a chain from 0 to the word's last value. The results of all
// operations are right if some order explains them ("linearizability": Herlihy and Wing, 1990):
//  - Each fetched value is 0, or was written by an operation that may have been executed.
//  - At most one operation that changed the word came right after each value, and none after the
//    last one.
//  - All operations that were executed, or whose values were fetched, are on the chain.
//  - None that ended before another one was posted comes after that one.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace hawser::sim {

// An operation on the word that was executed, or may have been.
struct ChainLink {
  std::uint32_t index = 0;                  // its name in what is said
  std::uint64_t writes = 0;                 // 0: a load
  std::optional<std::uint64_t> compares{};  // writes only if the word has this value
  std::optional<std::uint64_t> fetched{};   // none: it fetches nothing, or its result is not known
  bool is_certain = false;                  // it was executed
  // Moments of one clock. An operation that may be executed later has no end.
  std::uint64_t posted = 0;
  std::uint64_t ended = std::numeric_limits<std::uint64_t>::max();
};

// Says what no order explains. Empty: there is an order. `last`: what the word has in the end.
[[nodiscard]] std::string judge_chain(std::span<const ChainLink> links, std::uint64_t last);

}  // namespace hawser::sim
