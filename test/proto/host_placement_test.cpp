// SPDX-License-Identifier: Apache-2.0
// What atomics do to a word of host memory, beside a plain model of them, and how shared memory is
// copied.
#include "proto/region/host_placement.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <random>

#include "proto/region/shared_copy.hpp"

namespace hawser::proto {
namespace {

constexpr auto kOperations = std::to_array<AtomicOperation>(
    {AtomicOperation::load, AtomicOperation::store, AtomicOperation::swap,
     AtomicOperation::compare_and_swap, AtomicOperation::add, AtomicOperation::bit_and,
     AtomicOperation::bit_or, AtomicOperation::bit_xor, AtomicOperation::min_signed,
     AtomicOperation::max_signed, AtomicOperation::min_unsigned, AtomicOperation::max_unsigned});

// The word afterwards, without atomics.
template <class Word, class Signed>
Word after(Word now, AtomicOperation operation, Word operand, Word compare) {
  switch (operation) {
    case AtomicOperation::load: return now;
    case AtomicOperation::store:
    case AtomicOperation::swap: return operand;
    case AtomicOperation::compare_and_swap: return now == compare ? operand : now;
    case AtomicOperation::add: return static_cast<Word>(now + operand);
    case AtomicOperation::bit_and: return now & operand;
    case AtomicOperation::bit_or: return now | operand;
    case AtomicOperation::bit_xor: return now ^ operand;
    case AtomicOperation::min_unsigned: return std::min(now, operand);
    case AtomicOperation::max_unsigned: return std::max(now, operand);
    case AtomicOperation::min_signed:
      return static_cast<Word>(std::min(static_cast<Signed>(now), static_cast<Signed>(operand)));
    case AtomicOperation::max_signed:
      return static_cast<Word>(std::max(static_cast<Signed>(now), static_cast<Signed>(operand)));
  }
  return 0;
}

template <class Word, class Signed>
void check_all() {
  HostPlacement placement;
  std::mt19937_64 random(1);
  constexpr auto kWords =
      std::to_array<std::uint64_t>({0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
                                    0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff});
  alignas(8) std::array<std::byte, 24> memory;
  for (const AtomicOperation operation : kOperations) {
    for (const std::uint64_t now : kWords) {
      for (const std::uint64_t operand : kWords) {
        const std::uint64_t compare = random() % 2 == 0 ? now : operand;
        memory.fill(std::byte{0xa5});
        const auto word = static_cast<Word>(now);
        std::memcpy(memory.data() + 8, &word, sizeof word);
        std::uint64_t before = 0x5555555555555555;
        REQUIRE(placement.execute(memory.data() + 8, {operation, sizeof(Word), operand, compare},
                                  before));
        Word left{};
        std::memcpy(&left, memory.data() + 8, sizeof left);
        INFO(static_cast<int>(operation) << " of " << now << " with " << operand);
        REQUIRE(before == word);
        REQUIRE(left == after<Word, Signed>(word, operation, static_cast<Word>(operand),
                                            static_cast<Word>(compare)));
        for (std::size_t i = 0; i < memory.size(); ++i) {
          if (i < 8 || i >= 8 + sizeof(Word)) REQUIRE(memory[i] == std::byte{0xa5});
        }
      }
    }
  }
}

TEST_CASE("HostPlacement__words_of_64_bits", "[O6]") { check_all<std::uint64_t, std::int64_t>(); }
TEST_CASE("HostPlacement__words_of_32_bits", "[O6]") { check_all<std::uint32_t, std::int32_t>(); }

TEST_CASE("HostPlacement__places_bytes_and_none_beside_them") {
  HostPlacement placement;
  std::array<std::byte, 16> memory{};
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  placement.place(memory.data() + 5, bytes.data(), bytes.size());
  placement.place(memory.data() + 10, nullptr, 0);
  placement.make_visible();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    CHECK(memory[i] == (i >= 5 && i < 8 ? bytes[i - 5] : std::byte{}));
  }
}

TEST_CASE("copy_shared__copies_every_range_and_no_more") {
  alignas(8) std::array<std::byte, 40> from{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i + 1);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t bytes = 0; begin + bytes <= from.size(); ++bytes) {
      std::array<std::byte, 40> to{};
      copy_shared(to.data(), from.data() + begin, bytes);
      for (std::size_t i = 0; i < to.size(); ++i)
        REQUIRE(to[i] == (i < bytes ? from[begin + i] : std::byte{0}));
    }
  }
}

}  // namespace
}  // namespace hawser::proto
