// SPDX-License-Identifier: Apache-2.0
// A test double of libibverbs: RDMA devices and the fabric between them, inside the test's process.
//
// A program that links fake_verbs instead of libibverbs runs the verbs driver as it is, and finds
// here what devices do and what the test says: UD queue pairs with the states and rules of the
// InfiniBand specification, on RoCE and InfiniBand ports; and every failure, by script. What a
// device must never see (memory that isn't registered, buffers that change while they are its own,
// objects freed in the wrong order) is written down as a violation, and so fails the test.
//
// A send is carried out when it is posted, or when the test lets it go (hold). All calls take one
// lock, so any thread may use anything, as libibverbs allows.
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
  std::uint64_t no_queue_pair = 0;  // nobody there, or it isn't ready to receive
};

struct HandleInfo {
  ibv_ah_attr attributes{};
  std::uint64_t sent = 0;  // datagrams that went by it
};

// One a test; it begins without devices, and when it ends no object may be left.
class Fabric {
 public:
  Fabric();
  ~Fabric();  // prints what end() still tells, and aborts then
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  void add(DeviceSettings settings);
  void change(const std::string& device, const std::function<void(DeviceSettings&)>& how);
  // The device is removed, as by the unloading of its driver: it is listed no more, carries out
  // nothing that it has, and refuses everything but to let go of its objects. Whether it tells: a
  // driver does by DEVICE_FATAL, and then has no events any more, or waits in silence, its ports
  // down, until all have closed it. It may be added again.
  enum class Removal : std::uint8_t { told, silent };
  void remove(const std::string& device, Removal removal = Removal::told);
  [[nodiscard]] std::size_t removed_in_use() const;  // removed devices that somebody has open
  // Changes the port's table of GIDs and says so.
  void set_gids(const std::string& device, std::uint8_t port, std::vector<GidRow> gids);

  // Calls of `call`, after `skip` of them, fail for `times` times. As in errno.h.
  void fail(Call call, int error, std::uint64_t skip = 0, std::uint64_t times = 1);
  void fail_setup(std::uint64_t n, int error);
  void refuse_after(Side side, std::uint64_t requests, int error);
  void complete_with(Side side, ibv_wc_status status, std::uint64_t skip = 0);
  void lie(Side side, std::function<void(ibv_wc&)> how, std::uint64_t skip = 0);
  // A completion that stands for nothing, as if it were of this queue pair.
  void invent(std::uint32_t queue_pair, Side side, const ibv_wc& completion);
  [[nodiscard]] std::uint64_t calls(Call call) const;
  [[nodiscard]] std::uint64_t setup_calls() const;

  // Sets the port's state and says so.
  void set_port(const std::string& device, std::uint8_t port, ibv_port_state state);
  // An event of the device or of one of its ports, or of a queue pair or a completion queue.
  void raise(const std::string& device, ibv_event_type type, std::uint8_t port = 1,
             std::uint64_t times = 1);
  void raise_of_pair(std::uint32_t queue_pair, ibv_event_type type);
  void raise_of_completions(std::uint32_t queue_pair, Side side);  // IBV_EVENT_CQ_ERR
  // No event any more: reading them fails with EIO, as of a device that was removed.
  void break_events(const std::string& device);
  // Events that nobody has read or acknowledged yet.
  [[nodiscard]] std::size_t events_waiting(const std::string& device) const;

  // While held, sends stay at the device. let_go carries out so many of each queue pair.
  void hold(bool held);
  void let_go(std::uint64_t sends);
  // Whether the kernel copies pinned pages for a child at once.
  void copy_on_fork(bool copied);
  // Registrations that exist, of all devices.
  [[nodiscard]] std::size_t registrations() const;
  // Congestion is met: what is ECN-capable arrives marked.
  void mark(bool marked);
  // ibv_create_ah waits until it may go on.
  void block_handles(bool blocked);
  void block_handles_to(std::vector<Gid> gids);  // only of these; none: of nobody
  [[nodiscard]] std::size_t handles_blocked() const;

  [[nodiscard]] PortCounters counters(const std::string& device, std::uint8_t port = 1) const;
  // Of the device's address handles that exist, in the order of their making.
  [[nodiscard]] std::vector<HandleInfo> handles(const std::string& device) const;
  // The numbers of the device's queue pairs, in the order of their making.
  [[nodiscard]] std::vector<std::uint32_t> pairs(const std::string& device) const;
  [[nodiscard]] ibv_qp_state state_of(std::uint32_t queue_pair) const;
  [[nodiscard]] std::size_t objects() const;  // that exist, of all kinds
  // What was done wrong since the last time; and at the end, when no object may be left.
  [[nodiscard]] std::vector<std::string> take_violations();
  [[nodiscard]] std::vector<std::string> end();
};

}  // namespace hawser::test::fake
