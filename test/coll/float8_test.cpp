// SPDX-License-Identifier: Apache-2.0
// Compares conversions with values decoded independently and neighbours found by search.
#include "coll/float8.hpp"

#include <algorithm>
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
using coll::Float8E4M3;
using coll::Float8E5M2;

double by_the_books(DataType type, std::uint32_t code) {
  const auto element = static_cast<std::uint8_t>(code);
  return decode_float(type, reinterpret_cast<const std::byte*>(&element));
}

std::uint8_t narrow(DataType type, float value) {
  return type == DataType::f8e4m3 ? Float8E4M3::narrow(value) : Float8E5M2::narrow(value);
}
float widen(DataType type, std::uint8_t code) {
  return type == DataType::f8e4m3 ? Float8E4M3::widen(code) : Float8E5M2::widen(code);
}

// The nearest code, ties to even. The finite numbers are ordered as their codes are, and the code
// behind the last one stands for all that is larger.
std::uint8_t nearest(DataType type, float value) {
  std::vector<double> rungs;
  for (std::uint32_t code = 0; std::isfinite(by_the_books(type, code)); ++code) {
    rungs.push_back(by_the_books(type, code));
  }
  rungs.push_back(2 * rungs.back() - rungs[rungs.size() - 2]);
  const double magnitude = std::fabs(static_cast<double>(value));
  std::size_t code = rungs.size() - 1;
  if (magnitude < rungs.back()) {
    code = static_cast<std::size_t>(std::upper_bound(rungs.begin(), rungs.end(), magnitude) -
                                    rungs.begin()) -
           1;
    const double down = magnitude - rungs[code];
    const double up = rungs[code + 1] - magnitude;
    if (up < down || (up == down && code % 2 == 1)) ++code;
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 0x80u : 0u));
}

TEST_CASE("float8: to f32 is exact for every code, and back changes nothing") {
  for (const DataType type : {DataType::f8e4m3, DataType::f8e5m2}) {
    for (std::uint32_t code = 0; code < 256; ++code) {
      CAPTURE(to_string(type), code);
      const double expected = by_the_books(type, code);
      const float wide = widen(type, static_cast<std::uint8_t>(code));
      if (std::isnan(expected)) {
        CHECK(std::isnan(wide));
        CHECK(std::isnan(by_the_books(type, narrow(type, wide))));
        continue;
      }
      CHECK(static_cast<double>(wide) == expected);
      CHECK(std::signbit(wide) == ((code & 0x80) != 0));
      CHECK(narrow(type, wide) == code);
    }
  }
}

TEST_CASE("float8: rounds to nearest even at every boundary, and anywhere") {
  for (const DataType type : {DataType::f8e4m3, DataType::f8e5m2}) {
    const auto check = [type](float value) {
      CAPTURE(to_string(type), value);
      CHECK(narrow(type, value) == nearest(type, value));
    };
    for (std::uint32_t code = 0; std::isfinite(by_the_books(type, code)); ++code) {
      const double low = by_the_books(type, code);
      const double high = std::isfinite(by_the_books(type, code + 1))
                              ? by_the_books(type, code + 1)
                              : 2 * low - by_the_books(type, code - 1);
      for (const double value : {low, (low + high) / 2}) {
        const auto middle = static_cast<float>(value);
        for (const float one :
             {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
          check(one);
          check(-one);
        }
      }
    }
    for_each_seed(3, [&check](proto::Random& random) {
      for (int i = 0; i < 2000; ++i) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
        if (std::isfinite(value)) check(value);
      }
    });
  }
}

TEST_CASE("float8: what is too large becomes NaN in e4m3 and infinity in e5m2") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {466.0f, 1e30f, infinity}) {
    CHECK(Float8E4M3::narrow(value) == 0x7f);
    CHECK(Float8E4M3::narrow(-value) == 0xff);
  }
  CHECK(Float8E4M3::narrow(464) == 0x7e);
  for (const float value : {61440.0f, 1e30f, infinity}) {
    CHECK(Float8E5M2::narrow(value) == 0x7c);
    CHECK(Float8E5M2::narrow(-value) == 0xfc);
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(Float8E4M3::narrow(nan) == 0x7f);
  CHECK(std::isnan(Float8E5M2::widen(Float8E5M2::narrow(nan))));
}

}  // namespace
}  // namespace hawser::test
