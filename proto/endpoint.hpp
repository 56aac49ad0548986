// SPDX-License-Identifier: Apache-2.0
// The protocol of one endpoint: operations in, packets through the given NICs, completions out.
//
// It does no I/O of its own. It never reads a clock, never blocks, and doesn't allocate after
// construction. One thread uses it. Its owner calls turn(now) over and over, no later than the
// moment that the last turn asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hawser/events.hpp"
#include "hawser/one_sided.hpp"
#include "hawser/stats.hpp"
#include "hawser/status.hpp"
#include "hawser/trace.hpp"
#include "hawser/types.hpp"
#include "proto/base/mechanisms.hpp"
#include "proto/base/time.hpp"
#include "proto/message/requests.hpp"
#include "proto/nic.hpp"
#include "proto/region/placement.hpp"

namespace hawser::proto {

struct EndpointConfig {
  AllTunables tunables{};
  std::uint64_t endpoint_id = 0;            // not 0
  std::uint64_t epoch = 0;                  // grows with each restart of this endpoint
  std::uint64_t seed = 0;                   // all randomness of the endpoint comes from it
  std::span<const std::byte> job_secret{};  // copied; at most 64 bytes
  TraceHook trace = nullptr;                // called in the middle of calls and turns
  void* trace_context = nullptr;
};

// The report of a turn.
struct TurnResult {
  bool progressed = false;  // something was received, sent or completed: turn again at once
  Time wake_at = kNever;    // without packets or calls, nothing will be due before this moment
  bool warns = false;       // last_warning() has something that should be known
};

// Whether the arguments of a one-sided operation can be right, whatever the state of the endpoint.
[[nodiscard]] bool can_be_executed(const WriteRequest& request);
[[nodiscard]] bool can_be_executed(const ReadRequest& request);
[[nodiscard]] bool can_be_executed(const AtomicRequest& request);
[[nodiscard]] inline bool can_be_executed(const FlushRequest&) { return true; }

struct Owners;

class Endpoint {
 public:
  static constexpr std::size_t kMaxNics = 16;
  static constexpr std::size_t kMaxAddressBytes = 2048;

  // `nics` (1 to kMaxNics) and `pool` outlive the endpoint. The constructor allocates all memory.
  Endpoint(const EndpointConfig& config, std::span<Nic* const> nics, PacketPool& pool);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Writes the address blob that `connect` of another endpoint takes; returns its length.
  std::size_t write_address(std::span<std::byte, kMaxAddressBytes> out) const;

  // These act like the calls of hawser::Endpoint, with the same ownership.
  [[nodiscard]] Status connect(Time now, std::span<const std::byte> address, PeerId& peer);
  [[nodiscard]] Status send(Time now, const SendRequest& request);
  [[nodiscard]] Status receive(Time now, const ReceiveRequest& request);
  [[nodiscard]] Status probe(PeerId peer, std::uint16_t channel, std::uint64_t tag,
                             std::uint64_t mask, Envelope& envelope) const;
  [[nodiscard]] Status claim(PeerId peer, std::uint16_t channel, std::uint64_t tag,
                             std::uint64_t mask, Envelope& envelope, MessageId& message);
  [[nodiscard]] Status put_back(Time now, MessageId message);
  [[nodiscard]] Status cancel(Time now, OperationId operation);
  [[nodiscard]] Status disconnect(Time now, PeerId peer);

  // One-sided operations (docs/internals/one_sided.md). The memory stays the caller's, and stays
  // exposed until the withdrawal completes. `placement` outlives that.
  [[nodiscard]] Status expose(const ExposeRequest& request, Placement& placement, RegionId& region);
  [[nodiscard]] Status region_key(RegionId region, RegionKey& key) const;
  [[nodiscard]] Status region_stats(RegionId region, RegionStats& stats) const;
  [[nodiscard]] Status withdraw(Time now, RegionId region, OperationId operation,
                                std::uint64_t user_data);
  // These answer `again` while the session is not READY. `readable`: as in SendRequest.
  [[nodiscard]] Status write(Time now, OperationId operation, const WriteRequest& request,
                             bool readable = true);
  [[nodiscard]] Status read(Time now, OperationId operation, const ReadRequest& request);
  [[nodiscard]] Status atomic(Time now, OperationId operation, const AtomicRequest& request);
  // Completes when all that was posted before on the channel has ended: with predecessor_failed if
  // one of these failed since the last flush.
  [[nodiscard]] Status flush_channel(Time now, OperationId operation, const FlushRequest& request);
  // Completions of kind `notice`.
  [[nodiscard]] bool has_notices() const;
  std::size_t poll_notices(std::span<Completion> notices);

  // Starts closing: lingers, then tells the peers. After 1.5 close_timeout at most, every operation
  // has ended; time during which this end was away does not count. `closed` is true once no NIC
  // holds a send any more, or after 2 close_timeout. Completions of sends that NICs still hold may
  // follow. `is_through` is true after these: no further turn is of use.
  void close(Time now);
  [[nodiscard]] bool closed() const;
  [[nodiscard]] bool is_through() const;
  // Whether a peer has that name now.
  [[nodiscard]] bool knows(PeerId peer) const;

  // Between turns: hands the NICs what may be sent, and does nothing else. Call a turn at once
  // afterwards, as this may have armed timers.
  void transmit(Time now);

  // One pass, in two halves. begin_turn reaps and receives from every NIC; if nothing is in flight,
  // it may first transmit. finish_turn expires timers, acknowledges and sends. Each gets the time
  // at which it starts: time spent in the first half (copies, being descheduled) is no delay of the
  // fabric. The two alternate; turn calls both.
  void begin_turn(Time now);
  TurnResult finish_turn(Time now);
  TurnResult turn(Time now) {
    begin_turn(now);
    return finish_turn(now);
  }

  // The newest event that warned: operation_stalled or peer_refused.
  [[nodiscard]] const Event& last_warning() const;

  std::size_t poll_completions(std::span<Completion> completions);
  std::size_t poll_events(std::span<Event> events);

  [[nodiscard]] EndpointStats stats() const;
  // The standing verdicts that events have told; returns how many, never more than 64.
  std::size_t verdicts(std::span<Verdict> verdicts) const;
  // One entry per NIC. `name` is left empty.
  void nic_stats(std::span<NicStats> nics) const;
  // For people; may allocate.
  [[nodiscard]] Status peer_stats(Time now, PeerId peer, PeerStats& stats) const;

 private:
  std::unique_ptr<Owners> owners_;  // of all other state
  // `send` was called since the last turn, and the last call's message fits one packet.
  bool called_to_send_ = false;
  std::uint32_t last_sent_to_ = ~std::uint32_t{0};  // the place of the last send's peer
};

}  // namespace hawser::proto
