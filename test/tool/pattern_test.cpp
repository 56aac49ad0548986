// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "tool/check/pattern.hpp"

namespace hawser::tool {
namespace {

constexpr DataType kTypes[] = {DataType::f32,    DataType::f64,   DataType::f16, DataType::bf16,
                               DataType::i32,    DataType::i64,   DataType::i8,  DataType::u8,
                               DataType::f8e4m3, DataType::f8e5m2};

// Bits of exponent and mantissa; no exponent: a whole number.
struct Format {
  int exponent = 0;
  int mantissa = 0;
  [[nodiscard]] int bias() const { return (1 << (exponent - 1)) - 1; }
};

Format format_of(DataType type) {
  switch (type) {
    case DataType::f32: return {8, 23};
    case DataType::f64: return {11, 52};
    case DataType::f16: return {5, 10};
    case DataType::bf16: return {8, 7};
    case DataType::f8e4m3: return {4, 3};
    case DataType::f8e5m2: return {5, 2};
    default: return {};
  }
}

double element(DataType type, const std::vector<std::byte>& buffer, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, buffer.data() + i * bytes_of(type), bytes_of(type));
  const Format format = format_of(type);
  if (bits == 0 || format.exponent == 0) return static_cast<double>(bits);
  const std::uint64_t one = std::uint64_t{1} << format.mantissa;
  return std::ldexp(static_cast<double>(bits % one + one),
                    static_cast<int>(bits / one) - format.bias() - format.mantissa);
}

// `value` is exact in the type, and not negative. Integers wrap.
void put(DataType type, std::vector<std::byte>& buffer, std::size_t i, double value) {
  const Format format = format_of(type);
  auto bits = static_cast<std::uint64_t>(value);
  if (format.exponent != 0 && value != 0) {
    int exponent = 0;
    const double mantissa = std::ldexp(std::frexp(value, &exponent), format.mantissa + 1);
    REQUIRE(mantissa == std::floor(mantissa));
    const auto biased = static_cast<std::uint64_t>(exponent - 1 + format.bias());
    bits = (biased << format.mantissa) + static_cast<std::uint64_t>(mantissa) -
           (std::uint64_t{1} << format.mantissa);
  }
  std::memcpy(buffer.data() + i * bytes_of(type), &bits, bytes_of(type));
}

// Adds in whole numbers, or rounds to the type.
void add(DataType type, std::vector<std::byte>& sum, const std::vector<std::byte>& input,
         std::size_t i, std::uint64_t factor) {
  if (format_of(type).exponent != 0) {
    const double x = static_cast<double>(factor) * element(type, input, i);
    return put(type, sum, i, element(type, sum, i) + x);
  }
  const std::size_t bytes = bytes_of(type);
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::memcpy(&a, sum.data() + i * bytes, bytes);
  std::memcpy(&b, input.data() + i * bytes, bytes);
  a += factor * b;
  std::memcpy(sum.data() + i * bytes, &a, bytes);
}

// Sums the inputs of `ranks` with plain loops, rounding each partial sum to the type (and checking
// that it is exact).
std::vector<std::byte> naive_sum(DataType type, const PatternKey& key, std::uint32_t ranks,
                                 std::uint64_t first, std::size_t count,
                                 std::uint32_t doubled = ~0u, std::uint32_t missing = ~0u) {
  const SumPattern pattern(type, ranks);
  const std::size_t bytes = count * bytes_of(type);
  std::vector<std::byte> sum(bytes);
  for (std::size_t i = 0; i < count; ++i) put(type, sum, i, 0);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == missing) continue;
    std::vector<std::byte> input(bytes);
    pattern.fill(key, rank, first, input);
    for (std::size_t i = 0; i < count; ++i) {
      add(type, sum, input, i, rank == doubled ? 2 : 1);
    }
  }
  return sum;
}

constexpr PatternKey kKey{5, 2, 3, 0};

TEST_CASE("pattern: sums of any number of ranks are exact in any type, and agree with adding up") {
  for (const DataType type : kTypes) {
    for (const std::uint32_t ranks : {1u, 2u, 3u, 5u, 6u, 8u, 32u, 64u, 85u, 86u, 300u}) {
      INFO(ranks << " ranks of " << coll::to_string(type));
      const auto sum = naive_sum(type, kKey, ranks, 1000, 400);
      CHECK_FALSE(SumPattern(type, ranks).verify(kKey, 1000, sum));
      for (std::size_t i = 0; i < 400 && format_of(type).exponent != 0; ++i) {
        REQUIRE(element(type, sum, i) > 0);
      }
    }
  }
}

