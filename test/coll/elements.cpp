// SPDX-License-Identifier: Apache-2.0
#include "test/coll/elements.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace hawser::test {
namespace {

using coll::DataType;
using coll::ReduceOp;

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Decodes sign, exponent and fraction as IEEE 754 defines them.
double decode_small(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

int exponent_bits(DataType type) { return type == DataType::f16 ? 5 : 8; }

// Bisects all 2^15 positive values, which are ordered as their bits are.
std::uint16_t encode_small(double value, int bits_of_exponent) {
  int low = 0;
  int high = 0x7fff >> (15 - bits_of_exponent) << (15 - bits_of_exponent);
  while (low < high) {
    const int middle = (low + high) / 2;
    if (decode_small(static_cast<std::uint16_t>(middle), bits_of_exponent) < std::fabs(value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const auto bits = static_cast<std::uint16_t>(low);
  if (decode_small(bits, bits_of_exponent) != std::fabs(value)) {
    throw std::logic_error("not representable");
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

double draw_float(ReduceOp op, std::uint32_t rank, proto::Random& random) {
  switch (op) {
    case ReduceOp::sum: return static_cast<double>(random.below(7)) - 3;
    case ReduceOp::prod:
      if (rank % 16 == 3) return random.below(2) == 0 ? 2 : 0.5;
      return random.below(2) == 0 ? 1 : -1;
    case ReduceOp::min:
    case ReduceOp::max: break;
  }
  // 7 bits of fraction, as many as bf16 has, and exponents that f16 has.
  const double magnitude = std::ldexp(static_cast<double>(128 + random.below(128)),
                                      static_cast<int>(random.below(20)) - 16);
  return random.below(2) == 0 ? magnitude : -magnitude;
}

std::int64_t apply(ReduceOp op, std::int64_t a, std::int64_t b) {
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::sum: return static_cast<std::int64_t>(ua + ub);
    case ReduceOp::prod: return static_cast<std::int64_t>(ua * ub);
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::max: return a > b ? a : b;
  }
  return 0;
}

double apply(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::min: return std::fmin(a, b);
    case ReduceOp::max: return std::fmax(a, b);
  }
  return 0;
}

}  // namespace

double decode_float(DataType type, const std::byte* element) {
  switch (type) {
    case DataType::f32: return load<float>(element);
    case DataType::f64: return load<double>(element);
    default: return decode_small(load<std::uint16_t>(element), exponent_bits(type));
  }
}

std::int64_t decode_integer(DataType type, const std::byte* element) {
  return type == DataType::i32 ? load<std::int32_t>(element) : load<std::int64_t>(element);
}

void encode_float(DataType type, double value, std::byte* element) {
  switch (type) {
    case DataType::f32: return store(element, static_cast<float>(value));
    case DataType::f64: return store(element, value);
    default: return store(element, encode_small(value, exponent_bits(type)));
  }
}

void encode_integer(DataType type, std::int64_t value, std::byte* element) {
  if (type == DataType::i32) return store(element, static_cast<std::int32_t>(value));
  store(element, value);
}

std::vector<std::byte> exact_elements(DataType type, ReduceOp op, std::uint64_t count,
                                      std::uint32_t rank, proto::Random& random) {
  const std::size_t size = coll::size_of(type);
  std::vector<std::byte> elements(count * size);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (is_float(type)) {
      encode_float(type, draw_float(op, rank, random), elements.data() + i * size);
    } else {
      encode_integer(type, static_cast<std::int64_t>(random.next()), elements.data() + i * size);
    }
  }
  return elements;
}

std::uint64_t first_wrong(DataType type, ReduceOp op, const std::vector<const std::byte*>& inputs,
                          const std::byte* result, std::uint64_t count) {
  const std::size_t size = coll::size_of(type);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = i * size;
    bool right = false;
    if (is_float(type)) {
      double expected = decode_float(type, inputs[0] + at);
      for (std::size_t r = 1; r < inputs.size(); ++r) {
        expected = apply(op, expected, decode_float(type, inputs[r] + at));
      }
      right = decode_float(type, result + at) == expected;
    } else {
      std::int64_t expected = decode_integer(type, inputs[0] + at);
      for (std::size_t r = 1; r < inputs.size(); ++r) {
        expected = apply(op, expected, decode_integer(type, inputs[r] + at));
      }
      if (type == DataType::i32) expected = static_cast<std::int32_t>(expected);
      right = decode_integer(type, result + at) == expected;
    }
    if (!right) return i;
  }
  return count;
}

}  // namespace hawser::test
