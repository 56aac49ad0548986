// SPDX-License-Identifier: Apache-2.0
// The UDP port at which an endpoint is asked for its address. It keeps no state about those who
// ask.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include "plugin/ofi/address_format.hpp"
#include "plugin/ofi/descriptor.hpp"
#include "plugin/ofi/port_name.hpp"
#include "plugin/ofi/watch_thread.hpp"

namespace hawser::ofi {

// Thrown if a port is unavailable; `number` is the system's errno.
class PortError : public std::runtime_error {
 public:
  PortError(int number, const PortName& at);
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

class NamePort {
 public:
  // Binds the port. An `at` without an address takes requests at all addresses of the host, of both
  // families unless `is_of_one_family`. Port 0: the system chooses. Throws PortError.
  NamePort(const PortName& at, bool is_of_one_family);

  [[nodiscard]] int fd() const { return socket_.get(); }
  // The name, including the actual port.
  [[nodiscard]] const PortName& at() const { return at_; }
  // Answers the requests that have arrived, at most 64.
  void answer(const AddressBytes& address);
  [[nodiscard]] std::uint64_t answered() const { return answered_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }  // they were no requests

 private:
  PortName at_;
  Descriptor socket_;
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

// Answers requests in a thread while the program is elsewhere. It uses only the port, so it needs
// no lock.
class NameThread : public WatchThread {
 public:
  // Throws std::system_error.
  NameThread(NamePort& port, const AddressBytes& address)
      : WatchThread(port.fd(), std::chrono::milliseconds(0), "hawser-names",
                    [&port, address] { port.answer(address); }) {}
};

}  // namespace hawser::ofi
