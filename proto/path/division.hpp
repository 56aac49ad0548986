// SPDX-License-Identifier: Apache-2.0
// Divides packets among the paths of a peer in one step. Each path gets what the policy LeastFilled
// (path_chooser.hpp) would give it, were every packet handed over before the next one chooses. The
// sender therefore hands each path its packets as one burst, and the shares stay the same.
//
// Small packets are the exception: up to as many bytes as four full packets have stay on one path.
// The receiver empties one NIC after the other, and a message that overtakes costs it more.
//
// The sender adds the paths that may carry data, in turn. For each packet it asks next(), and
// reports the packet's bytes by give(). A division knows nothing of NICs: the sender closes the
// share of a path whose NIC has enough.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "proto/nic.hpp"
#include "proto/path/path.hpp"

namespace hawser::proto {

// The share of one path.
struct Share {
  static constexpr double kFull = std::numeric_limits<double>::infinity();

  Path* path = nullptr;
  double filled = kFull;        // how full the window would be; kFull: it may get nothing
  std::uint64_t balance = 0;    // as in Path, with the packets
  std::uint64_t in_flight = 0;  // bytes, with the packets
  std::uint64_t least = 0;      // bytes that must have room
  std::uint64_t window = 0;     // bytes that may be in flight
  double capacity = 0;          // the window, or a packet if that is more
  RemoteHandle remote = kNoRemote;
  std::uint32_t burst = 1;    // packets in a row before the next choice
  std::uint32_t packets = 0;  // given to it
  std::uint32_t places = 0;   // for so many packets the sender is prepared
  std::uint8_t index = 0;     // among the shares
  bool paced = false;         // by its NIC
  bool closed = false;        // it gets no more
};

class Division {
 public:
  Division() = default;
  Division(const Division&) = delete;
  Division& operator=(const Division&) = delete;

  // `packet`: the bytes of a full packet. `burst`: those that a path should have room for.
  void start(std::uint64_t packet, std::uint64_t burst) {
    packet_ = packet;
    small_ = packet / kSmall;
    burst_ = burst;
    end_ = turn_ = shares_.data();
    size_ = left_ = 0;
  }
  void add(Path& path, std::uint64_t window, std::uint32_t burst, bool paced) {
    Share& share = *end_;
    share = Share{};
    share.path = &path;
    share.balance = path.traffic.balance_bytes;
    share.in_flight = path.bytes_in_flight;
    // A burst that is cut short costs as much as a full one: wait for room for half the window.
    share.least = std::min(burst_, std::max(packet_, window / 2));
    share.window = window;
    share.capacity = static_cast<double>(std::max(window, packet_));
    share.burst = burst;
    share.index = static_cast<std::uint8_t>(end_ - shares_.data());
    share.paced = paced;
    rank(share);
    ++end_;
    enter(share);
  }

  // The share that gets the next packet. Null: none has room. Without a give() in between the
  // answer is the same.
  [[nodiscard]] Share* next() {
    if (left_ == 0) choose();
    return left_ == 0 ? nullptr : chosen_;
  }
  // The share that next() has named gets a packet of so many bytes.
  void give(std::uint64_t bytes) {
    Share& share = *chosen_;
    ++share.packets;
    share.in_flight += bytes;
    share.balance += bytes;
    if (--left_ > 0) return;
    rank(share);
    if (bytes <= small_ && stays_together(share, bytes)) return;
    turn_ = &share + 1 == end_ ? shares_.data() : &share + 1;
    leave_first();
    enter(share);
  }
  // The share gets nothing more from the next choice on.
  static void close(Share& share) { share.closed = true; }

  [[nodiscard]] std::span<Share> shares() { return {shares_.data(), end_}; }
  // The share of the last packet.
  [[nodiscard]] const Share& last() const { return *chosen_; }

 private:
  static constexpr std::uint64_t kSmall = 4;     // packets of up to a full one divided by this
  static constexpr std::uint64_t kTogether = 4;  // full packets

  void rank(Share& share) const {
    const bool has_room = share.in_flight + share.least <= share.window || share.in_flight == 0;
    const auto filled = static_cast<std::int64_t>(share.in_flight + burst_);
    share.filled = has_room ? static_cast<double>(filled) / share.capacity : Share::kFull;
  }
  [[nodiscard]] static bool is_before(const Share& a, const Share& b) {
    return a.filled < b.filled || (a.filled == b.filled && a.balance < b.balance);
  }
  [[nodiscard]] Share*& place(std::size_t i) { return order_[(first_ + i) % kMaxPaths]; }
  void leave_first() {
    first_ = (first_ + 1) % kMaxPaths;
    --size_;
  }
  void enter(Share& share) {
    std::size_t i = size_++;
    for (; i > 0 && is_before(share, *place(i - 1)); --i) place(i) = place(i - 1);
    place(i) = &share;
  }
  void choose() {
    while (place(0)->closed && place(0)->filled != Share::kFull) {
      Share& closed = *place(0);
      closed.filled = Share::kFull;
      leave_first();
      enter(closed);
    }
    if (place(0)->filled == Share::kFull) return;
    if (place(0) != turn_ && size_ > 1 && !is_before(*place(0), *place(1))) settle_tie();
    Share& share = *place(0);
    chosen_ = &share;
    left_ = 1;
    together_ = 0;
    if (share.burst == 1) return;
    const std::uint64_t room = share.window - std::min(share.window, share.in_flight);
    left_ = std::clamp<std::uint64_t>(room / packet_, 1, share.burst);
  }
  // The share whose turn is next comes first among equal ones.
  void settle_tie() {
    const auto wait = [&](const Share& share) {
      return &share >= turn_ ? &share - turn_ : &share - turn_ + (end_ - shares_.data());
    };
    std::size_t first = 0;
    for (std::size_t i = 1; i < size_ && !is_before(*place(0), *place(i)); ++i) {
      if (!place(i)->closed && wait(*place(i)) < wait(*place(first))) first = i;
    }
    Share* const share = place(first);
    for (; first > 0; --first) place(first) = place(first - 1);
    place(0) = share;
  }
  [[nodiscard]] bool stays_together(const Share& share, std::uint64_t bytes) {
    together_ += bytes;
    if (together_ > packet_ * kTogether || share.closed || share.filled == Share::kFull) {
      return false;
    }
    left_ = 1;
    return true;
  }

  std::uint64_t packet_ = 1;
  std::uint64_t small_ = 0;
  std::uint64_t burst_ = 1;
  Share* end_ = nullptr;
  Share* turn_ = nullptr;       // it comes first among equal shares
  Share* chosen_ = nullptr;     // by the last choice
  std::uint64_t left_ = 0;      // its packets until the next choice
  std::uint64_t together_ = 0;  // bytes of small packets since that choice
  // The shares in the order in which they would be chosen: `size_` of a ring from `first_` on.
  std::array<Share*, kMaxPaths> order_{};
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::array<Share, kMaxPaths> shares_;
};

}  // namespace hawser::proto
