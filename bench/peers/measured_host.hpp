// SPDX-License-Identifier: Apache-2.0
// A host whose costs are measured: a real, unchanged endpoint, whose peers are those of an
// AnsweringNic. Its tunables are the defaults, apart from limits.
//
// Time is virtual: a turn takes 200 ns and 40 ns more for each packet, as for hosts of experiments.
// The processor's clock measures everything that a program with this endpoint would do: its calls,
// its turns, and fetching its completions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/answering_nic.hpp"
#include "engine/packet_pool.hpp"
#include "proto/base/random.hpp"
#include "proto/endpoint.hpp"

namespace hawser::bench {

struct MeasuredConfig {
  std::uint32_t peers = 1;
  std::uint32_t max_peers = 0;    // 0: as many as `peers`
  std::uint32_t under_way = 128;  // messages, at most
  bool sends_back = false;        // each message is answered by one
  bool is_cold = false;           // the caches are emptied before each turn
  std::uint64_t rest_after_ms = Tunables{}.rest_after_ms;
};

struct ProcessorCost {
  double ns = 0;  // of processor time
  std::uint64_t messages = 0;
  std::uint64_t packets = 0;  // either way
  std::uint64_t turns = 0;

  [[nodiscard]] double ns_a_message() const { return ns / static_cast<double>(messages); }
  [[nodiscard]] double ns_a_packet() const { return ns / static_cast<double>(packets); }
};

class MeasuredHost {
 public:
  // `record`: resident() reports the memory of this host.
  MeasuredHost(const MeasuredConfig& config, bool record = false);

  // Opens sessions with `count` more peers and sends a message to each. All are up afterwards.
  void connect(std::uint32_t count);
  // Sends `messages` messages of `bytes`, each to a random peer, `under_way` at once.
  ProcessorCost run(std::uint64_t messages, std::uint32_t bytes);
  // Lets time pass, with a turn whenever the endpoint asks for one.
  void let_pass(proto::Duration time);
  // Sends a message to each peer, and one from each that no receive matches, all under way at this
  // moment.
  void have_under_way(std::uint32_t bytes);

  [[nodiscard]] EndpointStats stats() const { return endpoint_->stats(); }
  [[nodiscard]] const AnsweringNic& nic() const { return nic_; }
  // An error text if any message was lost, duplicated or retransmitted; else empty.
  [[nodiscard]] std::string complaint() const;

 private:
  void turn();
  void post_receive(std::uint32_t operation);
  void send(std::uint32_t peer, std::uint32_t bytes);
  void collect();
  void pass();
  void empty_caches();

  MeasuredConfig config_;
  engine::StackPacketPool pool_;
  AnsweringNic nic_;
  std::array<proto::Nic*, 1> nics_{&nic_};
  std::unique_ptr<proto::Endpoint> endpoint_;
  std::vector<PeerId> peers_;
  std::vector<std::uint32_t> free_;  // operations
  std::vector<std::byte> payload_;
  std::array<std::byte, 64> sink_{};
  std::vector<std::uint64_t> sweep_;  // read to empty the caches
  proto::Random random_{1};
  proto::Time now_{1'000'000'000};
  proto::TurnResult result_;
  std::uint64_t sent_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace hawser::bench
