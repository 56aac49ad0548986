// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstring>

#include "tool/error.hpp"
#include "tool/run/buffers.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("buffers: every guard byte counts, no byte of a buffer does") {
  constexpr std::size_t kSizes[] = {1, 63, 64, 65, 1000};
  std::size_t total = 0;
  for (const std::size_t size : kSizes) total += BufferArena::footprint(size);
  BufferArena arena(total);
  for (int round = 0; round < 2; ++round) {
    arena.clear();
    std::vector<std::span<std::byte>> buffers;
    for (const std::size_t size : kSizes) buffers.push_back(arena.take(size));
    for (const auto& buffer : buffers) {
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
      std::memset(buffer.data(), 0xff, buffer.size());
    }
    CHECK(arena.damaged_guard_bytes() == 0);
    std::uint64_t expected = 0;
    for (const auto& buffer : buffers) {
      *(buffer.data() - 1) ^= std::byte{1};
      *(buffer.data() + buffer.size()) ^= std::byte{1};
      *(buffer.data() - BufferArena::kGuardBytes) ^= std::byte{1};
      *(buffer.data() + buffer.size() + BufferArena::kGuardBytes - 1) ^= std::byte{1};
      expected += 4;
      CHECK(arena.damaged_guard_bytes() == expected);
    }
  }
}

TEST_CASE("buffers: memory that the system does not give is an error of the input") {
  CHECK_THROWS_AS(BufferArena(std::size_t{1} << 60), InputError);
}

}  // namespace
}  // namespace hawser::tool
