// SPDX-License-Identifier: Apache-2.0
// One host among many on the fabric of experiments, in virtual time. The fabric is leaf-spine: 32
// ports a leaf and as many spines, 400 Gb/s, 1 us a cable, queues of 1 MiB. All hosts run the
// protocol as shipped. The host in port 0 has limits for all peers. The others work with it alone
// and have small limits: they only respond, which is the one reason why they are cheap.
// `all_to_all` gives every host limits for all others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/random.hpp"
#include "sim/core/pool.hpp"
#include "sim/experiment/fabric_host.hpp"

namespace hawser::bench {

enum class Calls : std::uint8_t {
  one_calls_all,  // the host in port 0 calls each of the others
  all_call_one,   // each of the others calls it, all at one moment
  all_to_all,     // each host calls each other, all at one moment
};

// The cost until the first message of each session had come. The calling host sends it.
struct ConnectCost {
  bool all_up = false;
  double ms = 0;  // of virtual time
  std::uint64_t sessions = 0;
  std::uint64_t handshakes = 0;  // packets of all hosts, challenges too
  std::uint64_t challenges = 0;
  std::uint64_t lost_in_queues = 0;  // packets
  std::uint64_t lost_in_rings = 0;

  [[nodiscard]] double handshakes_a_session() const {
    return static_cast<double>(handshakes) / static_cast<double>(sessions);
  }
};

struct FabricRate {
  bool all = false;  // each message came once
  double messages_per_s = 0;
  double link_share = 0;  // bytes on the host's cable, of those that it could have carried
  std::uint64_t resent = 0;
  std::uint64_t lost = 0;  // packets, anywhere
};

class FabricWorld {
 public:
  static constexpr std::uint64_t kBitsPerS = 400 * fabric::kGigabit;

  [[nodiscard]] static fabric::Shape shape(std::uint32_t ports);

  FabricWorld(std::uint32_t peers, Calls calls, std::uint64_t seed = 1);

  [[nodiscard]] ConnectCost connect(fabric::Span most);
  // Sends `messages` messages of `bytes` from the host in port 0 to random peers, `under_way` at
  // once. A message is over when the receiver has it and the sender knows.
  [[nodiscard]] FabricRate rate(std::uint64_t messages, std::uint32_t bytes,
                                std::uint32_t under_way);
  // Each host sends a message to each host that it has called: an all-to-all, if each has called
  // each.
  [[nodiscard]] FabricRate exchange(std::uint32_t bytes);
  [[nodiscard]] std::uint64_t digest() const { return network_.digest(); }
  [[nodiscard]] experiment::FabricHost& host(std::uint32_t port) { return *hosts_[port]; }
  [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(hosts_.size()); }

 private:
  static constexpr std::uint32_t kPosted = 32;  // receives of a responder

  void make_host(std::uint32_t port, std::uint32_t peers);
  void call(std::uint32_t from, std::uint32_t to);
  void post(std::uint32_t port, std::uint32_t operation);
  bool send(std::uint32_t port, PeerId to);
  void collect(std::uint32_t port);
  void go_on(std::uint32_t port);
  [[nodiscard]] bool to_all(fabric::Instant until);
  [[nodiscard]] std::uint64_t lost_in_rings() const;
  [[nodiscard]] FabricRate result(fabric::Instant begin, std::uint64_t bytes_before,
                                  std::uint64_t lost_before, std::uint64_t messages) const;
  [[nodiscard]] std::uint64_t resent() const;
  [[nodiscard]] std::uint64_t cable_bytes() const;

  fabric::EventWheel events_;
  fabric::Network network_;
  sim::Pool pool_{16384};
  experiment::ViewSlots slots_{experiment::NicConfig{}.max_datagram_bytes};
  Calls calls_;
  std::uint64_t seed_;
  std::vector<std::unique_ptr<experiment::FabricHost>> hosts_;
  struct Node {
    std::vector<PeerId> peers;
    std::vector<std::uint32_t> free;  // operations that are free for sends
    std::uint64_t to_send = 0;        // messages yet to send
    std::uint64_t under_way = 0;
  };
  std::vector<Node> nodes_;
  std::vector<std::byte> memory_;
  proto::Random random_{1};
  std::uint32_t bytes_ = 8;  // of a message
  bool in_turn_ = false;     // each message to the next peer, not to a random one
  std::uint64_t received_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace hawser::bench
