// SPDX-License-Identifier: Apache-2.0
// A fabric with a baseline's hosts. A tap between each port and its host drops the packets that a
// test names, and records the arrivals.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>

#include "proto/base/random.hpp"
#include "sim/baseline/baseline_run.hpp"
#include "sim/fabric/faults.hpp"

namespace hawser::baseline {

using fabric::ConnectionMatrix;
using fabric::Instant;
using fabric::kGigabit;
using fabric::microseconds;
using fabric::nanoseconds;
using fabric::Span;

inline constexpr Span kMost = microseconds(60'000'000);

// htsim's sizes: 4086 bytes of payload in 4150, acknowledgements of 64. They take 332 and 5.12 ns
// at 100 Gb/s.
inline constexpr PacketSizes kSizes{.payload = 4086, .overhead = 64, .ack = 64};
inline constexpr std::int64_t kPacket = 332'000;  // ps on a cable
// Over one switch with cables of 1 us: the time until a packet has arrived, and until its
// acknowledgement is back.
inline constexpr std::int64_t kThere = 2 * kPacket + 2'000'000;
inline constexpr std::int64_t kThereAndBack = kThere + 2 * 5'120 + 2'000'000;

class Tap final : public fabric::Receiver {
 public:
  struct Seen {
    std::int64_t at = 0;  // ps
    std::uint32_t number = 0;
    std::uint32_t port = 0;
    std::uint16_t entropy = 0;
    bool is_lost = false;
  };

  Tap(fabric::Network& network, std::uint32_t port)
      : network_(network), inner_(network.plugged(port)) {
    network.plug(port, this);
  }
  void on_packet(Instant now, fabric::PacketId id) override {
    const fabric::Packet& packet = network_.packets().at(id);
    const bool is_ack = (packet.number >> 31) != 0;
    if (before) before();
    const bool is_lost = !is_ack && (lose_next(packet.number) || random.chance(loss));
    if (!is_ack) seen.push_back({now.ps, packet.number, packet.to, packet.entropy, is_lost});
    if (is_lost) return network_.packets().give(id);
    inner_->on_packet(now, id);
  }
  std::function<void()> before;  // called before each packet, acknowledgements too
  // A packet is dropped as often as its number is named here. Numbers count from 0.
  std::vector<std::uint32_t> loses;
  double loss = 0;  // the probability of each data packet
  proto::Random random{0};
  std::vector<Seen> seen;  // data packets that came to the port

 private:
  bool lose_next(std::uint32_t number) {
    const auto found = std::ranges::find(loses, number);
    if (found == loses.end()) return false;
    loses.erase(found);
    return true;
  }

  fabric::Network& network_;
  fabric::Receiver* inner_;
};

inline Setup setup() {
  Setup out;
  out.sizes = kSizes;
  return out;
}

struct World {
  fabric::EventWheel events;
  fabric::Network network;
  BaselineRun run;
  std::vector<std::unique_ptr<Tap>> taps;  // by port

  World(const fabric::Shape& shape, const ConnectionMatrix& matrix, const Baseline& what,
        const Setup& with = setup(), std::uint64_t seed = 1)
      : network(events, shape, seed, 32), run(events, network, matrix, what, with, shape.nics) {
    for (std::uint32_t port = 0; port < network.wiring().ports(); ++port) {
      taps.push_back(std::make_unique<Tap>(network, port));
    }
  }
  [[nodiscard]] std::int64_t ended(std::uint32_t flow = 0) const {
    return run.times(flow).ended.ps;
  }
  [[nodiscard]] std::int64_t received(std::uint32_t flow = 0) const {
    return run.times(flow).received.ps;
  }
  // When the packet came to the port, after `times` earlier arrivals (dropped ones count); -1:
  // never.
  [[nodiscard]] std::int64_t came(std::uint32_t number, std::uint32_t times,
                                  std::uint32_t port = 1) const {
    for (const Tap::Seen& one : taps[port]->seen) {
      if (one.number == number && times-- == 0) return one.at;
    }
    return -1;
  }
};

inline fabric::Shape two_hosts() { return fabric::one_switch(2, 100 * kGigabit, microseconds(1)); }

// A matrix with one flow of `packets` full packets.
inline ConnectionMatrix one_flow(std::uint32_t packets) {
  ConnectionMatrix matrix;
  matrix.nodes = 2;
  matrix.connections.push_back(
      {.from = 0, .to = 1, .bytes = std::uint64_t{packets} * kSizes.payload});
  return matrix;
}

}  // namespace hawser::baseline
