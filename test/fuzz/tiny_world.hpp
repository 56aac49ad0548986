// SPDX-License-Identifier: Apache-2.0
// Two endpoints, joined by NICs that do nothing by themselves: every packet that is sent stays in
// the air until the fuzzer delivers, loses, doubles or damages it. There are no threads and no
// clock. The world is small enough to be made anew some hundred times a second.
//
// The buffer of each operation is an allocation of its own, freed the moment the caller owns it
// again, so that a sanitizer reports any later read or write.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "proto/endpoint.hpp"
#include "test/support/simple_pool.hpp"

namespace hawser::test {

struct Flying {
  std::uint32_t to = 0;  // endpoint
  std::uint32_t nic = 0;
  proto::Queue queue = proto::Queue::data;
  std::vector<std::uint64_t> words;  // so that headers are aligned
  std::size_t bytes = 0;

  [[nodiscard]] std::span<std::byte> datagram() {
    return std::as_writable_bytes(std::span(words)).first(bytes);
  }
};

class TinyNic final : public proto::Nic {
 public:
  static constexpr std::size_t kMostFlying = 512;  // more are lost

  TinyNic(std::uint32_t number, std::deque<Flying>& air, proto::PacketPool& pool)
      : air_(air), pool_(pool) {
    address_.bytes[0] = std::byte{static_cast<std::uint8_t>(proto::NicKind::memory)};
    address_.bytes[1] = static_cast<std::byte>(number);
    caps_.max_datagram_bytes = 1024;
    caps_.burst = 4;
    caps_.receive_bytes = 65536;
  }

  bool holds_sends = false;  // reaps nothing
  bool dead = false;         // its packets are lost, both ways
  void tell(proto::NicEvent::Kind kind) { events_.push_back({kind}); }
  void arrive(Flying packet) {
    if (!dead) (packet.queue == proto::Queue::data ? data_ : control_).push_back(std::move(packet));
  }
  [[nodiscard]] bool has_arrivals() const { return !data_.empty() || !control_.empty(); }

  [[nodiscard]] std::string_view name() const override { return "tiny"; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle) override {}
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override;
  [[nodiscard]] std::uint64_t overruns() const override { return 0; }
  [[nodiscard]] std::size_t descriptors(std::span<int>) const override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::size_t) override { return Status::ok; }
  void deregister_memory(const void*, std::size_t) override {}

 private:
  struct Send {
    proto::PacketBuffer* buffer = nullptr;
    std::uint64_t cookie = 0;
    const std::byte* payload = nullptr;
    std::size_t bytes = 0;
    unsigned sum = 0;  // of the payload, when it was sent
  };

  std::deque<Flying>& air_;
  proto::PacketPool& pool_;
  proto::NicAddress address_;
  proto::NicCaps caps_;
  std::deque<Send> sends_;
  std::deque<proto::NicEvent> events_;
  std::deque<Flying> data_;
  std::deque<Flying> control_;
  std::array<std::vector<Flying>, 2> handed_out_;
};

// One operation, from its call to its last completion.
struct TinyOperation {
  static constexpr std::uint32_t kNoRecord = ~0u;
  OperationId id = kNoOperation;
  bool is_send = false;
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size = 0;
  std::uint64_t serial = 0;          // of a send
  std::uint32_t record = kNoRecord;  // of a one-sided operation: its listener's name for it

  [[nodiscard]] bool is_one_sided() const { return id != kNoOperation && record != kNoRecord; }
};

// The world hands it the completions of one-sided operations, and the notices of peers' writes.
class TinyListener {
 public:
  // The operation's bytes still exist.
  virtual void on_completed(const TinyOperation& operation, const Completion& completion) = 0;
  virtual void on_notice(std::uint32_t node, const Completion& notice) = 0;

 protected:
  ~TinyListener() = default;
};

struct TinyNode {
  static constexpr std::uint32_t kNics = 2;
  std::unique_ptr<SimplePool> pool;
  std::vector<std::unique_ptr<TinyNic>> nics;
  std::unique_ptr<proto::Endpoint> endpoint;
  PeerId peer = kAnyPeer;  // the other
  std::vector<TinyOperation> operations;
  std::vector<std::uint32_t> free;  // indices of operations
  std::optional<MessageId> claimed;
  proto::Time next_turn{};
  bool closing = false;
  bool holds_notices = false;  // its program takes none out of the ring
};

// Addresses beyond those of the two endpoints' NICs, for the strangers that the fuzzer plays.
inline constexpr std::uint32_t kStrangerNics = 2;

struct TinyOptions {
  std::array<std::string_view, 2> secrets{};  // of the job, one per endpoint
  std::uint64_t max_half_open_sessions = 1;
};

class TinyWorld {
 public:
  explicit TinyWorld(const TinyOptions& options = {});

  [[nodiscard]] proto::Time now() const { return now_; }
  [[nodiscard]] TinyNode& node(std::uint32_t i) { return nodes_[i]; }
  [[nodiscard]] std::deque<Flying>& air() { return air_; }

  void advance(proto::Duration by) { now_ = now_ + by; }
  void connect(std::uint32_t from);
  // False if the endpoint refuses the call, with `again` or another status.
  bool send(std::uint32_t from, std::size_t bytes, std::uint64_t tag,
            const proto::SendOptions& options);
  bool receive(std::uint32_t at, std::size_t bytes, std::uint64_t tag, std::uint64_t mask);
  void claim(std::uint32_t at, std::uint64_t tag, std::uint64_t mask);
  void put_back(std::uint32_t at);
  void receive_claimed(std::uint32_t at, std::size_t bytes);
  void cancel(std::uint32_t at, std::uint32_t which);
  void turn(std::uint32_t i);
  // For calls that the world has no function for: `take` makes an operation, null if all are under
  // way. `took` says what the call has answered, and returns whether that was ok.
  TinyOperation* take(TinyNode& node);
  static bool took(TinyNode& node, TinyOperation& operation, Status status);
  // Delivers a packet to its endpoint. A packet for a stranger goes to `strangers`.
  void deliver(Flying packet) {
    if (packet.to >= nodes_.size()) {
      if (strangers.size() < kMostKept) strangers.push_back(std::move(packet));
      return;
    }
    TinyNode& node = nodes_[packet.to];
    node.nics[packet.nic]->arrive(std::move(packet));
  }
  // Delivers packets and fires timers when they are due, until `done` or for `limit`.
  template <class Done>
  bool run(proto::Duration limit, const Done& done) {
    const proto::Time end = now_ + limit;
    while (!done()) {
      if (now_ >= end) return false;
      step(end);
    }
    return true;
  }
  // Closes both endpoints. Nothing that they held may be left.
  void close();
  [[nodiscard]] std::size_t open(std::uint32_t i) const {
    return nodes_[i].operations.size() - nodes_[i].free.size();
  }

  // Packets that were sent to strangers, for the fuzzer to read and remove.
  static constexpr std::size_t kMostKept = 64;
  std::deque<Flying> strangers;

  // As long as this is true, each receive must get exactly what a send gave. A forger clears it.
  bool honest = true;
  TinyListener* listener = nullptr;  // null: no call for a one-sided operation is made
  std::uint64_t sends_ok = 0;
  std::uint64_t receives_ok = 0;

 private:
  void step(proto::Time end);
  void take_completions(TinyNode& node);
  void take_notices(std::uint32_t i);
  void check_receive(const TinyOperation& operation, const Completion& completion) const;

  proto::Time now_{1000000000};
  std::deque<Flying> air_;
  std::array<TinyNode, 2> nodes_;
  std::uint64_t serials_ = 0;
};

}  // namespace hawser::test
