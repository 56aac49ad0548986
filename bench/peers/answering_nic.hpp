// SPDX-License-Identifier: Apache-2.0
// A NIC that plays any number of peers, each no more than a few words of state. It is a test
// double: it shows what peers cost the endpoint that owns the NIC. A peer answers a HELLO with a
// WELCOME, acknowledges each packet, and reports each message as delivered. If `sends_back` is set,
// it sends a message of 8 bytes back with that. The NIC never loses, reorders or delays anything.
//
// The endpoint's work and the double's work are apart, so that the endpoint can be timed alone. In
// a turn tx_burst only keeps the headers, and rx_burst only shows the answers that are ready. The
// method answer() does the peers' work, outside of turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/nic.hpp"
#include "proto/wire/packet.hpp"

namespace hawser::bench {

struct AnsweringConfig {
  std::uint32_t peers = 1;
  std::uint32_t most_answers = 1024;  // not yet received, a power of two; answers beyond it wait
  proto::Duration round_trip = proto::microseconds(10);  // from a turn's end to its answers
  std::uint16_t entropies = 8;                           // the default of RDMA NICs
  bool sends_back = false;
  std::uint64_t link_bytes_per_s = 50'000'000'000;  // 400 Gb/s
};

class AnsweringNic final : public proto::Nic {
 public:
  static constexpr std::uint32_t kFragmentBytes = 4096;
  // The endpoint id of the first peer; the others' ids follow.
  static constexpr std::uint64_t kFirstId = 1000;

  AnsweringNic(const AnsweringConfig& config, proto::PacketPool& pool);

  // The address of a peer for Endpoint::connect. Not for the datapath: it makes an endpoint to ask.
  [[nodiscard]] static std::vector<std::byte> address_of(std::uint32_t peer);

  // The peers take the packets that were sent. Their answers can be received from `now` and the
  // round trip on.
  void answer(proto::Time now);
  // Sets the time of the coming turn.
  void set_time(proto::Time now) { now_ = now; }
  // While this is on, answers wait, so that all peers can have something under way at once.
  void hold_back(bool held) { held_back_ = held; }
  // The peer sends an empty message of its own accord.
  void send_from(std::uint32_t peer);

  [[nodiscard]] std::uint64_t packets() const { return packets_; }  // sent and received
  [[nodiscard]] std::uint64_t hellos() const { return hellos_; }
  // Queues of this NIC that were used: a device would have as many queue pairs.
  [[nodiscard]] std::uint32_t queues_used() const;
  [[nodiscard]] std::uint64_t messages_taken() const { return messages_taken_; }

  [[nodiscard]] std::string_view name() const override { return "answering"; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle) override {}  // a handle is a peer's number
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent>) override { return 0; }
  [[nodiscard]] std::uint64_t overruns() const override { return 0; }
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  // All state of a peer.
  struct Peer {
    std::uint64_t token = 0;  // the token that the endpoint expects
    std::uint32_t receiver = 0;
    std::uint32_t next_path_number = 0;
    std::uint32_t next_message = 0;
    std::uint32_t floor = 0;
    std::uint32_t turn = 0;
  };
  static constexpr std::size_t kAnswerBytes = 256;
  struct alignas(64) Answer {
    std::byte bytes[kAnswerBytes];
  };
  struct Ring {
    std::vector<Answer> answers;
    std::vector<std::uint32_t> lengths;
    std::vector<proto::Time> due;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Sent {
    std::uint32_t peer = 0;
    std::uint32_t at = 0;  // in headers_
    std::uint32_t bytes = 0;
    proto::Queue queue{};
  };

  void take(std::uint32_t number, std::span<const std::byte> headers, proto::Queue queue);
  void welcome(Peer& peer, std::uint32_t number, const proto::wire::SessionPart& hello);
  void acknowledge(Peer& peer, std::uint32_t number, const proto::wire::PacketView& packet);
  void write_message(proto::wire::PacketWriter& writer, Peer& peer, std::uint32_t bytes);
  void put(proto::Queue queue, proto::wire::PacketWriter& writer, std::uint32_t payload_bytes);
  [[nodiscard]] bool has_room() const;

  AnsweringConfig config_;
  proto::PacketPool& pool_;
  proto::NicCaps caps_;
  proto::NicAddress address_;
  std::vector<Peer> peers_;
  std::vector<std::byte> headers_;  // of the packets sent since answer(), end to end
  std::vector<Sent> sent_;
  std::size_t answered_ = 0;  // how many of these are answered
  std::vector<std::uint64_t> cookies_;
  std::vector<std::uint64_t> reapable_;
  std::array<Ring, 2> rings_;
  proto::PacketBuffer scratch_;
  proto::Time now_{};
  bool held_back_ = false;
  std::array<bool, 2> used_{};
  std::uint64_t packets_ = 0;
  std::uint64_t hellos_ = 0;
  std::uint64_t messages_taken_ = 0;
};

}  // namespace hawser::bench
