// SPDX-License-Identifier: Apache-2.0
// How many bytes may be in flight on one path: a window on fabric delay and ECN marks. It belongs
// to the family of Swift (SIGCOMM 2020) and UEC's NSCC; as in NSCC, marks count only together with
// delay.
//
// It sees the *fabric* delay: response time less the residence in both hosts, so a descheduled peer
// is not congestion. Loss alone is not congestion either, as Hawser is for lossy fabrics. Only a
// round that loses more than an eighth shrinks the window, by the share lost.
//
// On a path with several lanes, no more is in flight than the local link carries in the time that a
// packet and its answer take. The link sends no faster, so any more would make a standing queue.
// That time is the sum of three: the fabric's least delay for large packets, a quarter more for
// other senders' packets, and the recent time spent in both hosts.
//
// Invariant: bytes() is at least two packets. (The receiver's limits apply elsewhere.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/time.hpp"
#include "proto/path/congestion_law.hpp"

namespace hawser::proto {

class DelayWindow {
 public:
  static constexpr std::uint64_t kLeastSamples = 2;  // of delay, in a round
  // Loss alone shrinks no further: a path that loses a fifth of everything still gets that much.
  static constexpr std::uint64_t kLossFloorPackets = 16;

  DelayWindow() = default;
  explicit DelayWindow(const CongestionConfig& config)
      : packet_bytes_(config.packet_bytes),
        delay_target_ns_(in_32_bits(config.delay_target)),
        link_bytes_per_us_(static_cast<std::uint32_t>(config.spread_link_bytes_per_s / 1'000'000)),
        bytes_(config.packet_bytes * config.initial_packets) {}

  [[nodiscard]] std::uint64_t bytes() const {
    return std::max(std::min(bytes_, carried_by_link()), floor());
  }

  // The least delay, for packets of any size; 0: unknown.
  [[nodiscard]] Duration fabric_floor() const {
    return Duration{floor_ns_ == kUnknown ? 0 : std::int64_t{floor_ns_}};
  }

  void on_ack(const CongestionAck& ack) {
    count(round_acked_, ack.acked_packets);
    count(round_marked_, ack.marked_packets);
    if (ack.has_delay) sample(ack);
    if (ack.now - round_start_ >= ack.round && round_samples_ >= kLeastSamples) end_round(ack.now);
    const bool was_used = ack.in_flight_before * 2 >= bytes();
    if (!was_used || congested_) return;
    const std::uint64_t additive = packet_bytes_ * ack.acked_bytes / std::max(bytes_, floor());
    const std::uint64_t more = slow_start_ ? ack.acked_bytes : std::max<std::uint64_t>(1, additive);
    if (bytes_ < carried_by_link()) bytes_ += more;
  }

  void on_lost(std::uint64_t packets) { count(round_lost_, packets); }

 private:
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  // Time between other senders' packets in a turn of either host, which the least delay lacks.
  static constexpr std::uint32_t kTurnsNs = 5'000;

