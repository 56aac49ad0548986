// SPDX-License-Identifier: Apache-2.0
#include "tool/check/pattern.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace hawser::tool {
namespace {

constexpr std::size_t kBlock = 1024;  // elements of a sum, or 32-bit words of bytes
constexpr unsigned kMaxBits = 20;

// Finalizer of splitmix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  return mix(a + 0x9e3779b97f4a7c15u + mix(b + 0x632be59bd9b4e019u));
}

std::uint64_t hash_of(const PatternKey& key) {
  const std::uint64_t numbers =
      combine((std::uint64_t{key.step} << 32) | key.collective, key.group);
  return combine(key.seed, numbers);
}

// The pseudo-random word at place j of a block: additive sequence, then one multiplication, which
// compilers turn into a handful of vector instructions for eight places.
constexpr std::uint32_t word_at(std::uint32_t block_seed, std::uint32_t j) {
  std::uint32_t x = block_seed + j * 0x9e3779b1u;
  x ^= x >> 15;
  x *= 0x85ebca77u;
  return x ^ (x >> 16);
}

constexpr std::uint32_t f32_bits(std::uint32_t whole) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(whole)));
}

// Elements [begin, begin + n) of a block: base + factor * p.
struct BlockValues {
  std::uint32_t seed;
  std::uint32_t base;
  std::uint32_t factor;
  unsigned shift;  // 32 - bits

  [[nodiscard]] std::uint32_t at(std::uint32_t j) const {
    return base + factor * (word_at(seed, j) >> shift);
  }
  void write_f32(std::uint32_t begin, std::uint32_t n, std::uint32_t* out) const {
    for (std::uint32_t i = 0; i < n; ++i) out[i] = f32_bits(at(begin + i));
  }
  void write_bf16(std::uint32_t begin, std::uint32_t n, std::uint16_t* out) const {
    // Exact, as the whole numbers have at most 8 significant bits.
    for (std::uint32_t i = 0; i < n; ++i) {
      out[i] = static_cast<std::uint16_t>(f32_bits(at(begin + i)) >> 16);
    }
  }
  // `out` may be anywhere: a result's block of a reduce-scatter need not be aligned.
  void write(DataType type, std::uint32_t begin, std::uint32_t n, std::byte* out) const {
    if (type == DataType::f32) {
      alignas(64) std::array<std::uint32_t, kBlock> values;
      write_f32(begin, n, values.data());
      std::memcpy(out, values.data(), n * sizeof(std::uint32_t));
    } else {
      alignas(64) std::array<std::uint16_t, kBlock> values;
      write_bf16(begin, n, values.data());
      std::memcpy(out, values.data(), n * sizeof(std::uint16_t));
    }
  }
};

// Calls visit(block, place in it, elements, elements before) for the blocks of [first,
// first+count).
template <typename Visit>
void for_blocks(std::uint64_t first, std::uint64_t count, Visit visit) {
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t at = first + done;
    const auto begin = static_cast<std::uint32_t>(at % kBlock);
    const auto n =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlock - begin, count - done));
    visit(at / kBlock, begin, n, done);
    done += n;
  }
}

double element_value(DataType type, const std::byte* at) {
  if (type == DataType::f32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  std::uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{half} << 16));
}

// Elements of `bytes` bytes each that differ between two blocks.
template <typename Value>
std::optional<Mismatch> compare(const std::byte* expected, const std::byte* found, std::uint32_t n,
                                std::size_t bytes, std::uint64_t place, Value value) {
  if (std::memcmp(expected, found, n * bytes) == 0) return std::nullopt;
  Mismatch mismatch;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (std::memcmp(expected + i * bytes, found + i * bytes, bytes) == 0) continue;
    if (mismatch.wrong++ > 0) continue;
    mismatch.first = place + i;
    mismatch.expected = value(expected + i * bytes);
    mismatch.found = value(found + i * bytes);
  }
  return mismatch;
}

void write_words(std::uint64_t hash, std::uint64_t block, std::byte* out) {
  const auto seed = static_cast<std::uint32_t>(combine(hash, block));
  alignas(64) std::array<std::uint32_t, kBlock> words;
  for (std::uint32_t i = 0; i < kBlock; ++i) words[i] = word_at(seed, i);
  std::memcpy(out, words.data(), sizeof words);
}

std::uint64_t move_hash(const PatternKey& key, std::uint32_t sender, std::uint32_t receiver) {
  return combine(hash_of(key), (std::uint64_t{sender} << 32) | receiver);
}

}  // namespace

