// SPDX-License-Identifier: Apache-2.0
// The public API. An Engine opens NICs and runs Endpoints. An Endpoint sends and receives messages,
// and reads and writes the memory of peers.
//
//   hawser::Engine engine({.nics = {"udp:127.0.0.1", "udp:127.0.0.2"}});
//   auto endpoint = engine.create_endpoint({});
//   ... exchange endpoint->address() with the others ...
//   endpoint->connect(their_address, peer);
//   endpoint->send({.peer = peer, .tag = 42, .data = data, .bytes = bytes}, operation);
//   while (endpoint->wait(completions, timeout_ns) == 0) ...
//
// Threads. With `threads = 0` progress is inline: poll, wait and the destructor make it, on the one
// thread that uses the endpoint. No other thread may call into that endpoint. With `threads >= 1`
// engine threads make the progress. Any thread may then make any call, but only one thread at a
// time may poll or wait.
//
// Cancellation (pthread_cancel). `wait` is a cancellation point at its start and where it blocks:
// the cancelled thread unwinds without having taken a completion, and other threads can go on using
// the endpoint. No other call is a cancellation point, constructors and destructors included. The
// cancellation type must be deferred, which is the default.
//
// Errors. Constructors and create_endpoint throw hawser::Error, whose text says what is wrong and
// what to do. Nothing throws after that: calls return a Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/one_sided.hpp"
#include "hawser/stats.hpp"
#include "hawser/status.hpp"
#include "hawser/trace.hpp"
#include "hawser/tunables.hpp"
#include "hawser/types.hpp"

namespace hawser {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct EngineConfig {
  // One string per NIC, at least 1 and at most 16, with no address and no port twice:
  //   `udp:ADDRESS`: an IPv4 or IPv6 address of this host.
  //   `verbs:DEVICE[:PORT][@GID_INDEX]`: a port of an RDMA device.
  //   `memory:FABRIC`: all engines of this process that name the same FABRIC reach each other.
  // An entry may also be a list that chooses NICs of this host, such as "if:eth*,!docker*"
  // (choose_nics of hawser/nics.hpp).
  std::vector<std::string> nics{};
  // Engine threads; 0 = inline progress.
  unsigned threads = 0;
  Tunables tunables{};
  // Faults that every NIC injects, for tests and stress runs, e.g.
  // "loss=0.001,duplicate=0.01,reorder=0.05,corrupt=0.001,seed=7" (hawser/faults.hpp). Empty: there
  // is no fault layer at all.
  std::string faults{};
  // False: the environment variables HAWSER_<TUNABLE> override `tunables`. An adapter that has
  // variables of its own reads both kinds itself, and sets this.
  bool ignore_environment = false;
};

struct EndpointConfig {
  // Stable name of this endpoint in the job (a rank, for example), unique among the endpoints that
  // talk to each other. 0: drawn at random.
  std::uint64_t endpoint_id = 0;
  // Grows with every restart of the same endpoint; a bootstrap hands it out. While a session lives,
  // its peer accepts another process of the same id only with a higher epoch, and refuses any other
  // (`stale_epoch`). 0: taken from the system's clock.
  std::uint64_t epoch = 0;
  // Secret that all endpoints of a job share, at most 64 bytes. Peers drop a handshake whose MAC
  // does not match. Empty: anyone may connect.
  std::vector<std::byte> job_secret{};
  // Called for each trace record, from the first packet to the end of the endpoint's destructor.
  // hawser/trace.hpp says what the hook may do. The hook and its context must outlive the endpoint.
  // Null: no trace.
  TraceHook trace = nullptr;
  void* trace_context = nullptr;
  // Most bytes of an injected message (Endpoint::inject), at most 65536. The endpoint reserves as
  // many for each of its max_operations.
  std::uint32_t inject_bytes = 256;
};

// The program gets endpoints from Engine::create_endpoint. The class is abstract so that code that
// takes an Endpoint& can be tested with a double. Every call is pure: a double states its own
// answers. Its layout is part of the library's ABI, which the soname names.
class Endpoint {
 public:
  virtual ~Endpoint() = default;  // closes first: see close()
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] virtual const Address& address() const noexcept = 0;

