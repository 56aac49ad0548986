// SPDX-License-Identifier: Apache-2.0
// Wraps another NIC. It calls the test before it polls the data queue, and shows it the packets
// that came. With it a test can let time pass between two NICs of one turn, or mark packets as a
// congested switch would.
#pragma once

#include <functional>
#include <utility>

#include "proto/nic.hpp"

namespace hawser::test {

class ObservedNic final : public proto::Nic {
 public:
  // `nic` outlives it. Either function may be null.
  ObservedNic(proto::Nic& nic, std::function<void()> before_poll,
              std::function<void(std::span<proto::RxPacket>)> arrived)
      : nic_(nic), before_poll_(std::move(before_poll)), arrived_(std::move(arrived)) {}

  // May be null. False for an address that the driver has not resolved yet.
  std::function<bool(const proto::NicAddress&)> knows_way;

  // May be null. The longest datagram that the route to an address carries whole.
  std::function<std::uint32_t(const proto::NicAddress&)> way_bytes;
  // Its answers have changed: the NIC tells it with its next event.
  bool have_ways_changed = false;

  [[nodiscard]] std::string_view name() const override { return nic_.name(); }
  [[nodiscard]] const proto::NicCaps& caps() const override { return nic_.caps(); }
  [[nodiscard]] const proto::NicAddress& address() const override { return nic_.address(); }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override {
    return nic_.can_address(remote);
  }
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override {
    if (knows_way && !knows_way(remote)) return Status::again;
    return nic_.open_remote(remote, handle);
  }
  [[nodiscard]] std::uint32_t max_datagram_to(const proto::NicAddress& remote) override {
    return way_bytes ? way_bytes(remote) : nic_.max_datagram_to(remote);
  }
  void close_remote(proto::RemoteHandle handle) override { nic_.close_remote(handle); }
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override {
    return nic_.tx_burst(packets);
  }
  void flush() override { nic_.flush(); }
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override {
    return nic_.reap(cookies);
  }
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override {
    if (queue == proto::Queue::data && before_poll_) before_poll_();
    const std::size_t count = nic_.rx_burst(queue, packets);
    if (arrived_) arrived_(packets.first(count));
    return count;
  }
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override {
    const std::size_t count = nic_.events(events);
    if (!have_ways_changed || count == events.size()) return count;
    have_ways_changed = false;
    events[count] = {proto::NicEvent::Kind::ways};
    return count + 1;
  }
  [[nodiscard]] std::uint64_t overruns() const override { return nic_.overruns(); }
  [[nodiscard]] std::size_t descriptors(std::span<int> fds) const override {
    return nic_.descriptors(fds);
  }
  [[nodiscard]] bool arm() override { return nic_.arm(); }
  [[nodiscard]] Status register_memory(const void* data, std::size_t bytes) override {
    return nic_.register_memory(data, bytes);
  }
  void deregister_memory(const void* data, std::size_t bytes) override {
    nic_.deregister_memory(data, bytes);
  }

 private:
  proto::Nic& nic_;
  std::function<void()> before_poll_;
  std::function<void(std::span<proto::RxPacket>)> arrived_;
};

}  // namespace hawser::test