TEST_CASE("pattern: each rank has a summand for some element, and some element tells it from any") {
  for (const DataType type : kTypes) {
    constexpr std::uint32_t kMany = 40;
    constexpr std::size_t kCount = 64;
    const SumPattern pattern(type, kMany);
    std::vector<std::byte> before;
    for (std::uint32_t rank = 0; rank < kMany; ++rank) {
      INFO("rank " << rank << " of " << coll::to_string(type));
      std::vector<std::byte> input(kCount * bytes_of(type));
      pattern.fill(kKey, rank, 1024, input);
      bool has_one = false;
      for (std::size_t i = 0; i < kCount; ++i) has_one |= element(type, input, i) > 0;
      CHECK(has_one);
      // With two values of c, ranks in a row may agree in one block of the dense pattern.
      if (type == DataType::f8e4m3 || type == DataType::f8e5m2) CHECK(input != before);
      before = input;
    }
  }
}

// A floating-point sum of integers wraps as they do.
template <typename Wide, typename Narrow>
Wide to_wide(Narrow sum) {
  if constexpr (std::is_integral_v<Wide> && std::is_floating_point_v<Narrow>) {
    return static_cast<Wide>(std::fmod(sum, std::ldexp(Narrow{1}, 8 * sizeof(Wide))));
  } else {
    return static_cast<Wide>(sum);
  }
}

template <typename Narrow, typename Wide>
std::vector<std::byte> sum_in(DataType type, std::uint32_t ranks, std::size_t count) {
  std::vector<Narrow> sum(count);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<Wide> input(count);
    SumPattern(type, ranks).fill(kKey, rank, 0, std::as_writable_bytes(std::span(input)));
    for (std::size_t i = 0; i < count; ++i) sum[i] += static_cast<Narrow>(input[i]);
  }
  std::vector<Wide> result;
  for (const Narrow one : sum) result.push_back(to_wide<Wide>(one));
  std::vector<std::byte> out(count * sizeof(Wide));
  std::memcpy(out.data(), result.data(), out.size());
  return out;
}

TEST_CASE("pattern: sums in a type that is too narrow are wrong, nearly all of them") {
  constexpr std::size_t kCount = 1000;
  const auto wrong = [](DataType type, const std::vector<std::byte>& sum) {
    const auto mismatch = SumPattern(type, 4).verify(kKey, 0, sum);
    return mismatch ? mismatch->wrong : 0;
  };
  CHECK(wrong(DataType::f64, sum_in<double, double>(DataType::f64, 4, kCount)) == 0);
  CHECK(wrong(DataType::f64, sum_in<float, double>(DataType::f64, 4, kCount)) > 900);
  CHECK(wrong(DataType::i64, sum_in<std::uint64_t, std::uint64_t>(DataType::i64, 4, kCount)) == 0);
  CHECK(wrong(DataType::i64, sum_in<std::uint32_t, std::uint64_t>(DataType::i64, 4, kCount)) > 900);
  CHECK(wrong(DataType::i64, sum_in<double, std::uint64_t>(DataType::i64, 4, kCount)) > 900);
  CHECK(wrong(DataType::i32, sum_in<std::uint32_t, std::uint32_t>(DataType::i32, 4, kCount)) == 0);
  CHECK(wrong(DataType::i32, sum_in<float, std::uint32_t>(DataType::i32, 4, kCount)) > 900);
}

TEST_CASE("pattern: each rank has its turn, even if buffers have one element") {
  for (const DataType type : {DataType::f8e4m3, DataType::f8e5m2}) {
    constexpr std::uint32_t kRanks = 8;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      int found = 0;
      for (std::uint32_t call = 0; call < 100; ++call) {
        const auto sum = naive_sum(type, {5, 0, call, 0}, kRanks, 0, 1, ~0u, rank);
        found += SumPattern(type, kRanks).verify({5, 0, call, 0}, 0, sum) ? 1 : 0;
      }
      INFO("rank " << rank << " of " << coll::to_string(type));
      CHECK(found > 10);
    }
  }
}

TEST_CASE("pattern: what was filled in is told from anything else") {
  for (const DataType type : kTypes) {
    for (const std::uint32_t ranks : {4u, 40u}) {
      INFO(ranks << " ranks of " << coll::to_string(type));
      const SumPattern pattern(type, ranks);
      std::vector<std::byte> input(1500 * bytes_of(type));
      pattern.fill(kKey, 2, 77, input);
      CHECK_FALSE(pattern.verify_filled(kKey, 2, 77, input));
      input[1234] ^= std::byte{1};
      const auto mismatch = pattern.verify_filled(kKey, 2, 77, input);
      REQUIRE(mismatch);
      CHECK(mismatch->wrong == 1);
      CHECK(mismatch->first == 77 + 1234 / bytes_of(type));
      CHECK(mismatch->expected != mismatch->found);
    }
  }
}

