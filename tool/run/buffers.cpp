// SPDX-License-Identifier: Apache-2.0
#include "tool/run/buffers.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

constexpr std::size_t kLine = 64;

constexpr std::size_t round_up(std::size_t n) { return (n + kLine - 1) / kLine * kLine; }

// The bytes differ from place to place, so that a copy of one guard onto another shows too.
std::byte guard_byte(std::size_t place) {
  return static_cast<std::byte>((place * 0x9e3779b97f4a7c15u) >> 56);
}

}  // namespace

BufferArena::BufferArena(std::size_t bytes) : bytes_(round_up(bytes)) {
  if (bytes_ == 0) return;
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw InputError(fmt::format(
        "no memory for {} MB of buffers: {}; a larger --scale, or smaller --sizes, need less",
        bytes_ / 1'000'000, std::strerror(errno)));
  }
  memory_ = static_cast<std::byte*>(memory);
  (void)::madvise(memory_, bytes_, MADV_HUGEPAGE);  // fewer page faults where the kernel can
}

BufferArena::~BufferArena() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

std::size_t BufferArena::footprint(std::size_t bytes) { return round_up(bytes) + 2 * kGuardBytes; }

void BufferArena::clear() {
  used_ = 0;
  guards_.clear();
}

void BufferArena::paint(std::byte* begin) {
  for (std::size_t i = 0; i < kGuardBytes; ++i) {
    begin[i] = guard_byte(static_cast<std::size_t>(begin - memory_) + i);
  }
  guards_.push_back(begin);
}

std::span<std::byte> BufferArena::take(std::size_t bytes) {
  if (bytes_ - used_ < footprint(bytes)) std::abort();
  std::byte* const begin = memory_ + used_ + kGuardBytes;
  paint(begin - kGuardBytes);
  // The rear guard touches the last byte; the bytes behind it, up to the rounded size, are not
  // checked.
  paint(begin + bytes);
  used_ += footprint(bytes);
  return {begin, bytes};
}

std::uint64_t BufferArena::damaged_guard_bytes() const {
  std::uint64_t damaged = 0;
  for (const std::byte* guard : guards_) {
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      damaged += guard[i] != guard_byte(static_cast<std::size_t>(guard - memory_) + i);
    }
  }
  return damaged;
}

}  // namespace hawser::tool
