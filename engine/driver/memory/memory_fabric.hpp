// SPDX-License-Identifier: Apache-2.0
// A fabric inside one process: the NICs that attach to it reach each other, from any thread.
//
// A NIC's receive rings belong to its port, which lives as long as any sender uses it. A NIC may
// therefore be destroyed while other threads are sending to it.
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
  // Called by the receiver when it goes. Senders own the payloads again that they have lent.
  void close() {
    data.close();
    control.close();
  }
  DatagramRing data;
  DatagramRing control;
  std::atomic<bool> takes_views{false};  // set by the receiver: it accepts views of payloads
};

class MemoryFabric {
 public:
  // Returns the fabric of that name in this process. It lives as long as anybody holds it.
  [[nodiscard]] static std::shared_ptr<MemoryFabric> named(std::string_view name);

  // Makes a fabric that can't be found by name. `id` is part of its NICs' addresses: the same
  // construction gives the same addresses, as a simulation needs.
  explicit MemoryFabric(std::string name = "private", std::uint64_t id = 0);

  [[nodiscard]] const std::string& name() const { return name_; }

  // For any thread.
  [[nodiscard]] proto::NicAddress attach(std::shared_ptr<MemoryPort> port);
  void detach(const proto::NicAddress& address);

  // True if it can be an address of this fabric. For any thread.
  [[nodiscard]] bool names(const proto::NicAddress& address) const;
  // Finds the port of an address. For any thread; doesn't block.
  //   `ok`: `port` is the port, or null if its NIC is gone for good. Datagrams to it are then lost.
  //   `again`: another thread is attaching or looking.
  //   `invalid_argument`: not an address of this fabric.
  [[nodiscard]] Status find(const proto::NicAddress& address, std::shared_ptr<MemoryPort>& port);

 private:
  [[nodiscard]] proto::NicAddress address_of(std::uint64_t number) const;

  std::string name_;
  std::uint64_t id_;
  std::mutex mutex_;  // guards the members below
  std::map<std::uint64_t, std::shared_ptr<MemoryPort>> ports_;
  std::uint64_t next_number_ = 1;  // never reused
};

}  // namespace hawser::engine
