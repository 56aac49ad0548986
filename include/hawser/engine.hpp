// SPDX-License-Identifier: Apache-2.0
// The public API: an Engine opens NICs and runs Endpoints; an Endpoint sends and receives messages.
//
//   hawser::Engine engine({.nics = {"udp:127.0.0.1", "udp:127.0.0.2"}});
//   auto endpoint = engine.create_endpoint({});
//   ... exchange endpoint->address() with the others ...
//   endpoint->connect(their_address, peer);
//   endpoint->send(peer, context, tag, data, bytes, {}, operation);
//   while (endpoint->wait(completions, timeout_ns) == 0) ...
//
// Threads. With `threads = 0` progress is inline: it is made by poll, wait and the destructor of
// the one thread that uses the endpoint, and no other thread may call into it. With `threads >= 1`
// engine threads make the progress; all calls on messages may then come from any thread, poll and
// wait from one thread at a time.
//
// Cancellation (pthread_cancel). `wait` ends a thread that is cancelled, where it blocks: it
// unwinds with no completion taken, and others go on with the endpoint. No other call is a
// cancellation point, constructors and destructors included. The cancellation type must be
// deferred, which it is unless the program changes it.
//
// Errors. Constructors and create_endpoint throw hawser::Error, whose text says what is wrong and
// what to do. Nothing throws after that: calls answer with a Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/stats.hpp"
#include "hawser/status.hpp"
#include "hawser/trace.hpp"
#include "hawser/tunables.hpp"
#include "hawser/types.hpp"

namespace hawser {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What is wrong with `spec`, as EngineConfig::faults and Engine::inject_fault take it
// (docs/faults.md): a sentence that names the word; "" if nothing is. Opens nothing, so that a word
// that this NIC can't do ("corrupt" where packets have no checksum of ours) is right here, and
// refused there.
[[nodiscard]] std::string complaint_about_faults(std::string_view spec);

struct EngineConfig {
  // One string a NIC: "udp:ADDRESS" (IPv4 or IPv6, of this host), "verbs:DEVICE[:PORT][@GID_INDEX]"
  // (a port of an RDMA device), or "memory:FABRIC" (all engines of this process that name the same
  // FABRIC reach each other). An entry may also be a list that chooses NICs of this host, as in
  // "if:eth*,!docker*" (choose_nics of hawser/nics.hpp). At least 1, at most 16; no address and no
  // port twice.
  std::vector<std::string> nics{};
  // Engine threads; 0 = inline progress.
  unsigned threads = 0;
  Tunables tunables{};
  // Faults that every NIC injects, for tests and stress runs, e.g.
  // "loss=0.001,duplicate=0.01,reorder=0.05,corrupt=0.001,seed=7". Empty: no fault layer at all.
  // The grammar is in docs/faults.md.
  std::string faults{};
  // The variables HAWSER_<TUNABLE> of the environment outweigh `tunables`. An adapter that has
  // variables of its own reads both, and sets this.
  bool ignore_environment = false;
};

struct EndpointConfig {
  // Stable name of this endpoint in the job (a rank, for example); unique among those that talk to
  // each other. 0: drawn at random.
  std::uint64_t endpoint_id = 0;
  // Grows with every restart of the same endpoint (a bootstrap hands it out); a peer replaces a
  // session that lives only by a higher one, and calls with another one fail (`stale_epoch`).
  // 0: taken from the system's clock.
  std::uint64_t epoch = 0;
  // Secret that all endpoints of a job share; handshakes whose MAC does not agree are dropped.
  // At most 64 bytes; empty means that anyone may connect.
  std::vector<std::byte> job_secret{};
  // Sees what happens (hawser/trace.hpp, which says what it may do), from the first packet to the
  // end of the endpoint's destructor; it and its context outlive the endpoint. Null: no trace.
  TraceHook trace = nullptr;
  void* trace_context = nullptr;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // closes first: see close()
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] virtual const Address& address() const noexcept = 0;

  // Names the endpoint with this address as a peer; the handshake runs by itself, and operations
  // may be posted at once. The same address twice gives the same peer, until its session has ended
  // and its place is another's. An endpoint that connects to this one is named too, with an event.
  //   ok: `peer` is set · again: max_peers are in use, by sessions that live or whose messages
  //   nobody has received · invalid_argument: not an address of this version, or one's own ·
  //   no_route: no NIC here can send to any that it names · endpoint_closed.
  [[nodiscard]] virtual Status connect(std::span<const std::byte> address, PeerId& peer) = 0;

