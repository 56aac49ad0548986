// SPDX-License-Identifier: Apache-2.0
// A test double of libibverbs: RDMA devices and the fabric between them, inside the test's process.
//
// A program that links fake_verbs instead of libibverbs runs the verbs driver unchanged. The double
// has UD queue pairs with the states and rules of the InfiniBand specification, on RoCE and
// InfiniBand ports, and the test scripts every failure. A misuse of a device is a violation, which
// fails the test: memory that isn't registered, buffers that change while the device has them,
// objects freed in the wrong order.
//
// The double carries out a send when it is posted, or when the test lets it go (hold). All calls
// take one lock, so any thread may use anything, as libibverbs allows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "test/support/fake_verbs/faults.hpp"
#include "test/support/fake_verbs/settings.hpp"

namespace hawser::test::fake {

struct PortCounters {
  std::uint64_t delivered = 0;
  std::uint64_t qkey_violations = 0;
  std::uint64_t pkey_violations = 0;
  std::uint64_t without_buffer = 0;
  std::uint64_t no_queue_pair = 0;  // there is none, or it isn't ready to receive
};

struct HandleInfo {
  ibv_ah_attr attributes{};
  std::uint64_t sent = 0;  // datagrams sent with it
};

// A test makes one. It begins without devices, and when it ends no object may be left.
class Fabric {
 public:
  Fabric();
  ~Fabric();  // prints any violation that end() still finds, and aborts then
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  void add(DeviceSettings settings);
  void change(const std::string& device, const std::function<void(DeviceSettings&)>& how);
  // Removes the device as the unloading of its driver does. It is no longer listed, drops its work,
  // and refuses every call except those that free its objects. A driver may announce the removal by
  // DEVICE_FATAL, and then gives no more events. Or it waits in silence, its ports down, until
  // every user has closed the device. The test may add the device again.
  enum class Removal : std::uint8_t { told, silent };
  void remove(const std::string& device, Removal removal = Removal::told);
  [[nodiscard]] std::size_t removed_in_use() const;  // removed devices that are still open
  // Changes the port's table of GIDs and raises the event.
  void set_gids(const std::string& device, std::uint8_t port, std::vector<GidRow> gids);

  // After `skip` more calls of `call`, the next `times` ones fail with `error` (of errno.h).
  void fail(Call call, int error, std::uint64_t skip = 0, std::uint64_t times = 1);
  void fail_setup(std::uint64_t n, int error);
  void refuse_after(Side side, std::uint64_t requests, int error);
  void complete_with(Side side, ibv_wc_status status, std::uint64_t skip = 0);
  void lie(Side side, std::function<void(ibv_wc&)> how, std::uint64_t skip = 0);
  // Adds a completion of no request, as if it belonged to this queue pair.
  void invent(std::uint32_t queue_pair, Side side, const ibv_wc& completion);
  [[nodiscard]] std::uint64_t calls(Call call) const;
  [[nodiscard]] std::uint64_t setup_calls() const;

  // Sets the port's state and raises the event.
  void set_port(const std::string& device, std::uint8_t port, ibv_port_state state);
  // Raises an event of the device, of one of its ports, of a queue pair or of a completion queue.
  void raise(const std::string& device, ibv_event_type type, std::uint8_t port = 1,
             std::uint64_t times = 1);
  void raise_of_pair(std::uint32_t queue_pair, ibv_event_type type);
  void raise_of_completions(std::uint32_t queue_pair, Side side);  // IBV_EVENT_CQ_ERR
  // Ends the device's events: reading them fails with EIO, as after a removal.
  void break_events(const std::string& device);
  // Events that the program has not read or not acknowledged yet.
  [[nodiscard]] std::size_t events_waiting(const std::string& device) const;

  // While held, sends stay at the device. let_go carries out so many sends of each queue pair.
  void hold(bool held);
  void let_go(std::uint64_t sends);
  // Whether a fork copies pinned pages for the child at once.
  void copy_on_fork(bool copied);
  // The number of registrations on all devices.
  [[nodiscard]] std::size_t registrations() const;
  // Simulates congestion: ECN-capable datagrams arrive marked.
  void mark(bool marked);
  // While blocked, ibv_create_ah waits.
  void block_handles(bool blocked);
  void block_handles_to(std::vector<Gid> gids);  // blocks only these; an empty list blocks none
  [[nodiscard]] std::size_t handles_blocked() const;

  [[nodiscard]] PortCounters counters(const std::string& device, std::uint8_t port = 1) const;
  // The device's present address handles, in the order in which they were made.
  [[nodiscard]] std::vector<HandleInfo> handles(const std::string& device) const;
  // The numbers of the device's queue pairs, in the order in which they were made.
  [[nodiscard]] std::vector<std::uint32_t> pairs(const std::string& device) const;
  [[nodiscard]] ibv_qp_state state_of(std::uint32_t queue_pair) const;
  [[nodiscard]] std::size_t objects() const;  // all objects that exist, of every kind
  // The violations since the last call. end() also demands that no object is left.
  [[nodiscard]] std::vector<std::string> take_violations();
  [[nodiscard]] std::vector<std::string> end();
};

}  // namespace hawser::test::fake
