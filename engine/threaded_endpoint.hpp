// SPDX-License-Identifier: Apache-2.0
// An endpoint whose progress an engine thread makes.
//
// Operations go to the engine thread through a ring. Their completions come back through a queue
// with one consumer. Neither ever waits. All other calls (connect, probe, cancel, statistics) go
// through the same ring, and wait for the engine thread's answer. The engine thread runs such a
// call after every operation that its caller posted before. It takes a turn of the engine.
//
// In a child of fork, which has no engine thread, the copy is closed: its calls are refused, and
// its destructor touches nothing.
#pragma once

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/doorbell.hpp"
#include "engine/endpoint_body.hpp"
#include "engine/endpoint_registry.hpp"
#include "engine/engine_thread.hpp"
#include "engine/idle_clock.hpp"
#include "engine/injected_sends.hpp"
#include "engine/operation_table.hpp"
#include "engine/own_process.hpp"
#include "engine/piece_lists.hpp"
#include "engine/send_admission.hpp"
#include "engine/waiting_sends.hpp"
#include "engine/word_ring.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {

class ThreadedEndpoint final : public Endpoint, private FaultTarget, private Served {
 public:
  // Throws hawser::Error. `registry` and `thread` outlive the endpoint.
  ThreadedEndpoint(const EngineSettings& settings, const EndpointConfig& config,
                   EndpointRegistry& registry, EngineThread& thread);
  ~ThreadedEndpoint() override;

  [[nodiscard]] const Address& address() const noexcept override { return body_->address(); }
  [[nodiscard]] Status connect(std::span<const std::byte> address, PeerId& peer) override;
  [[nodiscard]] Status send(const SendRequest& request, OperationId& operation) override;
  [[nodiscard]] Status inject(const SendRequest& request) override;
  [[nodiscard]] Status receive(const ReceiveRequest& request, OperationId& operation) override;
  [[nodiscard]] Status probe(const ProbeRequest& request, Envelope& envelope) override;
  [[nodiscard]] Status claim(const ProbeRequest& request, Envelope& envelope,
                             MessageId& message) override;
  [[nodiscard]] Status receive_claimed(MessageId message, const ClaimedRequest& request,
                                       OperationId& operation) override;
  [[nodiscard]] Status put_back(MessageId message) override;
  [[nodiscard]] Status expose(const ExposeRequest& request, RegionId& region) override;
  [[nodiscard]] Status region_key(RegionId region, RegionKey& key) const override;
  [[nodiscard]] Status region_stats(RegionId region, RegionStats& stats) const override;
  [[nodiscard]] Status withdraw(RegionId region, std::uint64_t user_data,
                                OperationId& operation) override;
  [[nodiscard]] Status write(const WriteRequest& request, OperationId& operation) override;
  [[nodiscard]] Status read(const ReadRequest& request, OperationId& operation) override;
  [[nodiscard]] Status atomic(const AtomicRequest& request, OperationId& operation) override;
  [[nodiscard]] Status flush_channel(const FlushRequest& request, OperationId& operation) override;
  [[nodiscard]] Status cancel(OperationId operation) override;
  void flush() override {}  // engine threads send by themselves
  std::size_t poll(std::span<Completion> completions) override;
  std::size_t wait(std::span<Completion> completions, std::uint64_t timeout_ns) override;
  [[nodiscard]] int fd() const noexcept override;
  [[nodiscard]] Status disconnect(PeerId peer) override;
  void close() override;
  [[nodiscard]] EndpointStats stats() const override;
  [[nodiscard]] std::vector<NicStats> nic_stats() const override;
  [[nodiscard]] Status peer_stats(PeerId peer, PeerStats& stats) const override;
  [[nodiscard]] std::vector<Verdict> verdicts() const override;
  std::size_t poll_events(std::span<Event> events) override;
  [[nodiscard]] Status register_memory(const void* data, std::uint64_t bytes,
                                       RegistrationId& registration, std::string* why) override;
  [[nodiscard]] Status register_dmabuf(const DmabufRange& range, RegistrationId& registration,
                                       std::string* why) override;
  [[nodiscard]] Status deregister_memory(RegistrationId registration, std::string* why) override;
  void release_memory(RegistrationId registration) override;

 private:
  static constexpr std::size_t kBatch = 64;
  // Notices on their way to the program. Others wait in the protocol, and then peers repeat theirs.
  static constexpr std::size_t kNotices = 1024;
  // A command is the index of an operation, marked by its lowest bit, or the address of a Call.
  static constexpr std::uint64_t kOperationMark = 1;
  static constexpr PeerId kNobody{0xfffffffeu};  // neither a peer nor kAnyPeer

