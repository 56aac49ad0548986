// How many bytes may be in flight on one path: a window on fabric delay and ECN marks, in the
// family of Swift (SIGCOMM 2020) and UEC's NSCC, of which is that marks count only with delay.
//
// It sees the *fabric* delay: response time less the residence in both hosts, so a descheduled peer
// is not congestion. Loss alone is no congestion either (lossy fabrics are what Hawser is for):
// only when more than an eighth of a round is lost does the window give way, by that share.
//
// Invariant: bytes() is two packets at least. (What the receiver allows is not the window's.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/time.hpp"

namespace hawser::proto {

struct WindowConfig {
  std::uint32_t packet_bytes = 4096;  // a full packet
  std::uint64_t initial_packets = 32;
  Duration delay_target{};  // above the path's floor
};

class CongestionWindow {
 public:
  static constexpr std::uint64_t kLeastSamples = 2;  // of delay, in a round
  // Loss alone shrinks no further: a fabric that loses a fifth of everything still gets that much.
  static constexpr std::uint64_t kLossFloorPackets = 16;

  CongestionWindow() = default;
  explicit CongestionWindow(const WindowConfig& config)
      : packet_bytes_(config.packet_bytes),
        delay_target_ns_(static_cast<std::uint32_t>(config.delay_target.ns)),
        bytes_(config.packet_bytes * config.initial_packets) {}

  [[nodiscard]] std::uint64_t bytes() const { return std::max(bytes_, floor()); }
  [[nodiscard]] Duration fabric_floor() const { return floor_delay_; }

  struct Ack {
    Time now{};
    std::uint64_t acked_bytes = 0;
    std::uint64_t in_flight_before = 0;  // bytes, this ack's included
    Duration fabric_delay{};
    bool has_delay = false;
    bool is_large = true;              // the packet that the delay is of
    std::uint64_t marked_packets = 0;  // newly marked with ECN CE
    std::uint64_t acked_packets = 0;
    Duration round{};  // smoothed response time: the least distance of two decreases
  };

  void on_ack(const Ack& ack) {
    round_acked_ += static_cast<std::uint32_t>(ack.acked_packets);
    round_marked_ += static_cast<std::uint32_t>(ack.marked_packets);
    if (ack.has_delay) {
      const Duration delay = std::max(ack.fabric_delay, Duration{1});
      if (floor_delay_ == Duration{} || delay < floor_delay_) floor_delay_ = delay;
      if (ack.is_large && delay.ns < large_floor_ns_) {
        large_floor_ns_ = static_cast<std::uint32_t>(delay.ns);
      }
      if (round_delay_ == Duration{} || delay < round_delay_) round_delay_ = delay;
      ++round_samples_;
    }
    if (ack.now - round_start_ >= ack.round && round_samples_ >= kLeastSamples) end_round(ack.now);
    const bool was_used = ack.in_flight_before * 2 >= bytes();
    if (!was_used || congested_) return;
    const std::uint64_t additive = packet_bytes_ * ack.acked_bytes / std::max(bytes_, floor());
    bytes_ += slow_start_ ? ack.acked_bytes : std::max<std::uint64_t>(1, additive);
  }

  void on_lost(std::uint64_t packets) { round_lost_ += static_cast<std::uint32_t>(packets); }

 private:
  [[nodiscard]] std::uint64_t floor() const { return std::uint64_t{2} * packet_bytes_; }

  // Once per round trip: what was lost, marked and delayed in it decides.
  void end_round(Time now) {
    const std::uint64_t seen = std::uint64_t{round_acked_} + round_lost_;
    const Duration target = floor_delay_ + Duration{delay_target_ns_};
    congested_ = round_delay_ > target;
    double factor = 1.0;
    const bool loss =
        std::uint64_t{round_lost_} * 8 > seen && bytes_ > kLossFloorPackets * packet_bytes_;
    if (loss) factor = 1.0 - share(round_lost_, seen);
    // A mark says that there is a queue, the delay how long it is: while it is short, or on one of
    // the many ways that packets take, with less under way the others would be idle.
    const bool queued = round_delay_.ns > std::int64_t{large_floor_ns_} * 3 / 2;
    if (round_marked_ > 0 && queued)
      factor = std::min(factor, 1.0 - 0.5 * share(round_marked_, seen));
    if (congested_) {
      const double excess =
          static_cast<double>((round_delay_ - target).ns) / static_cast<double>(round_delay_.ns);
      factor = std::min(factor, 1.0 - 0.8 * excess);
    }
    if (factor < 1.0) {
      slow_start_ = false;
      scale(std::max(0.5, factor));
    }
    round_start_ = now;
    round_acked_ = round_lost_ = round_marked_ = round_samples_ = 0;
    round_delay_ = Duration{};
  }

  void scale(double factor) {
    bytes_ = std::max(floor(), static_cast<std::uint64_t>(static_cast<double>(bytes_) * factor));
  }

  [[nodiscard]] static double share(std::uint64_t part, std::uint64_t whole) {
    return std::min(
        1.0, static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1)));
  }

  std::uint32_t packet_bytes_ = WindowConfig{}.packet_bytes;
  std::uint32_t delay_target_ns_ = 0;
  std::uint64_t bytes_ = 0;
  Duration floor_delay_{};
  Duration round_delay_{};
  Time round_start_{};
  std::uint32_t round_acked_ = 0;  // packets
  std::uint32_t round_lost_ = 0;
  std::uint32_t round_marked_ = 0;
  std::uint32_t round_samples_ = 0;
  std::uint32_t large_floor_ns_ = ~std::uint32_t{0};  // of large packets, which take longer
  bool slow_start_ = true;
  bool congested_ = false;
};

}  // namespace hawser::proto
