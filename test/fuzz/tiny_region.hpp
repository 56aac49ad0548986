// SPDX-License-Identifier: Apache-2.0
// Memory that an endpoint of a tiny world exposes. It checks every access as it happens, whoever
// forges packets: it lies within the memory, the memory gives the right to it, and nobody has
// called `withdraw`. The allocation is freed when the withdrawal is over, so that a sanitizer
// reports any later access.
//
// It has words, a page that only reads name, and a place for writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hawser/one_sided.hpp"
#include "proto/region/host_placement.hpp"

namespace hawser::test {

class TinyRegion final : public proto::Placement {
 public:
  static constexpr std::size_t kWords = 4;
  static constexpr std::size_t kPageAt = kWords * sizeof(std::uint64_t);
  static constexpr std::size_t kPage = 2048;
  static constexpr std::size_t kPlaceAt = kPageAt + kPage;
  static constexpr std::size_t kPlace = 3008;
  static constexpr std::size_t kBytes = kPlaceAt + kPlace;

  // `executes`: whether this memory can do atomics.
  TinyRegion(RegionAccess rights, bool executes);

  // Its name and key at its endpoint, once it is exposed.
  RegionId id = kNoRegion;
  RegionKey key{};

  [[nodiscard]] RegionAccess rights() const { return rights_; }
  [[nodiscard]] bool executes() const { return executes_; }
  [[nodiscard]] bool withdrawn() const { return withdrawn_; }
  [[nodiscard]] bool exists() const { return memory_ != nullptr; }
  // All bytes of it.
  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.get() + kGuard, kBytes}; }
  [[nodiscard]] std::uint64_t word(std::size_t index);
  // The byte before anything was written.
  [[nodiscard]] static std::byte initial(std::size_t at);

  void begin_withdrawal() { withdrawn_ = true; }
  void end_withdrawal() { memory_.reset(); }
  // The memory around it is as it was, and so is all of it if no key gives the right to change it.
  void check_guards();

  // ---- proto::Placement
  void place(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void make_visible() override;
  [[nodiscard]] bool execute(std::byte* word, const WordOperation& operation,
                             std::uint64_t& before) override;
  [[nodiscard]] std::size_t granularity() const override { return 8; }

 private:
  static constexpr std::size_t kGuard = 64;

  void check_access(const std::byte* at, std::size_t bytes, RegionAccess wanted);

  RegionAccess rights_;
  bool executes_;
  bool withdrawn_ = false;
  std::unique_ptr<std::byte[]> memory_;
  proto::HostPlacement host_;
};

}  // namespace hawser::test
