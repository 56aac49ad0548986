// SPDX-License-Identifier: Apache-2.0
#include "coll/reduce.hpp"

#include <cstdint>
#include <type_traits>

#include "coll/eight_halves.hpp"
#include "coll/float16.hpp"
#include "coll/float8.hpp"
#include "coll/processor.hpp"

// Iterations are independent, although `out` may be `left` or `right`. Without this hint compilers
// test for overlap at run time, and take a scalar loop if the pointers are equal.
#if defined(__clang__)
#define HAWSER_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HAWSER_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace hawser::coll {
namespace {

// Defines how an element is stored and in which type it is computed.
template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(Stored value) { return bf16_to_f32(value); }
  static Stored store(float value) { return f32_to_bf16(value); }
};
struct F16 {
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(Stored value) { return f16_to_f32(value); }
  static Stored store(float value) { return f32_to_f16(value); }
};

template <typename Float>
struct F8 {
  using Stored = std::uint8_t;
  using Computed = float;
  static float load(Stored value) { return Float::widen(value); }
  static Stored store(float value) { return Float::narrow(value); }
};

// Converts integers to unsigned ones, so that they wrap. Signed overflow is undefined.
template <typename T>
auto wrapping(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value;
  }
}

struct Sum {
  template <typename T>
  static T apply(T left, T right) {
    return static_cast<T>(wrapping(left) + wrapping(right));
  }
};
struct Prod {
  template <typename T>
  static T apply(T left, T right) {
    return static_cast<T>(wrapping(left) * wrapping(right));
  }
};
struct Min {
  template <typename T>
  static T apply(T left, T right) {
    return right < left ? right : left;
  }
};
struct Max {
  template <typename T>
  static T apply(T left, T right) {
    return left < right ? right : left;
  }
};

struct BitAnd {
  template <typename T>
  static T apply(T left, T right) {
    return static_cast<T>(left & right);
  }
};
struct BitOr {
  template <typename T>
  static T apply(T left, T right) {
    return static_cast<T>(left | right);
  }
};
struct BitXor {
  template <typename T>
  static T apply(T left, T right) {
    return static_cast<T>(left ^ right);
  }
};

template <typename Element, typename Op>
[[gnu::always_inline]] inline void combine(void* out, const void* left, const void* right,
                                           std::uint64_t count) {
  using Stored = typename Element::Stored;
  auto* o = static_cast<Stored*>(out);
  const auto* l = static_cast<const Stored*>(left);
  const auto* r = static_cast<const Stored*>(right);
  HAWSER_INDEPENDENT
  for (std::uint64_t i = 0; i < count; ++i) {
    o[i] = Element::store(Op::apply(Element::load(l[i]), Element::load(r[i])));
  }
}

// For any processor of the build's baseline.
template <typename Element, typename Op>
void loop(void* out, const void* left, const void* right, std::uint64_t count) {
  combine<Element, Op>(out, left, right, count);
}

#if defined(HAWSER_X86_64_V3)
// The same loops with the instructions of x86-64-v3.
template <typename Element, typename Op>
HAWSER_X86_64_V3 void fast_loop(void* out, const void* left, const void* right,
                                std::uint64_t count) {
  combine<Element, Op>(out, left, right, count);
}

template <typename Element, typename Eight, typename Op>
HAWSER_X86_64_V3 void fast_loop_of_halves(void* out, const void* left, const void* right,
                                          std::uint64_t count) {
  auto* o = static_cast<std::uint16_t*>(out);
  const auto* l = static_cast<const std::uint16_t*>(left);
  const auto* r = static_cast<const std::uint16_t*>(right);
  const std::uint64_t whole = count / kEight * kEight;
  for (std::uint64_t i = 0; i < whole; i += kEight) {
    float a[kEight];
    float b[kEight];
    Eight::load(a, l + i);
    Eight::load(b, r + i);
    for (std::uint64_t lane = 0; lane < kEight; ++lane) a[lane] = Op::apply(a[lane], b[lane]);
    Eight::store(o + i, a);
  }
  combine<Element, Op>(o + whole, l + whole, r + whole, count - whole);
}
#endif

