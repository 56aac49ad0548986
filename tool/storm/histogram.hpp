// SPDX-License-Identifier: Apache-2.0
// Counts of values from 0 to 2^64-1 in a fixed amount of memory: exact below 32, above that within
// 1/16 of the value.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace hawser::tool {

class Histogram {
 public:
  void add(std::uint64_t value) {
    ++buckets_[bucket_of(value)];
    ++count_;
    sum_ += value;
    least_ = count_ == 1 ? value : std::min(least_, value);
    most_ = std::max(most_, value);
  }
  void merge(const Histogram& other) {
    if (other.count_ == 0) return;
    least_ = count_ == 0 ? other.least_ : std::min(least_, other.least_);
    most_ = std::max(most_, other.most_);
    count_ += other.count_;
    sum_ += other.sum_;
    for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }
  [[nodiscard]] std::uint64_t least() const { return least_; }
  [[nodiscard]] std::uint64_t most() const { return most_; }
  // The value of nearest rank, rounded down to where its bucket begins; 0 if there is none.
  [[nodiscard]] std::uint64_t quantile(double q) const {
    if (count_ == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count_ - 1) + 0.5);
    std::uint64_t passed = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      passed += buckets_[i];
      if (passed > rank) return std::clamp(begin_of(i), least_, most_);
    }
    return most_;
  }

 private:
  static constexpr unsigned kBits = 4;  // of a value that its bucket keeps behind the first one
  static constexpr std::size_t kSub = std::size_t{1} << kBits;
  static constexpr std::size_t kBuckets = (64 - kBits + 1) * kSub;

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t value) {
    if (value < kSub) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - kBits - 1;
    return (shift + 1) * kSub + ((value >> shift) - kSub);
  }
  [[nodiscard]] static std::uint64_t begin_of(std::size_t bucket) {
    if (bucket < kSub) return bucket;
    return (bucket % kSub + kSub) << (bucket / kSub - 1);
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t least_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace hawser::tool
