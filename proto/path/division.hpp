// SPDX-License-Identifier: Apache-2.0
// Divides packets among the paths of a peer in one step. Each path gets what
// the policy LeastFilled (path_chooser.hpp) would give it, were every packet
// handed over before the next one chooses. The sender therefore hands each path
// its packets as one burst, and no path gets another share.
//
// The user adds the paths that may carry data, in turn. For each packet it asks
// next(), and reports the packet's bytes by give(). A division knows nothing of
// NICs: who finds that a path may not carry more closes its share.
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
  RemoteHandle remote = kNoRemote;  // once it has a packet
  std::uint32_t burst = 1;          // packets in a row before the next choice
  std::uint32_t packets = 0;
  std::uint32_t places = 0;     // of records, for packets
  bool closed = false;          // it gets no more
  std::uint64_t window = 0;     // bytes that may be in flight
  std::uint64_t in_flight = 0;  // bytes, with the packets
  std::uint64_t balance = 0;    // as in Path, with the packets
  // How full the window would be with the next burst; kNoRoom: it may get none.
  double filled = kNoRoom;
  static constexpr double kNoRoom = std::numeric_limits<double>::infinity();
};

class Division {
 public:
  // `packet`: the bytes of a full packet. `burst`: those that a path should
  // have room for.
  void start(std::uint64_t packet, std::uint64_t burst) {
    packet_ = packet;
    burst_ = burst;
    size_ = turn_ = 0;
    left_ = 0;
  }
  void add(Path& path, std::uint64_t window, std::uint32_t burst) {
    shares_[size_] = {.path = &path,
                      .burst = burst,
                      .window = window,
                      .in_flight = path.bytes_in_flight,
                      .balance = path.balance_bytes};
    rank(shares_[size_++]);
  }

  // The share that gets the next packet. Null: none has room. Without a give()
  // in between the answer is the same.
  [[nodiscard]] Share* next() {
    if (left_ == 0) choose();
    return left_ == 0 ? nullptr : &shares_[chosen_];
  }
  // The share that next() has named gets a packet of so many bytes.
  void give(std::uint64_t bytes) {
    Share& share = shares_[chosen_];
    ++share.packets;
    share.in_flight += bytes;
    share.balance += bytes;
    if (--left_ > 0) return;
    turn_ = chosen_ + 1 == size_ ? 0 : chosen_ + 1;
    rank(share);
  }
  // It gets no more from the next choice on.
  static void close(Share& share) {
    share.closed = true;
    share.filled = Share::kNoRoom;
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Share& operator[](std::size_t i) { return shares_[i]; }
  [[nodiscard]] std::size_t index_of(const Share& share) const {
    return static_cast<std::size_t>(&share - shares_.data());
  }

 private:
  // A burst that is cut short costs as much as a full one: wait for room for
  // half the window.
  void rank(Share& share) const {
    const std::uint64_t least = std::min(burst_, std::max(packet_, share.window / 2));
    const bool has_room =
        !share.closed && (share.in_flight == 0 || share.in_flight + least <= share.window);
    share.filled = has_room ? static_cast<double>(share.in_flight + burst_) /
                                  static_cast<double>(std::max(share.window, packet_))
                            : Share::kNoRoom;
  }
  void choose() {
    double least = Share::kNoRoom;
    std::uint64_t balance = 0;
    const auto offer = [&](std::size_t i) {
      const Share& share = shares_[i];
      if (share.filled > least || (share.filled == least && share.balance >= balance)) return;
      least = share.filled;
      balance = share.balance;
      chosen_ = i;
    };
    for (std::size_t i = turn_; i < size_; ++i) offer(i);
    for (std::size_t i = 0; i < turn_; ++i) offer(i);
    if (least == Share::kNoRoom) return;
    const Share& share = shares_[chosen_];
    const std::uint64_t room = share.window - std::min(share.window, share.in_flight);
    left_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(room / packet_, 1, share.burst));
  }

  std::uint64_t packet_ = 1;
  std::uint64_t burst_ = 1;
  std::size_t size_ = 0;
  std::size_t turn_ = 0;    // the share that the next choice begins with
  std::size_t chosen_ = 0;  // while left_ > 0
  std::uint32_t left_ = 0;  // packets until the next choice
  std::array<Share, kMaxPaths> shares_;
};

}  // namespace hawser::proto
