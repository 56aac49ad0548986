// SPDX-License-Identifier: Apache-2.0
// Compares conversions with values decoded independently and neighbours found by search: all 2^16
// inputs in one direction, all boundaries and their surroundings in the other.
#include "coll/float16.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "test/coll/elements.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::DataType;

double by_the_books(DataType type, std::uint32_t bits) {
  const auto element = static_cast<std::uint16_t>(bits);
  return decode_float(type, reinterpret_cast<const std::byte*>(&element));
}

std::uint16_t convert(DataType type, float value) {
  return type == DataType::f16 ? coll::f32_to_f16(value) : coll::f32_to_bf16(value);
}

// All finite values from 0 up, and above them the next one, whose bits stand for infinity.
struct Ladder {
  DataType type;
  std::vector<double> rungs;

  explicit Ladder(DataType of) : type(of) {
    for (std::uint32_t bits = 0; std::isfinite(by_the_books(of, bits)); ++bits) {
      rungs.push_back(by_the_books(of, bits));
    }
    rungs.push_back(2 * rungs.back() - rungs[rungs.size() - 2]);
  }

  // Rounds to nearest, ties to even bits; the last rung stands for infinity.
  [[nodiscard]] std::uint16_t nearest(float value) const {
    const double magnitude = std::fabs(static_cast<double>(value));
    std::size_t bits = rungs.size() - 1;
    if (magnitude < rungs.back()) {
      const auto above = std::upper_bound(rungs.begin(), rungs.end(), magnitude);
      bits = static_cast<std::size_t>(above - rungs.begin()) - 1;
      const double down = magnitude - rungs[bits];
      const double up = rungs[bits + 1] - magnitude;
      if (up < down || (up == down && bits % 2 == 1)) ++bits;
    }
    return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000u : 0u));
  }
};

void check_nearest(const Ladder& ladder, float value) {
  if (convert(ladder.type, value) == ladder.nearest(value)) return;
  CAPTURE(std::bit_cast<std::uint32_t>(value));
  CHECK(convert(ladder.type, value) == ladder.nearest(value));
}

TEST_CASE("float16: to f32 is exact for every value") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double f16 = by_the_books(DataType::f16, bits);
    const double bf16 = by_the_books(DataType::bf16, bits);
    const bool f16_right = std::isnan(f16) ? std::isnan(coll::f16_to_f32(half))
                                           : f16 == static_cast<double>(coll::f16_to_f32(half));
    const bool bf16_right = std::isnan(bf16) ? std::isnan(coll::bf16_to_f32(half))
                                             : bf16 == static_cast<double>(coll::bf16_to_f32(half));
    if (f16_right && bf16_right) continue;
    CAPTURE(bits);
    CHECK(f16_right);
    CHECK(bf16_right);
  }
}

TEST_CASE("float16: there and back changes nothing") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(by_the_books(DataType::f16, bits))) {
      REQUIRE(coll::f32_to_f16(coll::f16_to_f32(half)) == half);
    }
    if (!std::isnan(by_the_books(DataType::bf16, bits))) {
      REQUIRE(coll::f32_to_bf16(coll::bf16_to_f32(half)) == half);
    }
  }
}

TEST_CASE("float16: rounds to nearest even at every boundary") {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    const Ladder ladder(type);
    for (std::size_t i = 0; i + 1 < ladder.rungs.size(); ++i) {
      const auto middle = static_cast<float>((ladder.rungs[i] + ladder.rungs[i + 1]) / 2);
      for (const float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e38f),
                                static_cast<float>(ladder.rungs[i])}) {
        check_nearest(ladder, value);
        check_nearest(ladder, -value);
      }
    }
  }
}

TEST_CASE("float16: rounds random values to nearest even") {
  const Ladder f16(DataType::f16);
  const Ladder bf16(DataType::bf16);
  for_each_seed(4, [&](proto::Random& random) {
    for (int i = 0; i < 50'000; ++i) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
      if (std::isnan(value)) continue;
      check_nearest(f16, value);
      check_nearest(bf16, value);
      check_nearest(f16, std::ldexp(value, -std::ilogb(value) + 3 - static_cast<int>(i % 40)));
    }
  });
}

TEST_CASE("float16: infinity and NaN stay what they are") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(coll::f32_to_f16(kInfinity) == 0x7c00);
  CHECK(coll::f32_to_f16(-kInfinity) == 0xfc00);
  CHECK(coll::f32_to_bf16(kInfinity) == 0x7f80);
  CHECK(coll::f32_to_bf16(-kInfinity) == 0xff80);
  CHECK(coll::f32_to_f16(65519.9f) == 0x7bff);
  CHECK(coll::f32_to_f16(65520.0f) == 0x7c00);
  // A NaN whose upper payload bits are 0 must not become infinity, nor carry into the sign.
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    CHECK(std::isnan(coll::f16_to_f32(coll::f32_to_f16(nan))));
    CHECK(std::isnan(coll::bf16_to_f32(coll::f32_to_bf16(nan))));
  }
}

}  // namespace
}  // namespace hawser::test
