// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/fault_judge.hpp"

#include <bit>
#include <cmath>

#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {
namespace {

using engine::DirectionFaults;
using engine::Fate;
using engine::FaultJudge;
using proto::microseconds;
using proto::Time;

FaultJudge judge_with(const DirectionFaults& faults, std::uint64_t seed = 1) {
  FaultJudge judge(seed);
  judge.set(faults);
  return judge;
}

// Whether the count of n trials of probability p is within 5 standard deviations. A right generator
// passes with these seeds; a probability that is off by a tenth fails.
bool near(std::uint64_t count, double n, double p) {
  return std::abs(static_cast<double>(count) - n * p) < 5 * std::sqrt(n * p * (1 - p)) + 1;
}

constexpr std::uint64_t kTrials = 200'000;

}  // namespace

TEST_CASE("fault judge: without faults every packet passes and no number is drawn") {
  FaultJudge judge(1);
  CHECK(judge.idle());
  judge.set({});
  CHECK(judge.idle());
  FaultJudge fresh(1);
  for (int i = 0; i < 10; ++i) CHECK(judge.judge(1000, Time{5}).passes());
  CHECK(judge.below(1 << 30) == fresh.below(1 << 30));
}

TEST_CASE("fault judge: each fault hits as often as it should") {
  const double p = GENERATE(0.001, 0.05, 0.5);
  DirectionFaults faults;
  faults.loss = p;
  faults.duplicate = p;
  faults.corrupt = p;
  faults.truncate = p;
  faults.reorder = p;
  faults.reorder_depth = 6;
  FaultJudge judge = judge_with(faults, 99);
  std::uint64_t lost = 0, duplicated = 0, corrupted = 0, truncated = 0, reordered = 0;
  for (std::uint64_t i = 0; i < kTrials; ++i) {
    const Fate fate = judge.judge(1000, Time{1});
    lost += fate.drop;
    duplicated += fate.duplicate;
    corrupted += fate.corrupt;
    truncated += fate.truncate;
    reordered += fate.overtaken_by == 6;
    CHECK((fate.overtaken_by == 0 || fate.overtaken_by == 6));
    CHECK(fate.delay.ns == 0);
  }
  CHECK(near(lost, kTrials, p));
  const double kept = static_cast<double>(kTrials - lost);
  CHECK(near(duplicated, kept, p));
  CHECK(near(corrupted, kept, p));
  CHECK(near(truncated, kept, p));
  CHECK(near(reordered, kept, p));
}

TEST_CASE("fault judge: certain is certain") {
  DirectionFaults faults;
  faults.loss = 1;
  FaultJudge judge = judge_with(faults);
  for (int i = 0; i < 1000; ++i) CHECK(judge.judge(1, Time{1}).drop);
  faults = {};
  faults.blackhole = true;
  judge.set(faults);
  CHECK_FALSE(judge.idle());
  for (int i = 0; i < 1000; ++i) CHECK(judge.judge(1, Time{1}).drop);
}

TEST_CASE("fault judge: bursty loss has the share and the run length of Gilbert and Elliott") {
  DirectionFaults faults;
  faults.burst_enter = 0.01;
  faults.burst_leave = 0.2;
  FaultJudge judge = judge_with(faults, 7);
  std::uint64_t lost = 0, runs = 0;
  bool before = false;
  for (std::uint64_t i = 0; i < kTrials; ++i) {
    const bool drop = judge.judge(100, Time{1}).drop;
    lost += drop;
    runs += drop && !before;
    before = drop;
  }
  const double share = static_cast<double>(lost) / kTrials;
  const double run = static_cast<double>(lost) / static_cast<double>(runs);
  CHECK(share == Approx(0.01 / 0.21).epsilon(0.1));
  CHECK(run == Approx(1 / 0.2).epsilon(0.1));

  // Half of the packets that come in a bad spell survive.
  faults.burst_loss = 0.5;
  FaultJudge half = judge_with(faults, 7);
  lost = 0;
  for (std::uint64_t i = 0; i < kTrials; ++i) lost += half.judge(100, Time{1}).drop;
  CHECK(static_cast<double>(lost) / kTrials == Approx(0.5 * 0.01 / 0.21).epsilon(0.1));
}

