// SPDX-License-Identifier: Apache-2.0
// Asks for the addresses behind port names, for one endpoint, and keeps the operations that wait
// for them.
//
// Timers: a request is sent at once, then again after 20 ms, and after twice as long each time, up
// to 500 ms. A name without an answer for peer_timeout_ms is given up, with the operations that
// wait for it.
//
// Invariants: a name has at most one request outstanding, however many operations wait for it.
// Every waiting operation belongs to a name that is being asked for. An answer counts only with the
// nonce of its request.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "plugin/ofi/address_format.hpp"
#include "plugin/ofi/descriptor.hpp"
#include "plugin/ofi/operation.hpp"
#include "plugin/ofi/port_name.hpp"

namespace hawser::ofi {

class Asker {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws std::system_error.
  explicit Asker(Clock::duration patience);

  // Readable when an answer has come, or when a request is due.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] bool is_empty() const { return asked_.empty(); }
  [[nodiscard]] bool is_asking(fi_addr_t address) const { return asked_.contains(address); }

  void ask(fi_addr_t address, const PortName& name, Clock::time_point now);
  // Makes the operation wait for a name that is being asked for.
  void push(fi_addr_t address, Operation& operation, Clock::time_point now);
  // Stops asking for a name. The caller gets the operations that waited for it.
  [[nodiscard]] OperationQueue stop(fi_addr_t address);
  // Removes the oldest waiting operation with this context of the program; null if there is none.
  [[nodiscard]] Operation* take(void* op_context);
  [[nodiscard]] bool has_sends() const;

  // Sends the requests that are due, and reads the answers that have come. Calls `ended` for each
  // name that ended, with its address if there is an answer, and with the operations that waited
  // for it.
  template <class Ended>
  void turn(Clock::time_point now, Ended&& ended) {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    AddressBytes bytes{};
    while (read_answer(address, bytes)) {
      ended(address, std::optional<AddressBytes>(bytes), stop(address));
    }
    if (now < due_at_) return;
    send_due(now);
    for (const fi_addr_t hopeless : find_hopeless(now)) {
      ended(hopeless, std::optional<AddressBytes>(), stop(hopeless));
    }
    set_timer(now);
  }

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }  // they were no answers

 private:
  struct Asked {
    PortName name;
    std::uint64_t nonce = 0;
    Clock::time_point next_at{};
    Clock::duration wait{};
    Clock::time_point give_up_at{};
    OperationQueue waiting{};
  };

  [[nodiscard]] std::uint64_t new_nonce();
  void send_request(Asked& asked, Clock::time_point now);
  void send_due(Clock::time_point now);
  [[nodiscard]] bool read_answer(fi_addr_t& address, AddressBytes& bytes);
  [[nodiscard]] std::vector<fi_addr_t> find_hopeless(Clock::time_point now) const;
  void set_timer(Clock::time_point now);

  Clock::duration patience_;
  bool is_mapped_;  // the socket is an IPv6 one that also serves IPv4
  Descriptor socket_;
  Descriptor timer_;
  Descriptor epoll_;
  std::unordered_map<fi_addr_t, Asked> asked_;
  std::unordered_map<std::uint64_t, fi_addr_t> by_nonce_;
  Clock::time_point due_at_ = Clock::time_point::max();
  std::uint64_t dropped_ = 0;
};

}  // namespace hawser::ofi