  // Names the endpoint with this address as a peer. The handshake runs in the background, and
  // operations may be posted at once. The same address gives the same peer again, unless its
  // session has ended and its place belongs to another by now. The address of a later process of
  // the same endpoint ends the session with the earlier one: peer_restarted. An endpoint that
  // connects to this one becomes a peer too, and an event announces it.
  //   `ok`: `peer` is set.
  //   `again`: max_peers are in use: their sessions live, or have messages left to receive. Or the
  //     numbers of messages under way leave no room for a session.
  //   `invalid_argument`: not an address of this version, or this endpoint's own.
  //   `no_route`: no NIC here can send to any NIC that the address names.
  //   `endpoint_closed`: this endpoint is closing.
  [[nodiscard]] virtual Status connect(std::span<const std::byte> address, PeerId& peer) = 0;

  // Sends a message.
  //   `ok`: the engine owns the bytes, which must not change, until the completion of `operation`.
  //   Any other status: nothing was taken, and the caller owns the bytes.
  //   `again`: max_operations or max_messages_per_peer is reached. Inline also: too many
  //     handshakes are under way, or the endpoint has no room for another message.
  //   `invalid_argument`: `data` is null and `bytes` is not 0, `bytes` is above kMaxMessageBytes,
  //     `level` is not one of Level, or the channel is not the owner's. Also if the message takes
  //     more than 2^28 packets, or only a part of it lies in a registered dma-buf. With engine
  //     threads the completion reports these two.
  //   `unknown_peer`, `endpoint_closed`, or the status with which the session ended: the message
  //     can't be sent. With engine threads the completion may report it.
  [[nodiscard]] virtual Status send(const SendRequest& request, OperationId& operation) = 0;

  // As send, for at most EndpointConfig::inject_bytes bytes. The bytes are copied. A message that
  // is sent well has no completion. One that failed has a completion without a name (kNoOperation),
  // which comes when no NIC reads the copy any more; `user_data` tells it from others.
  //   `ok`: the bytes are the caller's again.
  //   `again`, `invalid_argument`, `unknown_peer`, `endpoint_closed`, or the status with which the
  //     session ended: as send. It is also an invalid argument if there are more bytes.
  [[nodiscard]] virtual Status inject(const SendRequest& request) = 0;

  // Receives one message. Messages of one peer match in the order in which it sent them, and
  // receives in the order in which they were posted.
  //   `ok`: the engine owns the buffer and may write to it until the completion, and not after.
  //   Any other status: nothing was taken, and the caller owns the buffer.
  //   `again`: max_operations is reached.
  //   `invalid_argument`: `data` is null and `bytes` is not 0, or the channel is not the owner's.
  //   `unknown_peer`, `endpoint_closed`, or the status with which the session ended: no message
  //     that matches is here, and none will come. With engine threads the completion may report it.
  [[nodiscard]] virtual Status receive(const ReceiveRequest& request, OperationId& operation) = 0;

  // Looks for the oldest unmatched message that agrees with the request.
  //   `ok`: `envelope` is set.
  //   `again`: none is here, and one may still come.
  //   `invalid_argument`: the channel is not the owner's.
  //   `unknown_peer`, `endpoint_closed`, or the status with which the session ended: none is here,
  //     and none will come.
  [[nodiscard]] virtual Status probe(const ProbeRequest& request, Envelope& envelope) = 0;

  // As probe, and takes the message out of matching: no receive gets it any more, only
  // receive_claimed with its name (MPI_Mprobe; libfabric's FI_PEEK with FI_CLAIM). The message
  // still counts towards max_receive_messages.
  //   `ok`: `envelope` and `message` are set.
  //   `again`, `invalid_argument`, `unknown_peer`, `endpoint_closed`, or the status with which the
  //     session ended: as probe.
  [[nodiscard]] virtual Status claim(const ProbeRequest& request, Envelope& envelope,
                                     MessageId& message) = 0;