TEST_CASE("fault judge: a bad spell ends when the fault is switched off") {
  DirectionFaults faults;
  faults.burst_enter = 1;
  faults.burst_leave = 0;
  FaultJudge judge = judge_with(faults);
  CHECK(judge.judge(1, Time{1}).drop);
  CHECK(judge.judge(1, Time{1}).drop);
  judge.set({});
  faults.burst_enter = 1e-12;
  judge.set(faults);
  CHECK_FALSE(judge.judge(1, Time{1}).drop);
}

TEST_CASE("fault judge: delay is fixed, jitter is spread over all of its range") {
  DirectionFaults faults;
  faults.delay = microseconds(100);
  FaultJudge judge = judge_with(faults);
  for (int i = 0; i < 100; ++i) CHECK(judge.judge(1, Time{1}).delay == microseconds(100));
  faults.jitter = microseconds(50);
  judge.set(faults);
  std::int64_t low = 1 << 30, high = 0, sum = 0;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const std::int64_t ns = judge.judge(1, Time{1}).delay.ns;
    low = std::min(low, ns);
    high = std::max(high, ns);
    sum += ns;
  }
  CHECK(low >= 100'000);
  CHECK(low < 100'100);
  CHECK(high <= 150'000);
  CHECK(high > 149'900);
  CHECK(sum / kDraws == Approx(125'000).epsilon(0.01));
}

TEST_CASE(
    "fault judge: a limited link passes its burst, spaces what follows, and drops the excess") {
  DirectionFaults faults;
  faults.rate_bytes_per_s = 1'000'000'000;  // a byte a nanosecond
  FaultJudge judge = judge_with(faults);
  const Time start{1'000'000'000};
  constexpr std::uint64_t kBytes = 4096;
  std::uint64_t at_once = 0, waiting = 0, dropped = 0;
  std::int64_t last_wait = 0;
  for (int i = 0; i < 1000; ++i) {
    const Fate fate = judge.judge(kBytes, start);
    if (fate.drop) {
      ++dropped;
    } else if (fate.delay.ns <= 0) {
      ++at_once;
    } else {
      if (waiting > 0) CHECK(fate.delay.ns - last_wait == kBytes);
      last_wait = fate.delay.ns;
      ++waiting;
    }
  }
  CHECK(at_once == FaultJudge::kRateBurstBytes / kBytes);
  CHECK(waiting == FaultJudge::kRateQueueBytes / kBytes + 1);
  CHECK(dropped == 1000 - at_once - waiting);
  // Over a second, taken in steps, the packets that pass add up to the rate.
  FaultJudge paced = judge_with(faults);
  std::uint64_t bytes = 0;
  for (std::int64_t us = 0; us < 100'000; us += 2) {
    const Time now = start + microseconds(static_cast<std::uint64_t>(us));
    if (!paced.judge(kBytes, now).drop) bytes += kBytes;
  }
  CHECK(bytes == Approx(0.1e9).epsilon(0.02));
}

TEST_CASE("fault judge: the same seed gives the same fates, another one others") {
  DirectionFaults faults;
  faults.loss = 0.3;
  faults.jitter = microseconds(10);
  const auto fates = [&](std::uint64_t seed) {
    FaultJudge judge = judge_with(faults, seed);
    std::vector<std::int64_t> result;
    for (int i = 0; i < 200; ++i) {
      const Fate fate = judge.judge(100, Time{1});
      result.push_back(fate.drop ? -1 : fate.delay.ns);
    }
    return result;
  };
  CHECK(fates(5) == fates(5));
  CHECK(fates(5) != fates(6));
}

TEST_CASE("fault judge: damage is one to three bits, anywhere, and never none") {
  FaultJudge judge(3);
  std::array<std::uint64_t, 4> flips{};
  std::array<bool, 16> hit{};
  for (int i = 0; i < 3000; ++i) {
    std::array<std::byte, 16> bytes{};
    judge.flip_bits(bytes);
    int bits = 0;
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      bits += std::popcount(static_cast<unsigned>(bytes[k]));
      hit[k] = hit[k] || bytes[k] != std::byte{0};
    }
    REQUIRE((bits >= 1 && bits <= 3));
    ++flips[static_cast<std::size_t>(bits)];
  }
  for (std::size_t bits = 1; bits <= 3; ++bits) CHECK(flips[bits] > 800);
  CHECK(std::all_of(hit.begin(), hit.end(), [](bool h) { return h; }));
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t bytes = judge.shorter(10);
    CHECK((bytes >= 1 && bytes <= 9));
  }
  CHECK(judge.shorter(1) == 1);
}

}  // namespace hawser::test
