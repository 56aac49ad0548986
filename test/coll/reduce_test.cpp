// SPDX-License-Identifier: Apache-2.0
#include "coll/reduce.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "coll/float16.hpp"
#include "test/coll/elements.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::DataType;
using coll::ReduceOp;

template <typename Run>
void for_each_kernel(Run&& run) {
  for (std::size_t type = 0; type < coll::kDataTypes; ++type) {
    for (std::size_t op = 0; op < coll::kReduceOps; ++op) {
      INFO(to_string(static_cast<DataType>(type)) << " " << to_string(static_cast<ReduceOp>(op)));
      if (!coll::is_possible(static_cast<DataType>(type), reduction_of(static_cast<ReduceOp>(op))))
        continue;
      run(static_cast<DataType>(type), static_cast<ReduceOp>(op));
    }
  }
}

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool is_nan(DataType type, const std::byte* element) {
  switch (type) {
    case DataType::f32: return std::isnan(read<float>(element));
    case DataType::f64: return std::isnan(read<double>(element));
    case DataType::f16: return std::isnan(coll::f16_to_f32(read<std::uint16_t>(element)));
    case DataType::bf16: return std::isnan(coll::bf16_to_f32(read<std::uint16_t>(element)));
    case DataType::f8e4m3:
    case DataType::f8e5m2: return std::isnan(decode_float(type, element));
    default: return false;
  }
}

TEST_CASE("reduce: every type and operation, and lengths around every vector's") {
  const auto reduce = GENERATE(&coll::reduce, &coll::reduce_on_any);
  for_each_seed(3, [reduce](proto::Random& random) {
    for_each_kernel([&random, reduce](DataType type, ReduceOp op) {
      for (std::uint64_t count = 0; count < 140; ++count) {
        const auto left = exact_elements(type, op, count, 3, random);
        const auto right = exact_elements(type, op, count, 1, random);
        std::vector<std::byte> out(left.size() + 8, std::byte{0x77});
        reduce(type, reduction_of(op), out.data(), left.data(), right.data(), count);
        coll::finish(type, reduction_of(op), out.data(), count, 2);
        CHECK(first_wrong(type, op, {left.data(), right.data()}, out.data(), count) == count);
        CHECK(out[left.size()] == std::byte{0x77});

        auto onto_left = left;
        reduce(type, reduction_of(op), onto_left.data(), onto_left.data(), right.data(), count);
        coll::finish(type, reduction_of(op), onto_left.data(), count, 2);
        CHECK(std::equal(onto_left.begin(), onto_left.end(), out.begin()));
        auto onto_right = right;
        reduce(type, reduction_of(op), onto_right.data(), left.data(), onto_right.data(), count);
        coll::finish(type, reduction_of(op), onto_right.data(), count, 2);
        CHECK(std::equal(onto_right.begin(), onto_right.end(), out.begin()));
      }
    });
  });
}

TEST_CASE("reduce: elements need only their own alignment") {
  const auto reduce = GENERATE(&coll::reduce, &coll::reduce_on_any);
  proto::Random random(1);
  for_each_kernel([&random, reduce](DataType type, ReduceOp op) {
    const std::size_t size = coll::size_of(type);
    const auto left = exact_elements(type, op, 101, 0, random);
    const auto right = exact_elements(type, op, 101, 1, random);
    std::vector<std::byte> out(left.size());
    reduce(type, reduction_of(op), out.data() + size, left.data() + size, right.data() + size, 100);
    coll::finish(type, reduction_of(op), out.data() + size, 100, 2);
    CHECK(first_wrong(type, op, {left.data() + size, right.data() + size}, out.data() + size,
                      100) == 100);
  });
}

TEST_CASE("reduce: 16-bit floats are computed in f32 and rounded once") {
  const auto reduce = GENERATE(&coll::reduce, &coll::reduce_on_any);
  // 256 + 1 needs 9 bits of fraction: bf16 keeps 8 with the hidden one, ties to even.
  const std::uint16_t big = coll::f32_to_bf16(256);
  const std::uint16_t one = coll::f32_to_bf16(1);
  const std::uint16_t three = coll::f32_to_bf16(3);
  std::uint16_t out = 0;
  reduce(DataType::bf16, ReduceOp::sum, &out, &big, &one, 1);
  CHECK(coll::bf16_to_f32(out) == 256);
  reduce(DataType::bf16, ReduceOp::sum, &out, &big, &three, 1);
  CHECK(coll::bf16_to_f32(out) == 260);
  const std::uint16_t half_big = coll::f32_to_f16(2048);
  const std::uint16_t half_one = coll::f32_to_f16(1);
  reduce(DataType::f16, ReduceOp::sum, &out, &half_big, &half_one, 1);
  CHECK(coll::f16_to_f32(out) == 2048);
  const std::uint16_t half_large = coll::f32_to_f16(300);
  reduce(DataType::f16, ReduceOp::prod, &out, &half_large, &half_large, 1);
  CHECK(std::isinf(coll::f16_to_f32(out)));
}