TEST_CASE("pattern: any part of a buffer can be filled and verified alone") {
  const SumPattern pattern(DataType::f32, 4);
  std::vector<std::byte> whole(5000 * 4);
  pattern.fill(kKey, 2, 0, whole);
  for (const std::uint64_t first : {1u, 1023u, 1024u, 1025u, 3333u}) {
    std::vector<std::byte> part((5000 - first) * 4);
    pattern.fill(kKey, 2, first, part);
    CHECK(std::memcmp(part.data(), whole.data() + first * 4, part.size()) == 0);
    CHECK_FALSE(pattern.verify(kKey, first, naive_sum(DataType::f32, kKey, 4, first, 100)));
  }
}

TEST_CASE("pattern: one wrong bit anywhere is found, and where") {
  for (const DataType type : kTypes) {
    const SumPattern pattern(type, 4);
    std::vector<std::byte> sum = naive_sum(type, kKey, 4, 0, 2500);
    for (std::size_t byte = 0; byte < sum.size(); byte += 7) {
      const auto bit = std::byte{1} << (byte % 8);
      sum[byte] ^= bit;
      const auto mismatch = pattern.verify(kKey, 0, sum);
      REQUIRE(mismatch);
      CHECK(mismatch->wrong == 1);
      CHECK(mismatch->first == byte / bytes_of(type));
      CHECK(mismatch->expected != mismatch->found);
      sum[byte] ^= bit;
    }
    CHECK_FALSE(pattern.verify(kKey, 0, sum));
  }
}

// The mistake must be found, and change a quarter of the elements or more.
void check_caught(DataType type, std::uint32_t ranks, const std::vector<std::byte>& wrong,
                  const PatternKey& key = kKey, std::uint64_t first = 0) {
  const auto mismatch = SumPattern(type, ranks).verify(key, first, wrong);
  REQUIRE(mismatch);
  CHECK(mismatch->wrong * 4 >= wrong.size() / bytes_of(type));
}

TEST_CASE("pattern: mistakes of a collective change the sum") {
  for (const DataType type : kTypes) {
    constexpr std::size_t kCount = 4096;
    const auto sum = naive_sum(type, kKey, 8, 0, kCount);
    INFO(coll::to_string(type));
    check_caught(type, 8, naive_sum(type, kKey, 8, 0, kCount, ~0u, 3));  // a rank missing
    check_caught(type, 8, naive_sum(type, kKey, 8, 0, kCount, 3, 4));    // one instead of another
    check_caught(type, 8, sum, PatternKey{5, 1, 3, 0});                  // of another step
    check_caught(type, 8, sum, PatternKey{5, 2, 4, 0});                  // another collective
    check_caught(type, 8, sum, PatternKey{5, 2, 3, 8});                  // another group
    check_caught(type, 8, sum, PatternKey{6, 2, 3, 0});                  // another run
    for (const std::uint64_t shift : {1u, 64u, 987u, 1024u, 2048u}) {    // another place
      check_caught(type, 8, sum, kKey, shift);
    }
    std::vector<std::byte> input(sum.size());
    SumPattern(type, 8).fill(kKey, 0, 0, input);
    check_caught(type, 8, input);  // never reduced
  }
}

TEST_CASE("pattern: moved bytes depend on sender, receiver and place") {
  std::vector<std::byte> bytes(20'000);
  fill_bytes(kKey, 1, 2, 0, bytes);
  CHECK_FALSE(verify_bytes(kKey, 1, 2, 0, bytes));
  CHECK(verify_bytes(kKey, 2, 1, 0, bytes)->wrong > 19'000);
  CHECK(verify_bytes(kKey, 1, 3, 0, bytes)->wrong > 19'000);
  CHECK(verify_bytes(kKey, 1, kEveryone, 0, bytes)->wrong > 19'000);
  CHECK(verify_bytes(PatternKey{5, 3, 3, 0}, 1, 2, 0, bytes)->wrong > 19'000);
  std::vector<std::byte> part(7001);
  for (const std::uint64_t first : {1u, 4095u, 4096u, 12'999u}) {
    fill_bytes(kKey, 1, 2, first, part);
    CHECK(std::memcmp(part.data(), bytes.data() + first, part.size()) == 0);
    CHECK_FALSE(verify_bytes(kKey, 1, 2, first, part));
  }
  bytes[12'345] ^= std::byte{0x40};
  const auto mismatch = verify_bytes(kKey, 1, 2, 0, bytes);
  REQUIRE(mismatch);
  CHECK(mismatch->wrong == 1);
  CHECK(mismatch->first == 12'345);
}

TEST_CASE("pattern: findings add up, the first stays first") {
  std::optional<Mismatch> all;
  merge(all, std::nullopt);
  CHECK_FALSE(all);
  merge(all, Mismatch{3, 10, "1", "2"});
  merge(all, Mismatch{4, 99, "1", "2"});
  REQUIRE(all);
  CHECK(all->wrong == 7);
  CHECK(all->first == 10);
}

}  // namespace
}  // namespace hawser::tool