  // Receives a claimed message. If the buffer is shorter than the message, the message is
  // `truncated`, as with any receive. A caller may discard a message by receiving it into 0 bytes.
  //   `ok`: the name is used up, and the engine owns the buffer until the completion.
  //   `again`, `invalid_argument`: as receive. Nothing was taken, and the claim stands.
  //   `unknown_operation`: no such claim; its session may have ended before the whole message was
  //     here. With engine threads the completion reports that.
  //   `endpoint_closed`: nothing was taken.
  [[nodiscard]] virtual Status receive_claimed(MessageId message, const ClaimedRequest& request,
                                               OperationId& operation) = 0;

  // Returns a claimed message to matching. It goes to the oldest receive posted meanwhile that
  // matches it, or else back among the unmatched messages, at the position of its age.
  //   `ok`: the name is used up.
  //   `unknown_operation`: as above.
  [[nodiscard]] virtual Status put_back(MessageId message) = 0;

  // Exposes memory to peers that get its key. The memory stays the caller's. It must stay mapped
  // until its withdrawal has completed, or the endpoint is destroyed. The same memory may be
  // exposed more than once.
  //   `ok`: `region` is set.
  //   `again`: 65536 regions are exposed.
  //   `invalid_argument`: null, 0 bytes, above kMaxMessageBytes, no access or an unknown one, or
  //     some of it lies in a registered dma-buf.
  //   `endpoint_closed`: this endpoint is closing.
  [[nodiscard]] virtual Status expose(const ExposeRequest& request, RegionId& region) = 0;
  // Gets the key by which peers reach a region.
  //   `ok`: `key` is set.
  //   `unknown_operation`: no such region, or it is withdrawn.
  [[nodiscard]] virtual Status region_key(RegionId region, RegionKey& key) const = 0;
  // Tells which writes to a region will never be finished, because their session failed first. The
  // ring of notices has a notice of each, with the session's status, if it had room.
  //   `ok`: `stats` is set.
  //   `unknown_operation`: no such region, or it is withdrawn.
  [[nodiscard]] virtual Status region_stats(RegionId region, RegionStats& stats) const = 0;
  // Withdraws a region. Operations of peers that are under way end with region_withdrawn, later
  // ones with access_denied.
  //   `ok`: no operation writes to the memory or computes on it any more. The completion of
  //     `operation` says that no NIC reads it either; `user_data` comes back in it.
  //   `again`: max_operations is reached.
  //   `unknown_operation`: no such region, or it is withdrawn.
  //   `endpoint_closed`: this endpoint is closing, and its end withdraws all regions.
  [[nodiscard]] virtual Status withdraw(RegionId region, std::uint64_t user_data,
                                        OperationId& operation) = 0;