  // A call that an application thread waits for. It lies on that thread's stack.
  struct Call {
    void (*run)(void* context, proto::Time now) = nullptr;
    void* context = nullptr;
    bool done = false;  // under calls_mutex_
  };

  // Called by application threads.
  template <class Function>
  void on_engine_thread(Function function) const;
  [[nodiscard]] auto there() const;
  void carry(Call& call) const;
  // Takes a slot for an operation to a peer, and its place in the limit of that peer.
  [[nodiscard]] Status admit(PeerId peer, OperationSlot*& slot, OperationId& operation);
  [[nodiscard]] Status admit(const SendRequest& request, OperationSlot*& slot);
  template <class Request>
  [[nodiscard]] Status post_one_sided(const Request& request, OperationId& operation);
  [[nodiscard]] Status post(OperationId operation);
  [[nodiscard]] Status post(proto::ReceiveRequest request, std::span<const ReceivePiece> pieces,
                            OperationId& operation);
  // True for the caller if the endpoint is closing, or belongs to another process.
  [[nodiscard]] bool is_closed() const {
    return closing_.load(std::memory_order_relaxed) || !body_.is_here();
  }
  [[nodiscard]] bool is_known(PeerId peer) const {
    return admission_.in_range(peer) &&
           known_[peer_place(peer)].load(std::memory_order_relaxed) == peer;
  }
  std::size_t take_completions(std::span<Completion> completions);
  void arm_descriptor();
  // Arms the descriptor when a wait ends, even by cancellation of the waiting thread.
  class DescriptorArming {
   public:
    explicit DescriptorArming(ThreadedEndpoint& endpoint) : endpoint_(endpoint) {}
    ~DescriptorArming() { endpoint_.arm_descriptor(); }
    DescriptorArming(const DescriptorArming&) = delete;
    DescriptorArming& operator=(const DescriptorArming&) = delete;

   private:
    ThreadedEndpoint& endpoint_;
  };
  [[nodiscard]] std::string complaint_about_fault(std::size_t nic,
                                                  std::string_view spec) const override {
    return body_->complaint_about_fault(nic, spec);
  }
  void inject_fault(std::size_t nic, std::string_view spec) override;

  // Called by the engine thread.
  proto::TurnResult serve(proto::Time now) override;
  [[nodiscard]] bool has_commands() const override;
  [[nodiscard]] bool arm() override { return body_->arm(); }
  [[nodiscard]] bool execute_commands(proto::Time now);
  void execute(std::uint32_t index, proto::Time now);
  [[nodiscard]] bool try_send(std::uint32_t index, proto::Time now);
  [[nodiscard]] bool must_wait(const OperationSlot& slot) const;
  [[nodiscard]] Status submit(std::uint32_t index, const OperationSlot& slot, proto::Time now);
  [[nodiscard]] Status cancel(OperationId operation, proto::Time now);
  [[nodiscard]] bool deliver();
  [[nodiscard]] bool deliver_notices();
  void deliver(const Completion& completion);
  void refuse(OperationSlot& slot, Status status);
  void set_known(PeerId peer, bool known);

  EndpointRegistry& registry_;
  EngineThread& thread_;
  OfProcess<EndpointBody> body_;  // belongs to the engine thread once it has been added there

  OperationTable operations_;
  InjectedSends injected_;
  PieceLists lists_;
  SendAdmission admission_;
  mutable WordRing commands_;
  std::unique_ptr<std::atomic<PeerId>[]> known_;  // the peer at each place

  // Used only by the engine thread.
  WaitingSends waiting_;
  WaitingSends waiting_one_sided_;  // no message waits for these
  bool refused_ = false;            // since the last delivery
  bool closed_told_ = false;

  boost::lockfree::spsc_queue<Completion> completions_;
  std::uint64_t notices_delivered_ = 0;  // the engine thread's
  std::atomic<std::uint64_t> notices_taken_{0};
  std::atomic<bool> notices_wait_{false};  // in the protocol, for a place in `completions_`
  IdleClock idle_;                         // of the thread that waits
  mutable Doorbell consumer_bell_;
  mutable std::atomic<bool> descriptor_used_{false};
  std::mutex events_mutex_;  // serialises threads that poll events
  boost::lockfree::spsc_queue<Event> events_;

  std::atomic<bool> closing_{false};
  mutable std::mutex calls_mutex_;
  // In a child of fork the parent's waiting threads seem to wait still, and the destructor of the
  // copy would wait for them.
  mutable OfProcess<std::condition_variable> calls_changed_;
  bool closed_ = false;  // under calls_mutex_
};

}  // namespace hawser::engine
