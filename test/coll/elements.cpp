// SPDX-License-Identifier: Apache-2.0
#include "test/coll/elements.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "coll/reduce.hpp"

namespace hawser::test {
namespace {

using coll::DataType;
using coll::ReduceOp;

int take_greater_context = 0;

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

// A float of 8 or 16 bits.
struct Small {
  int bits = 16;
  int exponent_bits = 5;
  bool has_infinity = true;  // otherwise only all ones are NaN, and the top exponent is a number's
};

Small small_of(DataType type) {
  switch (type) {
    case DataType::bf16: return {.exponent_bits = 8};
    case DataType::f8e4m3: return {.bits = 8, .exponent_bits = 4, .has_infinity = false};
    case DataType::f8e5m2: return {.bits = 8};
    default: return {};
  }
}

// Decodes sign, exponent and fraction as IEEE 754 and OCP define them.
double decode_small(std::uint16_t code, const Small& type) {
  const int fraction_bits = type.bits - 1 - type.exponent_bits;
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const int sign_bit = 1 << (type.bits - 1);
  const int exponent = (code & (sign_bit - 1)) >> fraction_bits;
  const int fraction = code & ((1 << fraction_bits) - 1);
  const double sign = (code & sign_bit) != 0 ? -1 : 1;
  if (exponent == (1 << type.exponent_bits) - 1) {
    if (type.has_infinity) return fraction != 0 ? NAN : sign * INFINITY;
    if (fraction == (1 << fraction_bits) - 1) return NAN;
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

// Bisects all positive values, which are ordered as their bits are.
std::uint16_t encode_small(double value, const Small& type) {
  const int sign_bit = 1 << (type.bits - 1);
  int low = 0;
  int high = sign_bit - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (decode_small(static_cast<std::uint16_t>(middle), type) < std::fabs(value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const auto bits = static_cast<std::uint16_t>(low);
  if (decode_small(bits, type) != std::fabs(value)) throw std::logic_error("not representable");
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? sign_bit : 0));
}

std::uint16_t code_of(DataType type, const std::byte* element) {
  return small_of(type).bits == 8 ? load<std::uint8_t>(element) : load<std::uint16_t>(element);
}

// Whether the element is the value's nearest neighbour in its type.
bool is_nearest(DataType type, const std::byte* element, double value) {
  if (type == DataType::f64) return load<double>(element) == value;
  if (type == DataType::f32) return load<float>(element) == static_cast<float>(value);
  const std::uint16_t code = code_of(type, element);
  const auto distance = [&](int other) {
    const double decoded = decode_small(static_cast<std::uint16_t>(other), small_of(type));
    return std::isfinite(decoded) ? std::fabs(decoded - value) : INFINITY;
  };
  const int magnitude = code & ((1 << (small_of(type).bits - 1)) - 1);
  return distance(code) <= distance(code + 1) &&
         (magnitude == 0 || distance(code) <= distance(code - 1));
}

// The sum of few small numbers is exact even in 8 bits, so only some ranks have others than 0.
double draw_float_of_8(ReduceOp op, std::uint32_t rank, proto::Random& random) {
  const bool is_some = rank % 16 == 3;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return is_some ? static_cast<double>(random.below(3)) - 1 : 0;
    case ReduceOp::prod:
      if (is_some) return random.below(2) == 0 ? 2 : 0.5;
      return random.below(2) == 0 ? 1 : -1;
    default: break;
  }
  const double magnitude = std::ldexp(1, static_cast<int>(random.below(12)) - 4);
  return random.below(2) == 0 ? magnitude : -magnitude;
}

double draw_float(ReduceOp op, std::uint32_t rank, proto::Random& random) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return static_cast<double>(random.below(7)) - 3;
    case ReduceOp::prod:
      if (rank % 16 == 3) return random.below(2) == 0 ? 2 : 0.5;
      return random.below(2) == 0 ? 1 : -1;
    default: break;
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
    case ReduceOp::sum:
    case ReduceOp::average: return static_cast<std::int64_t>(ua + ub);
    case ReduceOp::prod: return static_cast<std::int64_t>(ua * ub);
    case ReduceOp::min: return a < b ? a : b;
    case ReduceOp::max:
    case ReduceOp::function: return a > b ? a : b;
    case ReduceOp::bit_and: return a & b;
    case ReduceOp::bit_or: return a | b;
    case ReduceOp::bit_xor: return a ^ b;
  }
  return 0;
}

double apply(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return a + b;
    case ReduceOp::prod: return a * b;
    case ReduceOp::min: return std::fmin(a, b);
    case ReduceOp::max:
    case ReduceOp::function: return std::fmax(a, b);
    default: return 0;
  }
}

}  // namespace

double decode_float(DataType type, const std::byte* element) {
  switch (type) {
    case DataType::f32: return load<float>(element);
    case DataType::f64: return load<double>(element);
    default: return decode_small(code_of(type, element), small_of(type));
  }
}

std::int64_t decode_integer(DataType type, const std::byte* element) {
  switch (type) {
    case DataType::i8: return load<std::int8_t>(element);
    case DataType::u8: return load<std::uint8_t>(element);
    case DataType::i32: return load<std::int32_t>(element);
    default: return load<std::int64_t>(element);
  }
}

void encode_float(DataType type, double value, std::byte* element) {
  switch (type) {
    case DataType::f32: return store(element, static_cast<float>(value));
    case DataType::f64: return store(element, value);
    default: break;
  }
  const std::uint16_t code = encode_small(value, small_of(type));
  if (small_of(type).bits == 8) return store(element, static_cast<std::uint8_t>(code));
  store(element, code);
}

void encode_integer(DataType type, std::int64_t value, std::byte* element) {
  switch (type) {
    case DataType::i8:
    case DataType::u8: return store(element, static_cast<std::uint8_t>(value));
    case DataType::i32: return store(element, static_cast<std::int32_t>(value));
    default: return store(element, value);
  }
}

void take_greater(void* context, void* out, const void* left, const void* right,
                  std::uint64_t count, DataType type) {
  if (context != &take_greater_context) throw std::logic_error("not the given context");
  coll::reduce_on_any(type, ReduceOp::max, out, left, right, count);
}

coll::Reduction reduction_of(ReduceOp op) {
  if (op == ReduceOp::function) return {take_greater, &take_greater_context};
  return op;
}

std::vector<std::byte> exact_elements(DataType type, ReduceOp op, std::uint64_t count,
                                      std::uint32_t rank, proto::Random& random) {
  const std::size_t size = coll::size_of(type);
  std::vector<std::byte> elements(count * size);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (is_float(type)) {
      const bool is_8 = size == 1;
      encode_float(type, is_8 ? draw_float_of_8(op, rank, random) : draw_float(op, rank, random),
                   elements.data() + i * size);
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
      right = op == ReduceOp::average
                  ? is_nearest(type, result + at, expected / static_cast<double>(inputs.size()))
                  : decode_float(type, result + at) == expected;
    } else {
      std::int64_t expected = decode_integer(type, inputs[0] + at);
      for (std::size_t r = 1; r < inputs.size(); ++r) {
        expected = apply(op, expected, decode_integer(type, inputs[r] + at));
      }
      std::byte wrapped[sizeof expected] = {};
      encode_integer(type, expected, wrapped);
      expected = decode_integer(type, wrapped);
      if (op == ReduceOp::average) expected /= static_cast<std::int64_t>(inputs.size());
      right = decode_integer(type, result + at) == expected;
    }
    if (!right) return i;
  }
  return count;
}

}  // namespace hawser::test