  // Copies bytes into a peer's memory (hawser/one_sided.hpp). It completes when all are placed and
  // its signal is executed. If the peer refuses, the completion has access_denied,
  // region_withdrawn, misaligned or unsupported. If it is strong and one before it failed, the
  // completion has predecessor_failed. Each of these ends this operation alone. It can't be
  // cancelled: `cancel` answers too_late.
  //   `ok`: the engine owns the bytes, which must not change, until the completion.
  //   Any other status: nothing was taken.
  //   `again`: max_operations or max_messages_per_peer is reached. Inline also: the session is not
  //     established yet, or too many strong operations or channels are waiting.
  //   `invalid_argument`: `data` is null and `bytes` is not 0, the range is not within the key's
  //     region, the signal is neither an add nor a store of 4 or 8 bytes, or the channel is not the
  //     owner's. Also if the write takes more than 2^28 packets, or only a part of it lies in a
  //     registered dma-buf. With engine threads the completion reports these two.
  //   `stale_region`: the key is of an earlier process of this peer, or of another endpoint. With
  //     engine threads the completion may report it.
  //   `unsupported`: the peer's library has no one-sided operations. With engine threads the
  //     completion may report it.
  //   `unknown_peer`, `endpoint_closed`, or the status with which the session ended: it can't be
  //     executed. With engine threads the completion may report it.
  [[nodiscard]] virtual Status write(const WriteRequest& request, OperationId& operation) = 0;
  // Copies bytes out of a peer's memory. It completes when all are here, or is refused as a write
  // is.
  //   `ok`: the engine owns the buffer and may write to it until the completion.
  //   `again`, `invalid_argument`, `stale_region`, `unsupported`: as write.
  //   `unknown_peer`, `endpoint_closed`, or the status with which the session ended: as write.
  [[nodiscard]] virtual Status read(const ReadRequest& request, OperationId& operation) = 0;
  // Computes on a word of a peer's memory. It completes when that was executed, or is refused as a
  // write is.
  //   `ok`: the completion will say how it ended, and which word it fetched.
  //   `invalid_argument`: the word is not 4 or 8 bytes wide, the operation is unknown, the word is
  //     not within the key's region, or the channel is not the owner's.
  //   `again`, `stale_region`, `unsupported`: as write.
  //   `unknown_peer`, `endpoint_closed`, or the status with which the session ended: as write.
  [[nodiscard]] virtual Status atomic(const AtomicRequest& request, OperationId& operation) = 0;
  // Completes when all one-sided operations that were posted before it to the peer on the channel
  // have ended. Its status is `ok`, or predecessor_failed if one of them has failed since the last
  // flush. Until then, strong operations behind a failure fail with that status too.
  //   `ok`: the completion will come.
  //   `invalid_argument`: the channel is not the owner's.
  //   `again`, `unknown_peer`, `endpoint_closed`, or the status with which the session ended: as
  //     write.
  [[nodiscard]] virtual Status flush_channel(const FlushRequest& request,
                                             OperationId& operation) = 0;

  // Asks to cancel an operation. Its completion always comes, and until then the engine owns the
  // buffer. A receive that no message has matched is cancelled at once. For a send the receiver
  // decides: it cancels if no receive has matched the message and, at level `accepted`, not all of
  // it has been accepted. Then it is as if the message had never been sent, and later messages
  // don't wait for it.
  //   `ok`: the completion will say `cancelled`, or how the operation ended if it was matched
  //     first.
  //   `too_late`: the operation is known to be matched, and goes on.
  //   `unknown_operation`: it has its final status, or never existed.
  [[nodiscard]] virtual Status cancel(OperationId operation) = 0;

  // Inline: sends what may leave now, without looking at what has arrived. For callers of `send`
  // that may not poll soon. Without it, small messages sent together share packets, which costs
  // less. With engine threads it does nothing, because they send by themselves.
  virtual void flush() = 0;

  // Makes progress (inline) and hands out completions, oldest first. Returns their number. Never
  // blocks.
  virtual std::size_t poll(std::span<Completion> completions) = 0;

  // As poll, but waits up to `timeout_ns` for the first completion: it spins, yields, then blocks.
  // With no room for a completion, an inline endpoint makes progress until the time is over, and
  // one with engine threads returns at once. A cancellation point.
  virtual std::size_t wait(std::span<Completion> completions, std::uint64_t timeout_ns) = 0;

  // Readable when poll has something to do, for the caller's own event loop. The endpoint owns it.
  [[nodiscard]] virtual int fd() const noexcept = 0;

  // Tells the peer once, without waiting, and drops the session. Its operations complete with
  // endpoint_closed. A newcomer may take the peer's place once all messages that the peer has
  // delivered are received.
  //   `ok`: the session has ended, now or before.
  //   `unknown_peer`: no peer has that name now.
  [[nodiscard]] virtual Status disconnect(PeerId peer) = 0;

  // Waits up to close_timeout for the final statuses of messages sent. Then tells every peer,
  // repeatedly, until each has answered or half of close_timeout more has passed. Completes all
  // remaining operations with endpoint_closed. Afterwards only poll is of use.
  // A peer with inline progress answers only during its own calls. If one thread has several
  // endpoints that talk to each other, each but the last would therefore wait for 1.5
  // close_timeout. Disconnect them first, when all their operations are complete.
  virtual void close() = 0;