std::uint32_t SumPattern::max_ranks(DataType type) {
  // With one bit each for p and c, elements are 1 to 3.
  return (type == DataType::f32 ? 1u << 24 : 1u << 8) / 3;
}

SumPattern::SumPattern(DataType type, std::uint32_t ranks) : type_(type), ranks_(ranks) {
  // An element is at most 1 + 2 * (2^bits - 1).
  const std::uint32_t limit = (type == DataType::f32 ? 1u << 24 : 1u << 8) / ranks;
  bits_ = 1;
  while (bits_ < kMaxBits && (2u << (bits_ + 1)) - 1 <= limit) ++bits_;
}

void SumPattern::fill(const PatternKey& key, std::uint32_t rank, std::uint64_t first,
                      std::span<std::byte> out) const {
  const std::uint64_t hash = hash_of(key);
  const std::uint64_t own = combine(hash, rank + 1);
  const std::uint64_t bytes = bytes_of(type_);
  const unsigned shift = 32 - bits_;
  for_blocks(
      first, out.size() / bytes,
      [&](std::uint64_t block, std::uint32_t begin, std::uint32_t n, std::uint64_t done) {
        const auto c = static_cast<std::uint32_t>(combine(own, block)) >> shift;
        const BlockValues values{static_cast<std::uint32_t>(combine(hash, block)), 1 + c, 1, shift};
        values.write(type_, begin, n, out.data() + done * bytes);
      });
}

std::optional<Mismatch> SumPattern::verify(const PatternKey& key, std::uint64_t first,
                                           std::span<const std::byte> result) const {
  const std::uint64_t hash = hash_of(key);
  const std::uint64_t bytes = bytes_of(type_);
  const unsigned shift = 32 - bits_;
  std::optional<Mismatch> mismatch;
  for_blocks(first, result.size() / bytes,
             [&](std::uint64_t block, std::uint32_t begin, std::uint32_t n, std::uint64_t done) {
               std::uint32_t base = ranks_;
               for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
                 base +=
                     static_cast<std::uint32_t>(combine(combine(hash, rank + 1), block)) >> shift;
               }
               const BlockValues values{static_cast<std::uint32_t>(combine(hash, block)), base,
                                        ranks_, shift};
               alignas(64) std::array<std::byte, kBlock * 4> expected;
               values.write(type_, begin, n, expected.data());
               merge(mismatch,
                     compare(expected.data(), result.data() + done * bytes, n, bytes, first + done,
                             [&](const std::byte* at) { return element_value(type_, at); }));
             });
  return mismatch;
}

void fill_bytes(const PatternKey& key, std::uint32_t sender, std::uint32_t receiver,
                std::uint64_t first, std::span<std::byte> out) {
  const std::uint64_t hash = move_hash(key, sender, receiver);
  constexpr std::size_t kBytes = kBlock * 4;
  alignas(64) std::array<std::byte, kBytes> words;
  for (std::uint64_t done = 0; done < out.size();) {
    const std::uint64_t at = first + done;
    const std::size_t begin = at % kBytes;
    const std::size_t n = std::min<std::size_t>(kBytes - begin, out.size() - done);
    write_words(hash, at / kBytes, words.data());
    std::memcpy(out.data() + done, words.data() + begin, n);
    done += n;
  }
}

std::optional<Mismatch> verify_bytes(const PatternKey& key, std::uint32_t sender,
                                     std::uint32_t receiver, std::uint64_t first,
                                     std::span<const std::byte> result) {
  const std::uint64_t hash = move_hash(key, sender, receiver);
  constexpr std::size_t kBytes = kBlock * 4;
  alignas(64) std::array<std::byte, kBytes> words;
  std::optional<Mismatch> mismatch;
  for (std::uint64_t done = 0; done < result.size();) {
    const std::uint64_t at = first + done;
    const std::size_t begin = at % kBytes;
    const std::size_t n = std::min<std::size_t>(kBytes - begin, result.size() - done);
    write_words(hash, at / kBytes, words.data());
    merge(mismatch, compare(words.data() + begin, result.data() + done,
                            static_cast<std::uint32_t>(n), 1, at, [](const std::byte* b) {
                              return static_cast<double>(std::to_integer<unsigned>(*b));
                            }));
    done += n;
  }
  return mismatch;
}

void merge(std::optional<Mismatch>& into, const std::optional<Mismatch>& found) {
  if (!found) return;
  if (!into) {
    into = found;
  } else {
    into->wrong += found->wrong;
  }
}

}  // namespace hawser::tool