  // Sends `bytes` bytes at `data` (may be null if bytes = 0).
  //   ok: the bytes are the engine's, unchanged, until the completion of `operation`.
  //   else: nothing was taken.  again: max_operations or max_messages_per_peer reached ·
  //   invalid_argument: `data` is null, `bytes` too many, or they lie partly in a dma-buf that is
  //   registered, and partly not. With engine threads the last is told by the completion.
  [[nodiscard]] virtual Status send(PeerId peer, std::uint16_t context, std::uint64_t tag,
                                    const void* data, std::uint64_t bytes,
                                    const SendOptions& options, OperationId& operation) = 0;

  // Receives one message with this context whose tag agrees with `tag` in the bits set in `mask`,
  // from `peer` or kAnyPeer. Messages of one peer match in the order in which they were sent,
  // receives in the order in which they were posted.
  //   ok: the buffer is the engine's to write until the completion; nothing writes to it after.
  //   else: nothing was taken.
  [[nodiscard]] virtual Status receive(PeerId peer, std::uint16_t context, std::uint64_t tag,
                                       std::uint64_t mask, void* data, std::uint64_t bytes,
                                       const ReceiveOptions& options, OperationId& operation) = 0;

  // Looks for an unmatched message. ok: `envelope` is set · again: none is here, and one may come ·
  // unknown_peer, endpoint_closed, or how the session ended: none is here, and none will come.
  [[nodiscard]] virtual Status probe(PeerId peer, std::uint16_t context, std::uint64_t tag,
                                     std::uint64_t mask, Envelope& envelope) = 0;

  // As probe, and takes the message out of matching: no receive gets it any more, only who has its
  // name (MPI_Mprobe; libfabric's FI_PEEK with FI_CLAIM). It goes on counting among
  // max_receive_messages.
  //   ok: `envelope` and `message` are set · else: as probe · unsupported: not an endpoint of this
  //   engine, but somebody else's that has no claims.
  [[nodiscard]] virtual Status claim(PeerId peer, std::uint16_t context, std::uint64_t tag,
                                     std::uint64_t mask, Envelope& envelope, MessageId& message);

  // Receives a claimed message. Into a buffer that is too short, or of no bytes, to be rid of it,
  // it is `truncated`, as with any receive.
  //   ok: the name is used up, the buffer is the engine's until the completion · again,
  //   invalid_argument: nothing was taken, the claim stands · unknown_operation: no such claim; its
  //   session may have ended before all of the message was here. With engine threads that is told
  //   by the completion.
  [[nodiscard]] virtual Status receive_claimed(MessageId message, void* data, std::uint64_t bytes,
                                               const ReceiveOptions& options,
                                               OperationId& operation);

  // Gives a claimed message back to matching, in the place that its age gives it: to the oldest
  // receive posted meanwhile that it matches, or among the unmatched ones.
  //   ok: the name is used up · unknown_operation: as above.
  [[nodiscard]] virtual Status put_back(MessageId message);

  // Asks to cancel an operation; its completion comes in any case, and until then its buffer is the
  // engine's as before. A receive is cancelled at once, if no message has matched it. Of a send the
  // receiver decides: if no receive has matched it there (and, at level `accepted`, not all of it
  // has been accepted) it is as if it had never been sent, and later messages don't wait for it.
  //   ok: the completion will say `cancelled`, or how it ended if it was matched first ·
  //   too_late: known to be matched, it goes on · unknown_operation: it has its final status, or
  //   never was.
  [[nodiscard]] virtual Status cancel(OperationId operation) = 0;

  // Inline: sends what may leave now, and looks at nothing that has come. For who calls `send` and
  // may not poll soon; without it small messages that are sent together share packets, which costs
  // less. With engine threads it does nothing, as these send by themselves.
  virtual void flush();

  // Makes progress (inline) and hands out completions, oldest first. Returns how many; never
  // blocks.
  virtual std::size_t poll(std::span<Completion> completions) = 0;

  // As poll, but waits up to `timeout_ns` for the first completion: spins, yields, then blocks. A
  // cancellation point.
  virtual std::size_t wait(std::span<Completion> completions, std::uint64_t timeout_ns) = 0;

  // Readable when poll has something to do; for the caller's own event loop. Owned by the endpoint.
  [[nodiscard]] virtual int fd() const noexcept = 0;

  // Tells the peer, once and without waiting, and drops the session and its operations, which
  // complete with endpoint_closed. Its place is free for a newcomer who needs it, once what the
  // peer has delivered is received.
  [[nodiscard]] virtual Status disconnect(PeerId peer) = 0;