  // Snapshots, which may allocate. With engine threads any thread may take them.
  [[nodiscard]] virtual EndpointStats stats() const = 0;
  [[nodiscard]] virtual std::vector<NicStats> nic_stats() const = 0;
  //   `ok`: `stats` is set.
  //   `unknown_peer`: no peer has that name now, and nothing was written.
  [[nodiscard]] virtual Status peer_stats(PeerId peer, PeerStats& stats) const = 0;
  // Verdicts on who is to blame for paths that carry nothing: those that stand, oldest first, at
  // most 64. Events report when a verdict begins and ends.
  [[nodiscard]] virtual std::vector<Verdict> verdicts() const = 0;
  // Hands out events, oldest first, and returns their number. With engine threads any thread may
  // call it.
  virtual std::size_t poll_events(std::span<Event> events) = 0;

  // Registers memory with every NIC that needs it, so that sends from it go out without a copy. It
  // is never required: sends from unregistered memory are copied, or the cache registers it
  // (docs/registration.md). Blocks while the system pins the pages. Deregister the memory before it
  // is unmapped or freed. `why`, if not null and the status isn't `ok`, gets a sentence that says
  // what to do. The log has it too.
  //   `ok`: `registration` is set. The memory stays the caller's, who may read and write it.
  //   Any other status: nothing was taken.
  //   `again`: max_registrations are in use.
  //   `invalid_argument`: null, 0 bytes, or not mapped.
  //   `overlapping`, `too_large`, `lock_limit`: see Status.
  //   `nic_error`: a NIC refuses.
  //   `endpoint_closed`: this endpoint is closing.
  [[nodiscard]] virtual Status register_memory(const void* data, std::uint64_t bytes,
                                               RegistrationId& registration,
                                               std::string* why = nullptr) = 0;
  // As register_memory, for another device's memory. Sends name it by `range.address`; the
  // processor never reads there while the memory is registered. Deregister or release it only after
  // all sends from it have completed.
  //   `ok`, `again`, `overlapping`, `too_large`, `lock_limit`, `endpoint_closed`: as
  //     register_memory.
  //   `invalid_argument`: no address, 0 bytes, or not a descriptor.
  //   `unsupported`: a NIC of this endpoint, or the system, takes no dma-bufs, or faults are
  //     injected.
  //   `nic_error`: a NIC refuses, or a device is away.
  [[nodiscard]] virtual Status register_dmabuf(const DmabufRange& range,
                                               RegistrationId& registration,
                                               std::string* why = nullptr) = 0;
  // Ends a registration. Blocks while the system unpins the pages.
  //   `ok`: the memory is no longer registered.
  //   `in_use`: a NIC still reads it, and nothing changed.
  //   `unknown_operation`: no such registration, or it was deregistered before.
  [[nodiscard]] virtual Status deregister_memory(RegistrationId registration,
                                                 std::string* why = nullptr) = 0;
  // As deregister_memory, for callers that can't wait. Later sends no longer read the memory
  // in place. If a NIC still reads it, the endpoint deregisters it as soon as those sends have
  // ended.
  virtual void release_memory(RegistrationId registration) = 0;

 protected:
  Endpoint() = default;
};

class Engine {
 public:
  explicit Engine(EngineConfig config);  // throws Error
  ~Engine();                             // after all its endpoints
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] std::unique_ptr<Endpoint> create_endpoint(const EndpointConfig& config);  // throws

  [[nodiscard]] std::size_t nic_count() const noexcept;

  // Changes the faults of one NIC while it runs. Requires that config.faults was not empty. `spec`
  // is as in EngineConfig::faults, and may also say "kill", "revive", "kill:event", "revive:event"
  // and "rate=BYTES_PER_S" (hawser/faults.hpp).
  //   `ok`: the faults hold from the NIC's next turn on.
  //   `unsupported`: the engine has no fault layer, or the NIC can't do that (the log says what).
  //   `invalid_argument`: the log names the wrong word.
  [[nodiscard]] Status inject_fault(std::size_t nic, std::string_view spec);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hawser