template <typename Element, typename Op>
void run([[maybe_unused]] bool is_fast, void* out, const void* left, const void* right,
         std::uint64_t count) {
#if defined(HAWSER_X86_64_V3)
  if (is_fast) {
    if constexpr (std::is_same_v<Element, F16>) {
      return fast_loop_of_halves<F16, EightF16, Op>(out, left, right, count);
    } else if constexpr (std::is_same_v<Element, Bf16>) {
      return fast_loop_of_halves<Bf16, EightBf16, Op>(out, left, right, count);
    } else {
      return fast_loop<Element, Op>(out, left, right, count);
    }
  }
#endif
  loop<Element, Op>(out, left, right, count);
}

template <typename Element>
void dispatch(ReduceOp op, bool is_fast, void* out, const void* left, const void* right,
              std::uint64_t count) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return run<Element, Sum>(is_fast, out, left, right, count);
    case ReduceOp::prod: return run<Element, Prod>(is_fast, out, left, right, count);
    case ReduceOp::min: return run<Element, Min>(is_fast, out, left, right, count);
    case ReduceOp::max: return run<Element, Max>(is_fast, out, left, right, count);
    default: break;
  }
  if constexpr (std::is_integral_v<typename Element::Computed>) {
    switch (op) {
      case ReduceOp::bit_and: return run<Element, BitAnd>(is_fast, out, left, right, count);
      case ReduceOp::bit_or: return run<Element, BitOr>(is_fast, out, left, right, count);
      case ReduceOp::bit_xor: return run<Element, BitXor>(is_fast, out, left, right, count);
      default: break;
    }
  }
}

template <typename Element>
void divide(void* data, std::uint64_t count, Rank by) {
  using Wide = std::conditional_t<std::is_integral_v<typename Element::Computed>, std::int64_t,
                                  typename Element::Computed>;
  auto* elements = static_cast<typename Element::Stored*>(data);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Wide sum = Element::load(elements[i]);
    elements[i] =
        Element::store(static_cast<typename Element::Computed>(sum / static_cast<Wide>(by)));
  }
}

// Calls `run` with the element type.
template <typename Run>
void with_element(DataType type, Run&& run) {
  switch (type) {
    case DataType::f32: return run(Plain<float>{});
    case DataType::f64: return run(Plain<double>{});
    case DataType::f16: return run(F16{});
    case DataType::bf16: return run(Bf16{});
    case DataType::i32: return run(Plain<std::int32_t>{});
    case DataType::i64: return run(Plain<std::int64_t>{});
    case DataType::i8: return run(Plain<std::int8_t>{});
    case DataType::u8: return run(Plain<std::uint8_t>{});
    case DataType::f8e4m3: return run(F8<Float8E4M3>{});
    case DataType::f8e5m2: return run(F8<Float8E5M2>{});
  }
}

void choose(DataType type, const Reduction& reduction, bool is_fast, void* out, const void* left,
            const void* right, std::uint64_t count) {
  if (reduction.op == ReduceOp::function) {
    return reduction.function(reduction.context, out, left, right, count, type);
  }
  with_element(type, [&](auto element) {
    dispatch<decltype(element)>(reduction.op, is_fast, out, left, right, count);
  });
}

bool is_fast_here() {
#if defined(HAWSER_X86_64_V3)
  static const bool is_fast = has_x86_64_v3();
  return is_fast;
#else
  return false;
#endif
}

}  // namespace

bool is_possible(DataType type, const Reduction& reduction) noexcept {
  if (size_of(type) == 0 || static_cast<std::size_t>(reduction.op) >= kReduceOps) return false;
  const bool is_integer = type == DataType::i32 || type == DataType::i64 || type == DataType::i8 ||
                          type == DataType::u8;
  switch (reduction.op) {
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor: return is_integer;
    case ReduceOp::function: return reduction.function != nullptr;
    default: return true;
  }
}

void reduce(DataType type, const Reduction& reduction, void* out, const void* left,
            const void* right, std::uint64_t count) noexcept {
  choose(type, reduction, is_fast_here(), out, left, right, count);
}

void reduce_on_any(DataType type, const Reduction& reduction, void* out, const void* left,
                   const void* right, std::uint64_t count) noexcept {
  choose(type, reduction, false, out, left, right, count);
}

void finish(DataType type, const Reduction& reduction, void* data, std::uint64_t count,
            Rank ranks) noexcept {
  if (reduction.op != ReduceOp::average) return;
  with_element(type, [&](auto element) { divide<decltype(element)>(data, count, ranks); });
}

}  // namespace hawser::coll
