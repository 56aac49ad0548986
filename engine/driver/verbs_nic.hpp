// The verbs NIC: one port of an RDMA device, with a data and a control UD queue pair on it.
//
// Sends complete on one queue for both pairs, receives on one each. What may block (address
// handles, repairs) and what comes from the device by itself (port events) is the helper's.
//
// A failure. A queue pair that fails (it sends while its port is down, the device refuses) takes
// nothing any more: the NIC says `down`, what is sent is lost, and once the port is up the helper
// resets both pairs. That ends all sends that the device still had; numbers and QKey stay, so the
// address does, and the NIC says `up`. Meanwhile nothing is posted on either pair. A completion
// queue that has overrun can't be brought back: the NIC stays down, all its sends having ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/driver/verbs.hpp"
#include "engine/driver/verbs_destinations.hpp"
#include "engine/driver/verbs_helper.hpp"
#include "engine/driver/verbs_queue.hpp"
#include "engine/driver/verbs_regions.hpp"
#include "engine/driver/verbs_remotes.hpp"

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
  [[nodiscard]] Status open_remote(const proto::NicAddress& remote,
                                   proto::RemoteHandle& handle) override;
  void close_remote(proto::RemoteHandle handle) override;
  [[nodiscard]] std::size_t tx_burst(std::span<const proto::TxPacket> packets) override;
  [[nodiscard]] std::size_t reap(std::span<std::uint64_t> cookies) override;
  [[nodiscard]] std::size_t rx_burst(proto::Queue queue,
                                     std::span<proto::RxPacket> packets) override;
  [[nodiscard]] std::size_t events(std::span<proto::NicEvent> events) override;
  // A UD queue pair drops what it has no buffer for and tells nobody: counted are the times that
  // the ring was found without a buffer, whether one datagram was lost then, or many, or (just
  // filled) none.
  [[nodiscard]] std::uint64_t overruns() const override;
  [[nodiscard]] std::size_t descriptors(std::span<int> fds) const override;
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
  enum class Health : std::uint8_t { up, down, repairing, dead };

  [[nodiscard]] VerbsQueue& queue(proto::Queue which) {
    return which == proto::Queue::data ? data_ : control_;
  }
  [[nodiscard]] SendPositions tails() const;
  [[nodiscard]] SendPositions done() const;
  // False if the queue refuses to say.
  bool take_send_completions();
  // Nothing is posted any more until the NIC is repaired.
  void stop();
  // After a repair. False if a completion queue is of no use any more.
  [[nodiscard]] bool restart();
  [[nodiscard]] bool reset();

  proto::PacketPool& pool_;
  VerbsPort port_;
  VerbsAddress local_;
  VerbsRegions regions_;
  VerbsDestinations destinations_;
  VerbsRemotes remotes_;
  VerbsCompletions send_completions_;
  VerbsQueue data_;
  VerbsQueue control_;
  proto::NicAddress address_;
  proto::NicCaps caps_;
  Health health_ = Health::up;
  VerbsHelper helper_;  // the first to go: it uses all the others
};

}  // namespace hawser::engine