TEST_CASE("reduce: what a type and an operation can't do together is refused") {
  using coll::is_possible;
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f8e4m3}) {
    CHECK_FALSE(is_possible(type, ReduceOp::bit_and));
    CHECK_FALSE(is_possible(type, ReduceOp::bit_xor));
    CHECK(is_possible(type, ReduceOp::average));
  }
  CHECK(is_possible(DataType::u8, ReduceOp::bit_or));
  CHECK_FALSE(is_possible(DataType::f32, {nullptr, nullptr}));
  CHECK_FALSE(is_possible(DataType::f32, static_cast<ReduceOp>(coll::kReduceOps)));
  CHECK_FALSE(is_possible(static_cast<DataType>(coll::kDataTypes), ReduceOp::sum));
}

TEST_CASE("reduce: the average of integers is divided towards zero") {
  std::int8_t sums[] = {-7, 7, -128, 127};
  coll::finish(DataType::i8, ReduceOp::average, sums, 4, 200);
  CHECK((sums[0] == 0 && sums[1] == 0 && sums[2] == 0 && sums[3] == 0));
  std::int32_t wide[] = {-7, 7};
  coll::finish(DataType::i32, ReduceOp::average, wide, 2, 2);
  CHECK((wide[0] == -3 && wide[1] == 3));
  coll::finish(DataType::i32, ReduceOp::sum, wide, 2, 2);
  CHECK((wide[0] == -3 && wide[1] == 3));
}

TEST_CASE("reduce: integers wrap") {
  const auto reduce = GENERATE(&coll::reduce, &coll::reduce_on_any);
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const std::int32_t two = 2;
  std::int32_t out = 0;
  reduce(DataType::i32, ReduceOp::sum, &out, &most, &two, 1);
  CHECK(out == std::numeric_limits<std::int32_t>::min() + 1);
  reduce(DataType::i32, ReduceOp::prod, &out, &most, &two, 1);
  CHECK(out == -2);
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::int64_t minus_one = -1;
  std::int64_t wide = 0;
  reduce(DataType::i64, ReduceOp::prod, &wide, &least, &minus_one, 1);
  CHECK(wide == least);
}

TEST_CASE("reduce: NaN in a sum is NaN and in min and max one of the operands") {
  const auto reduce = GENERATE(&coll::reduce, &coll::reduce_on_any);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float one = 1;
  float out = 0;
  reduce(DataType::f32, ReduceOp::sum, &out, &nan, &one, 1);
  CHECK(std::isnan(out));
  reduce(DataType::f32, ReduceOp::min, &out, &nan, &one, 1);
  CHECK(std::isnan(out));
  reduce(DataType::f32, ReduceOp::max, &out, &one, &nan, 1);
  CHECK(out == 1);
}

// Hosts of one job may have different processors.
TEST_CASE("reduce: fast loops and those for any processor agree to the bit, but for kinds of NaN") {
  proto::Random random(5);
  for_each_kernel([&random](DataType type, ReduceOp op) {
    constexpr std::uint64_t kCount = 5000;
    const std::size_t bytes = kCount * coll::size_of(type);
    std::vector<std::byte> left(bytes), right(bytes), fast(bytes), any(bytes);
    for (std::vector<std::byte>* bits : {&left, &right})
      for (std::byte& one : *bits) one = static_cast<std::byte>(random.below(256));
    coll::reduce(type, reduction_of(op), fast.data(), left.data(), right.data(), kCount);
    coll::reduce_on_any(type, reduction_of(op), any.data(), left.data(), right.data(), kCount);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i * coll::size_of(type));
      const auto size = static_cast<std::ptrdiff_t>(coll::size_of(type));
      const bool same = std::equal(fast.begin() + at, fast.begin() + at + size, any.begin() + at);
      if (same) continue;
      INFO(i);
      CHECK(is_nan(type, fast.data() + at));
      CHECK(is_nan(type, any.data() + at));
    }
  });
}

}  // namespace
}  // namespace hawser::test
