// SPDX-License-Identifier: Apache-2.0
// An endpoint with inline progress: the one thread that uses it makes the progress in poll, wait
// and close.
//
// Calls go straight to the protocol. Each call reads the clock, because the last poll may be long
// ago. A deadline counted from that poll could be over before the operation had begun.
//
// In a child of fork the copy is closed: its calls are refused, and its destructor touches nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/callers_loop.hpp"
#include "engine/doorbell.hpp"
#include "engine/endpoint_body.hpp"
#include "engine/endpoint_registry.hpp"
#include "engine/idle_clock.hpp"
#include "engine/injected_sends.hpp"
#include "engine/operation_names.hpp"
#include "engine/own_process.hpp"
#include "engine/piece_lists.hpp"
#include "engine/poll_set.hpp"
#include "hawser/engine.hpp"
#include "proto/base/ring.hpp"

namespace hawser::engine {

class InlineEndpoint final : public Endpoint, private FaultTarget {
 public:
  // Throws hawser::Error. `registry` outlives the endpoint.
  InlineEndpoint(const EngineSettings& settings, const EndpointConfig& config,
                 EndpointRegistry& registry);
  ~InlineEndpoint() override;

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
  void flush() override;
  std::size_t poll(std::span<Completion> completions) override;
  std::size_t wait(std::span<Completion> completions, std::uint64_t timeout_ns) override;
  [[nodiscard]] int fd() const noexcept override { return loop_.descriptor(); }
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
  // True for the caller if the endpoint has been closed, or belongs to another process.
  [[nodiscard]] bool is_closed() const { return closing_ || !body_.is_here(); }
  // Takes a name for the operation and submits it to the protocol.
  template <class Submit>
  [[nodiscard]] Status post(OperationId& name, Submit submit);
  // The same for a one-sided operation, by submit(now, name).
  template <class Request, class Submit>
  [[nodiscard]] Status post_one_sided(const Request& request, OperationId& operation,
                                      Submit submit);
  [[nodiscard]] Status receive(proto::ReceiveRequest request, std::span<const ReceivePiece> pieces,
                               OperationId& operation);
  [[nodiscard]] std::string complaint_about_fault(std::size_t nic,
                                                  std::string_view spec) const override {
    return body_->complaint_about_fault(nic, spec);
  }
  void inject_fault(std::size_t nic, std::string_view spec) override;

  // Hands out completions, without those of injected sends that ended well. These give back their
  // names even if there is no room for completions.
  std::size_t take_completions(std::span<Completion> completions);
  void finish_untold();
  std::size_t poll_completions(std::span<Completion> room);
  [[nodiscard]] bool is_untold(const Completion& completion) const;
  // Frees the operation's name with its last completion.
  void finish(const Completion& completion);
  // Runs one turn. Once the protocol has closed, the NICs no longer wake anybody.
  proto::TurnResult progress(proto::Time now);
  // Runs one turn and hands out the completions that are there.
  std::size_t turn(proto::Time now, std::span<Completion> completions, proto::TurnResult& result);
  // Called if nothing happened at `now`: spins, yields or sleeps, until `until` at the latest.
  void pause(proto::Time now, proto::Time until);

  EndpointRegistry& registry_;
  OfProcess<EndpointBody> body_;
  bool closing_ = false;
  bool ignores_nics_ = false;
  OperationNames names_;
  InjectedSends injected_;
  PieceLists lists_;
  proto::Ring<Completion> waiting_;  // polled without room; names are finished when handed out
  IdleClock idle_;
  Doorbell bell_;     // rung by other threads that post faults
  PollSet sources_;   // the NICs and the bell
  CallersLoop loop_;  // what fd() returns: the sources and the protocol's next deadline
};

}  // namespace hawser::engine
