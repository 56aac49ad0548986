// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment/throughput.hpp"

#include <algorithm>

namespace hawser::experiment {

namespace {

constexpr fabric::Span kWindow = fabric::microseconds(10);
constexpr fabric::Span kStep = fabric::nanoseconds(500);
// The effect of a fault shows within this time: it is longer than packets in flight and in queues
// take.
constexpr fabric::Span kFollows = fabric::microseconds(100);
constexpr std::int64_t kLasting = 4;   // windows: longer than a burst of delayed packets
constexpr std::uint64_t kEnough = 90;  // hundredths
constexpr std::uint64_t kEnoughOfKnown = 95;

// a * b / c, where a * b may not fit in 64 bits.
std::uint64_t share(std::uint64_t a, std::int64_t b, std::int64_t c) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{a} * static_cast<std::uint64_t>(b) /
                                    static_cast<std::uint64_t>(c));
}

}  // namespace

Throughput::Throughput(fabric::EventWheel& events, const fabric::Network& network)
    : Throughput(events, [&network] { return network.delivered_bytes(); }) {}

Throughput::Throughput(fabric::EventWheel& events, std::function<std::uint64_t()> delivered)
    : events_(events),
      delivered_(std::move(delivered)),
      begin_(events.now()),
      before_(delivered_()),
      looks_{0} {
  events_.at(begin_ + period_, *this, 0);
}

void Throughput::on_event(fabric::Instant now, std::uint32_t) {
  looks_.push_back(delivered_() - before_);
  if (looks_.size() == kMostLooks + 1) {
    for (std::size_t i = 0; i <= kMostLooks / 2; ++i) looks_[i] = looks_[2 * i];
    looks_.resize(kMostLooks / 2 + 1);
    period_ = period_ * 2;
  }
  events_.at(now + period_, *this, 0);
}

std::uint64_t Throughput::bytes_until(fabric::Instant at) const {
  const std::int64_t since = std::max<std::int64_t>(0, (at - begin_).ps);
  const auto before = static_cast<std::size_t>(since / period_.ps);
  if (before >= looks_.size()) return delivered_() - before_;
  const std::uint64_t there = looks_[before];
  const bool is_last = before + 1 == looks_.size();
  const std::uint64_t next = is_last ? delivered_() - before_ : looks_[before + 1];
  return there + share(next - there, since % period_.ps, period_.ps);
}

std::vector<std::uint64_t> Throughput::slices(fabric::Instant begin, fabric::Instant end,
                                              std::size_t count) const {
  std::vector<std::uint64_t> slices(count);
  std::uint64_t before = bytes_until(begin);
  for (std::size_t i = 0; i < count; ++i) {
    const auto passed = static_cast<std::int64_t>(
        share(static_cast<std::uint64_t>((end - begin).ps), static_cast<std::int64_t>(i + 1),
              static_cast<std::int64_t>(count)));
    const std::uint64_t now = bytes_until(begin + fabric::Span{passed});
    slices[i] = now - before;
    before = now;
  }
  return slices;
}

fabric::Instant mostly_come(const Throughput& throughput, fabric::Instant begin,
                            fabric::Instant end) {
  const std::uint64_t most = throughput.bytes_until(end) / 10 * 9;
  fabric::Instant at = begin;
  while (at + kStep <= end && throughput.bytes_until(at + kStep) <= most) at = at + kStep;
  return at;
}

fabric::Span capacity_back(const Throughput& throughput, fabric::Instant begin,
                           fabric::Instant fault, fabric::Instant end,
                           std::optional<std::uint64_t> left_bits_per_s) {
  const auto between = [&](fabric::Instant from, fabric::Instant to) {
    return throughput.bytes_until(to) - throughput.bytes_until(from);
  };
  if (throughput.resolution() * 2 > kWindow) return {fabric::kNever.ps};
  const std::int64_t windows_before = left_bits_per_s ? 10 : 2;
  const fabric::Instant from = std::max(begin, fault + kWindow * -windows_before);
  if (fault <= from) return {};  // there was no traffic yet
  std::uint64_t usual = share(between(from, fault), kWindow.ps, (fault - from).ps);
  if (left_bits_per_s) {
    constexpr std::int64_t kPsPerByteAndBit = 8'000'000'000'000;
    usual = std::min(usual, share(*left_bits_per_s, kWindow.ps, kPsPerByteAndBit));
  }
  const std::uint64_t enough = usual * kEnough / 100;
  const std::uint64_t lasting = usual * (left_bits_per_s ? kEnoughOfKnown : kEnough) / 100;
  const fabric::Instant most = mostly_come(throughput, begin, end);
  const auto is_short = [&](fabric::Instant at) {
    const fabric::Instant until = std::min(at + kWindow * kLasting, most);
    return between(at, at + kWindow) < enough ||
           between(at, until) < share(lasting, (until - at).ps, kWindow.ps);
  };
  bool was_short = false;
  for (fabric::Instant at = fault; at + kWindow <= most; at = at + kStep) {
    const bool is_short_now = is_short(at);
    if (was_short && !is_short_now) return at - fault;
    was_short = was_short || is_short_now;
    if (!was_short && at - fault >= kFollows) return {};
  }
  return was_short ? fabric::Span{fabric::kNever.ps} : fabric::Span{};
}

}  // namespace hawser::experiment
