// SPDX-License-Identifier: Apache-2.0
// The verbs NIC: one port of an RDMA device, with a data and a control UD queue pair on it.
//
// Sends complete on one queue for both pairs, receives on one each. What may block (repairs) and
// what comes from the device by itself (events) is the helper's, address handles are the
// resolver's.
//
// A failure, of whatever kind: the port is down, or has another GID or LID; a queue pair or a
// completion queue is of no use any more; the device is removed. The NIC says `down`, and from then
// on touches nothing of the device's: what is sent is lost. The helper has the device let go of all
// sends, at once, and they come out of reap. Then, as soon as port and device allow it, it makes
// anew what is damaged (verbs_repair.hpp), and the NIC says `up`, maybe with another address. If it
// fails again and again it stays down for a while longer (verbs_damping.hpp).
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

// Per queue; running freely.
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
  // A UD queue pair drops what it has no buffer for and tells nobody: counted are the times that
  // the ring was found without a buffer, whether one datagram was lost then, or many, or (just
  // filled) none.
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
  // Until the NIC is repaired.
  void stop();
  void give_up();
  // After a repair: where the NIC is now. False if the device refuses to work.
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
  VerbsHelper helper_;  // the first to go: it uses all the others
};

}  // namespace hawser::engine
