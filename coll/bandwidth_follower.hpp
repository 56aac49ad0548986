// SPDX-License-Identifier: Apache-2.0
// Keeps the ranks' bandwidths as checks find them, and decides when the next check is due.
//
// All ranks count the same bytes, so a check stands before the same all-reduce everywhere. It is a
// maximum over an entry of each rank, and its result is the same everywhere, too. The bandwidths
// therefore need no agreement beyond it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coll/bandwidth_order.hpp"
#include "hawser/engine.hpp"

namespace hawser::coll {

class BandwidthFollower {
 public:
  // At most `users` plans refer to an order at once.
  BandwidthFollower(Rank ranks, Rank own, std::uint64_t check_bytes, std::uint32_t users);

  // True if a check goes before an all-reduce that starts now.
  [[nodiscard]] bool is_due() const noexcept { return reduced_ >= check_bytes_; }
  // A check starts, or an all-reduce of so many bytes.
  void count_check() noexcept { reduced_ = 0; }
  void count_all_reduce(std::uint64_t bytes) noexcept;

  // The entries of a check, one for each rank, before it and after it. Only one may run at a time.
  [[nodiscard]] std::uint8_t* entries() noexcept { return entries_.data(); }
  // A check begins: this rank makes its entry.
  void begin_check(const Endpoint& endpoint);
  // It has ended well. Null: all ranks have the same bandwidth.
  [[nodiscard]] std::shared_ptr<const BandwidthOrder> end_check() noexcept;

 private:
  // The word that this rank tells the others when it has found `found`.
  [[nodiscard]] std::uint8_t after(std::uint8_t found) noexcept;

  Rank own_;
  std::uint64_t check_bytes_;
  std::uint64_t reduced_;  // bytes since the last check began
  std::vector<std::uint8_t> entries_;
  std::vector<Bandwidth> bandwidths_;
  std::vector<std::shared_ptr<BandwidthOrder>> orders_;
  std::uint8_t told_ = 0;   // 0 before the first check
  std::uint8_t found_ = 0;  // by the latest check
};

}  // namespace hawser::coll