  // Lingers up to close_timeout for the final statuses of what was sent. Then it tells every peer,
  // again and again until each has answered, for half of close_timeout more at most, and completes
  // what is left with endpoint_closed. After it, only poll is of use. A peer whose progress is
  // inline answers only in its own calls: where one thread has several endpoints that talk to each
  // other, each but the last would linger for 1.5 close_timeout; disconnect them first, when all is
  // settled.
  virtual void close() = 0;

  // Snapshots; callable from any thread, may allocate.
  [[nodiscard]] virtual EndpointStats stats() const = 0;
  [[nodiscard]] virtual std::vector<NicStats> nic_stats() const = 0;
  [[nodiscard]] virtual Status peer_stats(PeerId peer, PeerStats& stats) const = 0;
  // Who is to blame for paths on which nothing passes: the verdicts that stand, oldest first, at
  // most 64. Events tell of their beginning and end.
  [[nodiscard]] virtual std::vector<Verdict> verdicts() const;
  // Hands out events, oldest first; returns how many. With engine threads from any thread.
  virtual std::size_t poll_events(std::span<Event> events) = 0;

  // Registers memory with every NIC that asks for that, so that sends from it go out in place. It
  // is never needed: what is not registered is copied, or registered by the cache
  // (docs/registration.md). Blocks while the system pins the pages. Before the memory is unmapped
  // or freed it must be deregistered. `why`, if not null and the answer isn't `ok`, gets a sentence
  // that says what to do; the log has it too.
  //   ok: `registration` is set; the memory stays the caller's, who may read and write it ·
  //   again: max_registrations stand · invalid_argument: null, of no bytes, or not mapped ·
  //   overlapping, too_large, lock_limit: see Status · nic_error: a NIC refuses · endpoint_closed ·
  //   unsupported: not an endpoint of this engine. In all these cases nothing was taken.
  [[nodiscard]] virtual Status register_memory(const void* data, std::uint64_t bytes,
                                               RegistrationId& registration,
                                               std::string* why = nullptr);
  // As register_memory, of another device's memory. Sends name it by `range.address`, where the
  // processor reads nothing as long as it is registered: it is deregistered, or released, when all
  // sends from it have completed, and not before.
  //   unsupported: also if a NIC of this endpoint, or the system, takes no dma-bufs, or faults are
  //   injected · nic_error: also while a device is away.
  [[nodiscard]] virtual Status register_dmabuf(const DmabufRange& range,
                                               RegistrationId& registration,
                                               std::string* why = nullptr);
  // Blocks while the system lets go of the pages.
  //   ok: the memory is not registered any more · in_use: a NIC still reads it, and nothing changed
  //   · unknown_operation: no such registration, or it was deregistered before.
  [[nodiscard]] virtual Status deregister_memory(RegistrationId registration,
                                                 std::string* why = nullptr);
  // As deregister_memory, for who can't wait: what a NIC still reads is deregistered as soon as its
  // sends have ended, by the endpoint; no later send goes out of it in place.
  virtual void release_memory(RegistrationId registration);

 protected:
  Endpoint() = default;
};

inline std::vector<Verdict> Endpoint::verdicts() const { return {}; }
inline Status Endpoint::claim(PeerId, std::uint16_t, std::uint64_t, std::uint64_t, Envelope&,
                              MessageId&) {
  return Status::unsupported;
}
inline Status Endpoint::receive_claimed(MessageId, void*, std::uint64_t, const ReceiveOptions&,
                                        OperationId&) {
  return Status::unsupported;
}
inline void Endpoint::flush() {}
inline Status Endpoint::put_back(MessageId) { return Status::unsupported; }
inline Status Endpoint::register_memory(const void*, std::uint64_t, RegistrationId&, std::string*) {
  return Status::unsupported;
}
inline Status Endpoint::register_dmabuf(const DmabufRange&, RegistrationId&, std::string*) {
  return Status::unsupported;
}
inline Status Endpoint::deregister_memory(RegistrationId, std::string*) {
  return Status::unsupported;
}
inline void Endpoint::release_memory(RegistrationId) {}

class Engine {
 public:
  explicit Engine(EngineConfig config);  // throws Error
  ~Engine();                             // after all its endpoints
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] std::unique_ptr<Endpoint> create_endpoint(const EndpointConfig& config);  // throws

  [[nodiscard]] std::size_t nic_count() const noexcept;

  // Changes the faults of one NIC while it runs; only if config.faults was not empty.
  // `spec` is one of the grammar of docs/faults.md, with "kill", "revive", "kill:event",
  // "revive:event", "rate=BYTES_PER_S" among it.
  //   unsupported: the engine has no fault layer, or the NIC can't do that (the log says what) ·
  //   invalid_argument: the log says which word.
  [[nodiscard]] Status inject_fault(std::size_t nic, std::string_view spec);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hawser
