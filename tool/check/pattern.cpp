// SPDX-License-Identifier: Apache-2.0
#include "tool/check/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace hawser::tool {
namespace {

constexpr std::size_t kBlock = SumPattern::kBlock;  // or 32-bit words of bytes
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

// The parts of a float type: bits of its mantissa, its bias, and all its bits.
struct FloatFormat {
  unsigned mantissa;
  unsigned bias;
  unsigned bits;
};
constexpr FloatFormat kF16{10, 15, 16};
constexpr FloatFormat kE4M3{3, 7, 8};
constexpr FloatFormat kE5M2{2, 15, 8};

constexpr std::uint32_t f32_bits(std::uint32_t whole) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(whole)));
}

// A whole number with at most mantissa + 1 significant bits.
constexpr std::uint32_t small_float_bits(FloatFormat format, std::uint32_t whole) {
  if (whole == 0) return 0;
  const auto exponent = static_cast<unsigned>(std::bit_width(whole) - 1);
  const std::uint32_t mantissa = exponent <= format.mantissa
                                     ? whole << (format.mantissa - exponent)
                                     : whole >> (exponent - format.mantissa);
  return ((exponent + format.bias - 1) << format.mantissa) + mantissa;
}

// The value, as far as it is finite in all of these formats.
double small_float_value(FloatFormat format, std::uint32_t bits) {
  const std::uint32_t implicit = std::uint32_t{1} << format.mantissa;
  const std::uint32_t mantissa = bits & (implicit - 1);
  const bool is_negative = ((bits >> (format.bits - 1)) & 1) != 0;
  const auto exponent = static_cast<int>((bits & ((1u << (format.bits - 1)) - 1)) / implicit);
  const double value = std::ldexp(
      exponent == 0 ? mantissa : mantissa + implicit,
      std::max(exponent, 1) - static_cast<int>(format.bias) - static_cast<int>(format.mantissa));
  return is_negative ? -value : value;
}

// Up to here, the type holds every whole number exactly.
constexpr std::uint32_t exact_up_to(DataType type) {
  switch (type) {
    case DataType::f16: return 1u << (kF16.mantissa + 1);
    case DataType::bf16:
    case DataType::i8:
    case DataType::u8: return 1u << 8;
    case DataType::f8e4m3: return 1u << (kE4M3.mantissa + 1);
    case DataType::f8e5m2: return 1u << (kE5M2.mantissa + 1);
    case DataType::f32:
    case DataType::f64:
    case DataType::i32:
    case DataType::i64: break;
  }
  return 1u << 24;
}

constexpr bool is_integer(DataType type) {
  return type == DataType::i32 || type == DataType::i64 || type == DataType::i8 ||
         type == DataType::u8;
}

// Wide types hold the whole numbers times these, so that all bits of the type take part. Integers
// wrap. A double holds the product exactly: 2^24 times as much is below 2^53.
constexpr std::uint32_t kWide32 = 0x9e3779b1u;
constexpr std::uint64_t kWide64 = 0x9e3779b97f4a7c15u;
constexpr double kWideDouble = (1 << 29) - 3;

using Wholes = SumPattern::Wholes;

template <typename Element, typename Convert>
void write_as(const Wholes& wholes, std::uint32_t n, std::byte* out, Convert convert) {
  alignas(64) std::array<Element, kBlock> values;
  for (std::uint32_t i = 0; i < n; ++i) values[i] = static_cast<Element>(convert(wholes[i]));
  std::memcpy(out, values.data(), n * sizeof(Element));
}

// `out` may be anywhere: a result's block of a reduce-scatter need not be aligned.
void write(DataType type, const Wholes& wholes, std::uint32_t n, std::byte* out) {
  const auto same = [](std::uint32_t whole) { return whole; };
  switch (type) {
    case DataType::f32: return write_as<std::uint32_t>(wholes, n, out, f32_bits);
    case DataType::f64:
      return write_as<double>(wholes, n, out, [](std::uint32_t whole) {
        return static_cast<double>(static_cast<std::int32_t>(whole)) * kWideDouble;
      });
    case DataType::f16:
      return write_as<std::uint16_t>(
          wholes, n, out, [](std::uint32_t whole) { return small_float_bits(kF16, whole); });
    case DataType::bf16:
      return write_as<std::uint16_t>(wholes, n, out,
                                     [](std::uint32_t whole) { return f32_bits(whole) >> 16; });
    case DataType::i32:
      return write_as<std::uint32_t>(wholes, n, out,
                                     [](std::uint32_t whole) { return whole * kWide32; });
    case DataType::i64:
      return write_as<std::uint64_t>(wholes, n, out,
                                     [](std::uint32_t whole) { return whole * kWide64; });
    case DataType::i8:
    case DataType::u8: return write_as<std::uint8_t>(wholes, n, out, same);
    case DataType::f8e4m3:
      return write_as<std::uint8_t>(
          wholes, n, out, [](std::uint32_t whole) { return small_float_bits(kE4M3, whole); });
    case DataType::f8e5m2:
      return write_as<std::uint8_t>(
          wholes, n, out, [](std::uint32_t whole) { return small_float_bits(kE5M2, whole); });
  }
}

// Elements [begin, begin + n) of a block: base + factor * p.
struct BlockValues {
  std::uint32_t seed;
  std::uint32_t base;
  std::uint32_t factor;
  unsigned shift;  // 32 - bits

