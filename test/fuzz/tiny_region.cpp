// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/tiny_region.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"

namespace hawser::test {

namespace {

constexpr std::byte kGuardByte{0xee};
constexpr std::byte kBlank{0xa5};

}  // namespace

TinyRegion::TinyRegion(RegionAccess rights, bool executes)
    : rights_(rights),
      executes_(executes),
      memory_(std::make_unique<std::byte[]>(kGuard + kBytes + kGuard)) {
  std::fill_n(memory_.get(), kGuard, kGuardByte);
  std::fill_n(memory_.get() + kGuard + kBytes, kGuard, kGuardByte);
  for (std::size_t i = 0; i < kBytes; ++i) bytes()[i] = initial(i);
}

std::byte TinyRegion::initial(std::size_t at) {
  if (at < kPageAt) return std::byte{0};
  return at < kPlaceAt ? static_cast<std::byte>(at * 7 + at / 256 * 13 + 3) : kBlank;
}

std::uint64_t TinyRegion::word(std::size_t index) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes().data() + index * sizeof value, sizeof value);
  return value;
}

void TinyRegion::check_guards() {
  const auto is_guard = [](std::byte byte) { return byte == kGuardByte; };
  const std::span<const std::byte> all(memory_.get(), kGuard + kBytes + kGuard);
  HAWSER_ASSERT(std::ranges::all_of(all.first(kGuard), is_guard), "written before a region");
  HAWSER_ASSERT(std::ranges::all_of(all.last(kGuard), is_guard), "written behind a region");
  if (allows(rights_, RegionAccess::write) || allows(rights_, RegionAccess::atomic)) return;
  for (std::size_t i = 0; i < kBytes; ++i) {
    HAWSER_ASSERT(bytes()[i] == initial(i), "memory changed that only reads may use");
  }
}

void TinyRegion::check_access(const std::byte* at, std::size_t count, RegionAccess wanted) {
  HAWSER_ASSERT(!withdrawn_ && exists(), "access to a region that was withdrawn");
  HAWSER_ASSERT(allows(rights_, wanted), "access without the right to it");
  const std::byte* const begin = bytes().data();
  HAWSER_ASSERT(at >= begin && at <= begin + kBytes, "access that begins outside the region");
  HAWSER_ASSERT(count <= static_cast<std::size_t>(begin + kBytes - at), "access beyond the region");
}

void TinyRegion::place(std::byte* to, const std::byte* from, std::size_t count) {
  check_access(to, count, RegionAccess::write);
  host_.place(to, from, count);
}

void TinyRegion::make_visible() { HAWSER_ASSERT(!withdrawn_, "a region was withdrawn"); }

bool TinyRegion::execute(std::byte* word, const WordOperation& operation, std::uint64_t& before) {
  check_access(word, operation.width, RegionAccess::atomic);
  HAWSER_ASSERT(reinterpret_cast<std::uintptr_t>(word) % operation.width == 0, "misaligned");
  return executes_ && host_.execute(word, operation, before);
}

}  // namespace hawser::test
