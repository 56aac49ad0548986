// SPDX-License-Identifier: Apache-2.0
// The protocol of one endpoint: operations in, packets through the NICs it was given, completions
// out.
//
// Sans-IO: it never reads a clock, blocks or, after construction, allocates. One thread uses it.
// Its owner calls turn(now) over and over, at the latest at the moment that the last turn asked
// for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hawser/stats.hpp"
#include "hawser/status.hpp"
#include "hawser/trace.hpp"
#include "hawser/tunables.hpp"
#include "hawser/types.hpp"
#include "proto/base/time.hpp"
#include "proto/nic.hpp"

namespace hawser::proto {

struct EndpointConfig {
  Tunables tunables{};
  std::uint64_t endpoint_id = 0;            // not 0
  std::uint64_t epoch = 0;                  // grows with each restart of this endpoint
  std::uint64_t seed = 0;                   // all randomness of the endpoint comes from it
  std::span<const std::byte> job_secret{};  // copied; at most 64 bytes
  TraceHook trace = nullptr;                // called in the middle of calls and turns
  void* trace_context = nullptr;
};

// The caller names operations: low 32 bits an index below max_operations that no live operation
// has, high 32 bits anything. The name comes back in the completion, after which the index is free.
struct SendRequest {
  OperationId operation = kNoOperation;
  PeerId peer = kAnyPeer;
  std::uint16_t context = 0;
  std::uint64_t tag = 0;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  SendOptions options{};
  bool readable = true;  // false: its bytes are a device's, and only NICs may read them
};

struct ReceiveRequest {
  OperationId operation = kNoOperation;
  PeerId peer = kAnyPeer;
  std::uint16_t context = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  ReceiveOptions options{};
  MessageId claimed = kNoMessage;  // receives this one; peer, context, tag and mask mean nothing
};

// What a turn reports.
struct TurnResult {
  bool progressed = false;  // something was received, sent or completed: another turn pays at once
  Time wake_at = kNever;    // without packets or calls, nothing will be due before this moment
  bool warns = false;       // of something that should be known: last_warning() tells
};

class Endpoint {
 public:
  static constexpr std::size_t kMaxNics = 16;
  static constexpr std::size_t kMaxAddressBytes = 2048;

  // `nics` (1 to kMaxNics) and `pool` outlive the endpoint. All memory is taken here.
  Endpoint(const EndpointConfig& config, std::span<Nic* const> nics, PacketPool& pool);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Writes the address blob that `connect` of another endpoint takes; returns its length.
  std::size_t write_address(std::span<std::byte, kMaxAddressBytes> out) const;

  // As the calls of hawser::Endpoint, with the same ownership.
  [[nodiscard]] Status connect(Time now, std::span<const std::byte> address, PeerId& peer);
  [[nodiscard]] Status send(Time now, const SendRequest& request);
  [[nodiscard]] Status receive(Time now, const ReceiveRequest& request);
  [[nodiscard]] Status probe(PeerId peer, std::uint16_t context, std::uint64_t tag,
                             std::uint64_t mask, Envelope& envelope) const;
  [[nodiscard]] Status claim(PeerId peer, std::uint16_t context, std::uint64_t tag,
                             std::uint64_t mask, Envelope& envelope, MessageId& message);
  [[nodiscard]] Status put_back(Time now, MessageId message);
  [[nodiscard]] Status cancel(Time now, OperationId operation);
  [[nodiscard]] Status disconnect(Time now, PeerId peer);

  // Starts closing: lingers, then tells the peers. `closed` once all is settled or 1.5
  // close_timeout is over; then every operation has its completion, and turns only take back what
  // NICs let go of. `is_through` when that is all: no turn is of use any more.
  void close(Time now);
  [[nodiscard]] bool closed() const;
  [[nodiscard]] bool is_through() const;
  // Whether somebody has that name now.
  [[nodiscard]] bool knows(PeerId peer) const;

  // Between turns: hands to the NICs what may be sent, and looks at nothing else. The next turn's
  // wake-up is that of the last one, or now.
  void transmit(Time now);

  // One pass, in two halves: begin_turn reaps, receives from every NIC and expires timers;
  // finish_turn acknowledges and sends. Each has the time at which it starts, as what happens in
  // the first half (copies, being descheduled) is no delay of the fabric. Always one after the
  // other; turn is both.
  void begin_turn(Time now);
  TurnResult finish_turn(Time now);
  TurnResult turn(Time now) {
    begin_turn(now);
    return finish_turn(now);
  }

  // The newest operation_stalled.
  [[nodiscard]] const Event& last_warning() const;

  std::size_t poll_completions(std::span<Completion> completions);
  std::size_t poll_events(std::span<Event> events);

  [[nodiscard]] EndpointStats stats() const;
  // Those that stand and were told; returns how many. There are never more than 64.
  std::size_t verdicts(std::span<Verdict> verdicts) const;
  // `name` is left empty. One per NIC.
  void nic_stats(std::span<NicStats> nics) const;
  // May allocate; for people.
  [[nodiscard]] Status peer_stats(Time now, PeerId peer, PeerStats& stats) const;

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace hawser::proto
