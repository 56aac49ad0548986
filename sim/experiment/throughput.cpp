#include "sim/experiment/throughput.hpp"

#include <algorithm>

namespace hawser::experiment {

namespace {

constexpr fabric::Span kWindow = fabric::microseconds(10);
constexpr fabric::Span kStep = fabric::nanoseconds(500);
constexpr std::uint64_t kEnough = 9;  // tenths

// a * b / c for what may not fit in 64 bits.
std::uint64_t share(std::uint64_t a, std::int64_t b, std::int64_t c) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{a} * static_cast<std::uint64_t>(b) /
                                    static_cast<std::uint64_t>(c));
}

}  // namespace

Throughput::Throughput(fabric::EventWheel& events, const fabric::Network& network)
    : events_(events),
      network_(network),
      begin_(events.now()),
      before_(network.delivered_bytes()),
      looks_{0} {
  events_.at(begin_ + period_, *this, 0);
}

void Throughput::on_event(fabric::Instant now, std::uint32_t) {
  looks_.push_back(network_.delivered_bytes() - before_);
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
  if (before >= looks_.size()) return network_.delivered_bytes() - before_;
  const std::uint64_t there = looks_[before];
  const bool is_last = before + 1 == looks_.size();
  const std::uint64_t next = is_last ? network_.delivered_bytes() - before_ : looks_[before + 1];
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

fabric::Span capacity_back(const Throughput& throughput, fabric::Instant begin,
                           fabric::Instant fault, fabric::Instant end) {
  const auto in_window = [&](fabric::Instant at) {
    return throughput.bytes_until(at + kWindow) - throughput.bytes_until(at);
  };
  const fabric::Instant from = std::max(begin, fault + kWindow * -2);
  if (fault <= from) return {};  // there was nothing yet
  const std::uint64_t before = throughput.bytes_until(fault) - throughput.bytes_until(from);
  const std::uint64_t usual = share(before, kWindow.ps, (fault - from).ps);
  const std::uint64_t most = throughput.bytes_until(end) / 10 * 9;
  bool was_less = false;
  fabric::Instant at = fault;
  for (; at + kWindow <= end && throughput.bytes_until(at + kWindow) <= most; at = at + kStep) {
    const bool is_less = in_window(at) * 10 < usual * kEnough;
    if (was_less && !is_less) return at - fault;
    was_less = was_less || is_less;
  }
  return was_less ? fabric::Span{fabric::kNever.ps} : fabric::Span{};
}

}  // namespace hawser::experiment