  [[nodiscard]] static std::uint32_t in_32_bits(Duration duration) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(duration.ns, 0, kUnknown - 1));
  }

  // The counter stops far above what may be in flight.
  static void count(std::uint16_t& counter, std::uint64_t packets) {
    counter = static_cast<std::uint16_t>(std::min<std::uint64_t>(counter + packets, UINT16_MAX));
  }

  // Bytes in flight at the link's rate, during the least time that answers take.
  [[nodiscard]] std::uint64_t carried_by_link() const {
    if (link_bytes_per_us_ == 0 || large_floor_ns_ == kUnknown) return ~std::uint64_t{0};
    const std::uint64_t ns = std::uint64_t{large_floor_ns_} * 5 / 4 + kTurnsNs + host_ns_;
    return ns * link_bytes_per_us_ / 1000;
  }

  void sample(const CongestionAck& ack) {
    const std::uint32_t delay = std::max(in_32_bits(ack.fabric_delay), 1u);
    floor_ns_ = std::min(floor_ns_, delay);
    // Only the end of a host's absence is known, so a delay with one says nothing about the fabric.
    if (ack.is_large && ack.host_delay <= ack.fabric_delay) {
      large_floor_ns_ = std::min(large_floor_ns_, delay);
    }
    round_delay_ns_ = std::min(round_delay_ns_, delay);
    host_ns_ = std::max(in_32_bits(ack.host_delay), host_ns_ - host_ns_ / 8);
    if (round_samples_ < kLeastSamples) ++round_samples_;
  }

  [[nodiscard]] std::uint64_t floor() const { return std::uint64_t{2} * packet_bytes_; }

  // Once per round trip: adjusts the window to the round's losses, marks and delays.
  void end_round(Time now) {
    const std::uint64_t seen = std::uint64_t{round_acked_} + round_lost_;
    const std::uint64_t target = std::uint64_t{floor_ns_} + delay_target_ns_;
    congested_ = round_delay_ns_ > target;
    double factor = 1.0;
    const std::uint64_t loss_floor = kLossFloorPackets * packet_bytes_;
    const bool loss = std::uint64_t{round_lost_} * 8 > seen && most() > loss_floor;
    if (loss) factor = std::max(1.0 - share(round_lost_, seen), share(loss_floor, most()));
    // A mark shows that there is a queue; the delay shows how long it is. If the queue is short, or
    // on one of the path's many lanes, a smaller window would leave the others idle.
    const bool queued = round_delay_ns_ > std::uint64_t{large_floor_ns_} * 3 / 2;
    if (round_marked_ > 0 && queued)
      factor = std::min(factor, 1.0 - 0.5 * share(round_marked_, seen));
    if (congested_) {
      const double excess =
          static_cast<double>(round_delay_ns_ - target) / static_cast<double>(round_delay_ns_);
      factor = std::min(factor, 1.0 - 0.8 * excess);
    }
    if (factor < 1.0) {
      slow_start_ = false;
      scale(std::max(0.5, factor));
    }
    round_start_ = now;
    round_acked_ = round_lost_ = round_marked_ = 0;
    round_samples_ = 0;
    round_delay_ns_ = kUnknown;
    if (++rounds_ == 0) raise_floors();
  }

  // The fabric may have a longer route now. Therefore the least delays rise slowly, until a round
  // finds them again.
  void raise_floors() {
    if (large_floor_ns_ != kUnknown) large_floor_ns_ = raised(large_floor_ns_);
    floor_ns_ = raised(floor_ns_);
  }

  [[nodiscard]] static std::uint32_t raised(std::uint32_t ns) {
    return std::min(ns + ns / 64 + 1, kUnknown - 1);
  }

  // Bytes beyond what the link carries give way first. They count up to as much again.
  [[nodiscard]] std::uint64_t most() const {
    return bytes_ / 2 > carried_by_link() ? 2 * carried_by_link() : bytes_;
  }

  void scale(double factor) {
    bytes_ = std::max(floor(), static_cast<std::uint64_t>(static_cast<double>(most()) * factor));
  }

  [[nodiscard]] static double share(std::uint64_t part, std::uint64_t whole) {
    return std::min(
        1.0, static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1)));
  }

  std::uint32_t packet_bytes_ = CongestionConfig{}.packet_bytes;
  std::uint32_t delay_target_ns_ = 0;
  std::uint32_t link_bytes_per_us_ = 0;  // 0: the link limits nothing
  std::uint32_t floor_ns_ = kUnknown;
  std::uint32_t large_floor_ns_ = kUnknown;  // for large packets, which take longer
  std::uint32_t round_delay_ns_ = kUnknown;
  std::uint32_t host_ns_ = 0;      // time in hosts: rises at once, falls slowly
  std::uint16_t round_acked_ = 0;  // packets
  std::uint16_t round_lost_ = 0;
  std::uint16_t round_marked_ = 0;
  std::uint8_t round_samples_ = 0;  // up to kLeastSamples
  std::uint8_t rounds_ = 0;         // wraps
  bool slow_start_ = true;
  bool congested_ = false;
  std::uint64_t bytes_ = 0;
  Time round_start_{};
};

}  // namespace hawser::proto
