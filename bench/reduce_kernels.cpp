// SPDX-License-Identifier: Apache-2.0
// Question: do the reduction kernels keep up with memory, so that collectives are bound by the
// network? Metric: GB/s of each kernel, counting the bytes it reads and writes (three streams),
// beside memcpy (two streams). One chunk stays in the cache (256 KiB a stream), the other does not
// (64 MiB). Best of several passes, as other work on the machine only ever slows one down. Runtime:
// 5 s. `--short` makes one pass of less, for the tests.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "coll/reduce.hpp"

namespace {

using namespace hawser::coll;
using Clock = std::chrono::steady_clock;

struct Buffers {
  explicit Buffers(std::size_t bytes) : left(bytes), right(bytes), out(bytes) {
    // Every 16-bit pattern is a small positive value in every type: no subnormals, no NaN.
    for (std::size_t i = 0; i + 1 < bytes; i += 2) {
      left[i] = static_cast<std::byte>(i >> 1);
      right[i] = static_cast<std::byte>(i >> 2);
      left[i + 1] = right[i + 1] = std::byte{0x3c};
    }
  }
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  std::vector<std::byte> out;
};

// GB/s of `run`, which moves `bytes` each time.
template <typename Run>
double rate(std::size_t bytes, std::size_t least_bytes, int passes, Run&& run) {
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const std::size_t rounds = std::max<std::size_t>(1, least_bytes / bytes);
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < rounds; ++i) run();
    const std::chrono::duration<double> took = Clock::now() - begin;
    best = std::max(best, static_cast<double>(bytes * rounds) / took.count() / 1e9);
  }
  return best;
}

std::uint64_t hash_of(std::uint64_t hash, const std::vector<std::byte>& bytes) {
  for (const std::byte one : bytes) hash = (hash ^ static_cast<std::uint64_t>(one)) * 0x100000001b3;
  return hash;
}

// The bitwise operations are as fast as each other.
constexpr ReduceOp kOperations[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                                    ReduceOp::bit_and};

std::uint64_t measure(std::size_t bytes, bool small) {
  Buffers b(bytes);
  const std::size_t least = small ? bytes : std::size_t{1} << 28;
  const int passes = small ? 1 : 5;
  std::uint64_t hash = 0xcbf29ce484222325;
  fmt::print(
      "{} KiB a stream: memcpy {:.1f} GB/s\n", bytes >> 10,
      rate(2 * bytes, least, passes, [&] { std::memcpy(b.out.data(), b.left.data(), bytes); }));
  fmt::print("  {:<7}", "");
  for (const ReduceOp op : kOperations) fmt::print("{:>9}", to_string(op));
  fmt::print("   GB/s\n");
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    fmt::print("  {:<7}", to_string(type));
    for (const ReduceOp op : kOperations) {
      if (!is_possible(type, op)) continue;
      fmt::print("{:>9.1f}", rate(3 * bytes, least, passes, [&] {
                   reduce(type, op, b.out.data(), b.left.data(), b.right.data(),
                          bytes / size_of(type));
                 }));
      hash = hash_of(hash, b.out);
    }
    fmt::print("\n");
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::string_view(argv[1]) == "--short";
  std::uint64_t hash = measure(std::size_t{256} << 10, small);
  if (!small) hash ^= measure(std::size_t{64} << 20, small);
  fmt::print("hash of all results {:016x}\n", hash);
  return 0;
}
