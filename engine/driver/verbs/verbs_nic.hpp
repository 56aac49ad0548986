// SPDX-License-Identifier: Apache-2.0
// The verbs NIC: one port of an RDMA device, with a data and a control UD queue pair on it.
//
// Both pairs share one completion queue for sends, and each has its own for receives. The helper
// does what may block (repairs), and handles events of the device. The resolver makes address
// handles.
//
// Failures are: the port is down, or has another GID or LID; a queue pair or completion queue has
// failed; the device is removed. The NIC then reports `down`, and does not touch the device any
// more: packets sent are lost. The helper at once makes the device release all sends, which come
// out of reap. When port and device allow it, the helper makes the damaged parts anew
// (verbs_repair.hpp), and the NIC reports `up`, maybe with another address. A NIC that fails
// repeatedly stays down for a while longer (verbs_damping.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/driver/verbs/verbs.hpp"
#include "engine/driver/verbs/verbs_destinations.hpp"
#include "engine/driver/verbs/verbs_helper.hpp"
#include "engine/driver/verbs/verbs_queue.hpp"
#include "engine/driver/verbs/verbs_regions.hpp"
#include "engine/driver/verbs/verbs_remotes.hpp"
#include "engine/driver/verbs/verbs_repair.hpp"
#include "engine/driver/verbs/verbs_resolver.hpp"

namespace hawser::engine {

// Counters per queue, never reset.
struct VerbsQueueStats {
  VerbsSendStats send;
  VerbsReceiveStats receive;
};

class VerbsNic final : public proto::Nic {
 public:
  // `pool` outlives the NIC. Throws Error: see open_verbs_nic.
  VerbsNic(const VerbsNicConfig& config, proto::PacketPool& pool);
  ~VerbsNic() override;
  VerbsNic(const VerbsNic&) = delete;
  VerbsNic& operator=(const VerbsNic&) = delete;

  [[nodiscard]] VerbsQueueStats stats(proto::Queue queue) const;

  [[nodiscard]] std::string_view name() const override { return port_.name; }
  [[nodiscard]] const proto::NicCaps& caps() const override { return caps_; }
  [[nodiscard]] const proto::NicAddress& address() const override { return address_; }
  [[nodiscard]] bool can_address(const proto::NicAddress& remote) const override;
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override;
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  void flush() override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override;
  // A UD queue pair silently drops datagrams that it has no buffer for. This counts how often the
  // ring had no buffer left, whether that lost one datagram, many or none.
  [[nodiscard]] std::uint64_t overruns() const override;
  [[nodiscard]] std::size_t descriptors(std::span<int> fds) const override;
  [[nodiscard]] bool arm() override;
  // Blocks while the kernel pins the pages.
  [[nodiscard]] Status register_memory(const void* data, std::size_t bytes) override;
  void deregister_memory(const void* data, std::size_t bytes) override;
  [[nodiscard]] bool pins_memory() const override { return true; }
  [[nodiscard]] Status pin(const proto::MemoryRange& range, const proto::Mapping* mapping,
                           proto::PinnedMemory*& pinned) override;
  void unpin(proto::PinnedMemory* pinned) override;
  [[nodiscard]] bool use(proto::PinnedMemory& pinned) override;
  void forget(proto::PinnedMemory& pinned) override;
  [[nodiscard]] bool is_reading(const proto::PinnedMemory& pinned) const override;
  [[nodiscard]] proto::PayloadBytes payload_bytes() const override;

 private:
  [[nodiscard]] VerbsQueue& queue(proto::Queue which) {
    return which == proto::Queue::data ? data_ : control_;
  }
  [[nodiscard]] SendPositions tails() const;
  [[nodiscard]] SendPositions done() const;
  void take_send_completions();
  // Stops the NIC until it is repaired.
  void stop();
  void give_up();
  // Resumes after a repair, at the NIC's present address. Returns false if the device refuses to
  // work.
  [[nodiscard]] bool restart();
  void adopt_address();

  proto::PacketPool& pool_;
  VerbsPort port_;
  VerbsAddress local_;
  VerbsRegions regions_;
  VerbsDestinations destinations_;
  VerbsResolver resolver_;
  VerbsRemotes remotes_;
  VerbsCompletions send_completions_;
  VerbsQueue data_;
  VerbsQueue control_;
  proto::NicAddress address_;
  proto::NicCaps caps_;
  bool up_ = true;
  VerbsRepair repair_;
  VerbsHelper helper_;  // destroyed first, because it uses all the others
};

}  // namespace hawser::engine
