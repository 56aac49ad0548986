// SPDX-License-Identifier: Apache-2.0
// A fabric inside one process: NICs that attach to it reach each other, from any thread.
//
// The receive rings of a NIC belong to its port, which lives for as long as anybody sends to it;
// so a NIC may be destroyed while others, in other threads, are sending to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/driver/memory/datagram_ring.hpp"
#include "hawser/status.hpp"
#include "proto/nic.hpp"

namespace hawser::engine {

// The receive rings of one memory NIC.
struct MemoryPort {
  MemoryPort(std::size_t data_slots, std::size_t control_slots, std::size_t datagram_bytes)
      : data(data_slots, datagram_bytes), control(control_slots, datagram_bytes) {}
  [[nodiscard]] DatagramRing& ring(proto::Queue queue) {
    return queue == proto::Queue::data ? data : control;
  }
  // By the receiver, which goes: what senders have lent is theirs again.
  void close() {
    data.close();
    control.close();
  }
  DatagramRing data;
  DatagramRing control;
  std::atomic<bool> takes_views{false};  // said by the receiver: of payloads
};

class MemoryFabric {
 public:
  // The fabric of that name in this process; it lives as long as somebody holds it.
  [[nodiscard]] static std::shared_ptr<MemoryFabric> named(std::string_view name);

  // A fabric that no name leads to. `id` is part of its NICs' addresses: the same construction
  // gives the same addresses, as a simulation needs.
  explicit MemoryFabric(std::string name = "private", std::uint64_t id = 0);

  [[nodiscard]] const std::string& name() const { return name_; }

  // Any thread.
  [[nodiscard]] proto::NicAddress attach(std::shared_ptr<MemoryPort> port);
  void detach(const proto::NicAddress& address);

  // Whether it can be an address of this fabric. Any thread.
  [[nodiscard]] bool names(const proto::NicAddress& address) const;
  // Any thread; doesn't block.
  //   ok: `port` is the port, or null if its NIC is gone for good: what is sent there is lost
  //   again: another thread is attaching or looking · invalid_argument: not an address of this
  //   fabric.
  [[nodiscard]] Status find(const proto::NicAddress& address, std::shared_ptr<MemoryPort>& port);

 private:
  [[nodiscard]] proto::NicAddress address_of(std::uint64_t number) const;

  std::string name_;
  std::uint64_t id_;
  std::mutex mutex_;  // over what follows
  std::map<std::uint64_t, std::shared_ptr<MemoryPort>> ports_;
  std::uint64_t next_number_ = 1;  // never reused
};

}  // namespace hawser::engine