  void put(std::uint32_t begin, std::uint32_t n, Wholes& wholes) const {
    for (std::uint32_t i = 0; i < n; ++i) {
      wholes[i] = base + factor * (word_at(seed, begin + i) >> shift);
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

template <typename Element>
Element element_at(const std::byte* at) {
  Element element;
  std::memcpy(&element, at, sizeof element);
  return element;
}

std::string element_text(DataType type, const std::byte* at) {
  switch (type) {
    case DataType::f32: return fmt::to_string(element_at<float>(at));
    case DataType::f64: return fmt::to_string(element_at<double>(at));
    case DataType::f16:
      return fmt::to_string(small_float_value(kF16, element_at<std::uint16_t>(at)));
    case DataType::bf16:
      return fmt::to_string(
          std::bit_cast<float>(std::uint32_t{element_at<std::uint16_t>(at)} << 16));
    case DataType::i32: return fmt::to_string(element_at<std::int32_t>(at));
    case DataType::i64: return fmt::to_string(element_at<std::int64_t>(at));
    case DataType::i8: return fmt::to_string(int{element_at<std::int8_t>(at)});
    case DataType::u8: return fmt::to_string(unsigned{element_at<std::uint8_t>(at)});
    case DataType::f8e4m3:
      return fmt::to_string(small_float_value(kE4M3, element_at<std::uint8_t>(at)));
    case DataType::f8e5m2:
      return fmt::to_string(small_float_value(kE5M2, element_at<std::uint8_t>(at)));
  }
  return "?";
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

SumPattern::SumPattern(DataType type, std::uint32_t ranks) : type_(type), ranks_(ranks), bits_(1) {
  const std::uint32_t limit = exact_up_to(type);
  // With one bit each for p and c, elements are 1 to 3.
  if (!is_integer(type) && ranks > limit / 3) {
    in_turn_ = std::min(limit / 2, ranks - 1);
    return;
  }
  // An element is at most 1 + 2 * (2^bits - 1).
  while (bits_ < kMaxBits && (2u << (bits_ + 1)) - 1 <= limit / ranks) ++bits_;
}

void SumPattern::put_filled(const PatternKey& key, std::uint32_t rank, std::uint64_t block,
                            std::uint32_t begin, std::uint32_t n, Wholes& wholes) const {
  const std::uint64_t hash = hash_of(key);
  const unsigned shift = 32 - bits_;
  const auto c = in_turn_ != 0
                     ? 0
                     : static_cast<std::uint32_t>(combine(combine(hash, rank + 1), block)) >> shift;
  BlockValues{static_cast<std::uint32_t>(combine(hash, block)), 1 + c, 1, shift}.put(begin, n,
                                                                                     wholes);
  if (in_turn_ == 0) return;
  const std::uint64_t turn = hash % ranks_ + rank + block * kBlock + begin;
  for (std::uint32_t i = 0; i < n; ++i) {
    if ((turn + i) % ranks_ >= in_turn_) wholes[i] = 0;
  }
}

void SumPattern::put_sums(const PatternKey& key, std::uint64_t block, std::uint32_t begin,
                          std::uint32_t n, Wholes& wholes) const {
  const std::uint64_t hash = hash_of(key);
  const unsigned shift = 32 - bits_;
  const std::uint32_t summands = in_turn_ != 0 ? in_turn_ : ranks_;
  std::uint32_t base = summands;
  for (std::uint32_t rank = 0; in_turn_ == 0 && rank < ranks_; ++rank) {
    base += static_cast<std::uint32_t>(combine(combine(hash, rank + 1), block)) >> shift;
  }
  BlockValues{static_cast<std::uint32_t>(combine(hash, block)), base, summands, shift}.put(begin, n,
                                                                                           wholes);
}

void SumPattern::fill(const PatternKey& key, std::uint32_t rank, std::uint64_t first,
                      std::span<std::byte> out) const {
  const std::uint64_t bytes = bytes_of(type_);
  alignas(64) Wholes wholes;
  for_blocks(first, out.size() / bytes,
             [&](std::uint64_t block, std::uint32_t begin, std::uint32_t n, std::uint64_t done) {
               put_filled(key, rank, block, begin, n, wholes);
               write(type_, wholes, n, out.data() + done * bytes);
             });
}

template <typename Put>
std::optional<Mismatch> SumPattern::compare_with(std::uint64_t first,
                                                 std::span<const std::byte> found, Put put) const {
  const std::uint64_t bytes = bytes_of(type_);
  std::optional<Mismatch> mismatch;
  alignas(64) Wholes wholes;
  alignas(64) std::array<std::byte, kBlock * sizeof(std::uint64_t)> expected;
  for_blocks(first, found.size() / bytes,
             [&](std::uint64_t block, std::uint32_t begin, std::uint32_t n, std::uint64_t done) {
               put(block, begin, n, wholes);
               write(type_, wholes, n, expected.data());
               merge(mismatch,
                     compare(expected.data(), found.data() + done * bytes, n, bytes, first + done,
                             [&](const std::byte* at) { return element_text(type_, at); }));
             });
  return mismatch;
}

std::optional<Mismatch> SumPattern::verify(const PatternKey& key, std::uint64_t first,
                                           std::span<const std::byte> result) const {
  return compare_with(first, result,
                      [&](std::uint64_t block, std::uint32_t begin, std::uint32_t n,
                          Wholes& wholes) { put_sums(key, block, begin, n, wholes); });
}

std::optional<Mismatch> SumPattern::verify_filled(const PatternKey& key, std::uint32_t rank,
                                                  std::uint64_t first,
                                                  std::span<const std::byte> input) const {
  return compare_with(
      first, input, [&](std::uint64_t block, std::uint32_t begin, std::uint32_t n, Wholes& wholes) {
        put_filled(key, rank, block, begin, n, wholes);
      });
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
                              return fmt::to_string(std::to_integer<unsigned>(*b));
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
