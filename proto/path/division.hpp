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

#include "proto/nic.hpp"
#include "proto/path/path.hpp"

namespace hawser::proto {

// What one path gets.
struct Share {
  Path* path = nullptr;
  std::uint64_t window = 0;     // bytes that may be in flight
  std::uint64_t least = 0;      // bytes that must have room
  std::uint64_t in_flight = 0;  // bytes, with the packets
  double capacity = 0;          // the window, or a packet if that is more
  RemoteHandle remote = kNoRemote;
  std::uint32_t burst = 1;    // packets in a row before the next choice
  std::uint32_t packets = 0;  // given to it
  std::uint32_t places = 0;   // for so many packets the sender is prepared
  bool paced = false;         // by its NIC
  bool closed = false;        // it gets no more
};

class Division {
 public:
  // `packet`: the bytes of a full packet. `burst`: those that a path should have room for.
  void start(std::uint64_t packet, std::uint64_t burst) {
    packet_ = packet;
    burst_ = burst;
    size_ = turn_ = left_ = 0;
  }
  void add(Path& path, std::uint64_t window, std::uint32_t burst, bool paced) {
    Share& share = shares_[size_];
    share = Share{};
    share.path = &path;
    share.window = window;
    // A burst that is cut short costs as much as a full one: wait for room for half the window.
    share.least = std::min(burst_, std::max(packet_, window / 2));
    share.in_flight = path.bytes_in_flight;
    share.capacity = static_cast<double>(std::max(window, packet_));
    share.burst = burst;
    share.paced = paced;
    balance_[size_] = path.balance_bytes;
    rank(size_++);
  }

  // The share that gets the next packet. Null: none has room. Without a give() in between the
  // answer is the same.
  [[nodiscard]] Share* next() {
    if (left_ == 0) choose();
    return left_ == 0 ? nullptr : &shares_[chosen_];
  }
  // The share that next() has named gets a packet of so many bytes.
  void give(std::uint64_t bytes) {
    Share& share = shares_[chosen_];
    ++share.packets;
    share.in_flight += bytes;
    balance_[chosen_] += bytes;
    if (--left_ > 0) return;
    rank(chosen_);
    together_ += bytes;
    if (bytes <= packet_ / kSmall && together_ <= packet_ * kTogether && has_room(chosen_)) {
      left_ = 1;
      return;
    }
    turn_ = chosen_ + 1 == size_ ? 0 : chosen_ + 1;
  }
  [[nodiscard]] bool has_room(std::size_t i) const { return filled_[i] < kFull; }
  // The share gets nothing more from the next choice on.
  void close(std::size_t i) {
    shares_[i].closed = true;
    filled_[i] = kFull;
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Share& operator[](std::size_t i) { return shares_[i]; }
  [[nodiscard]] std::size_t chosen() const { return chosen_; }

 private:
  static constexpr double kFull = std::numeric_limits<double>::infinity();
  static constexpr std::uint64_t kSmall = 4;     // packets of up to a full one divided by this
  static constexpr std::uint64_t kTogether = 4;  // full packets

  void rank(std::size_t i) {
    const Share& share = shares_[i];
    const bool room =
        !share.closed && (share.in_flight == 0 || share.in_flight + share.least <= share.window);
    const auto filled = static_cast<std::int64_t>(share.in_flight + burst_);
    filled_[i] = room ? static_cast<double>(filled) / share.capacity : kFull;
  }
  void choose() {
    std::size_t best = turn_;
    const auto offer = [&](std::size_t i) {
      if (filled_[i] > filled_[best]) return;
      if (filled_[i] < filled_[best] || balance_[i] < balance_[best]) best = i;
    };
    for (std::size_t i = turn_ + 1; i < size_; ++i) offer(i);
    for (std::size_t i = 0; i < turn_; ++i) offer(i);
    if (filled_[best] == kFull) return;
    chosen_ = best;
    left_ = 1;
    together_ = 0;
    const Share& share = shares_[best];
    if (share.burst == 1) return;
    const std::uint64_t room = share.window - std::min(share.window, share.in_flight);
    left_ = std::clamp<std::uint64_t>(room / packet_, 1, share.burst);
  }

  std::uint64_t packet_ = 1;
  std::uint64_t burst_ = 1;
  std::size_t size_ = 0;
  std::size_t turn_ = 0;        // the share that the next choice begins with
  std::size_t chosen_ = 0;      // the last choice
  std::uint64_t left_ = 0;      // packets of that share until the next choice
  std::uint64_t together_ = 0;  // bytes of the last bursts since that choice
  // By share: how full its window would be with the next burst, or kFull if it may get none.
  std::array<double, kMaxPaths> filled_;
  std::array<std::uint64_t, kMaxPaths> balance_;  // as in Path, with the packets
  std::array<Share, kMaxPaths> shares_;
};

}  // namespace hawser::proto
