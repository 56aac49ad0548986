// SPDX-License-Identifier: Apache-2.0
// The public face of proto/: checks arguments, charges limits, hands over to the Core.
#include "proto/endpoint.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "proto/base/sequence.hpp"
#include "proto/endpoint/core.hpp"
#include "proto/message/unscheduled.hpp"
#include "proto/wire/address_blob.hpp"

namespace hawser::proto {

namespace {

// Whether any of our NICs can send to one of these.
template <class Core>
bool is_any_addressable(const Core& core, std::span<const wire::NicRecord> records) {
  return std::ranges::any_of(records, [&](const wire::NicRecord& record) {
    return std::ranges::any_of(
        core.nics, [&](const LocalNic& local) { return local.nic->can_address(record.address); });
  });
}

static_assert(sizeof(AddressHead) + kMaxNics * sizeof(wire::NicRecord) <=
              Endpoint::kMaxAddressBytes);

constexpr std::uint64_t kMostEvents = 4096 - 64;  // events that nobody has taken yet

// Prefetches a peer. With many peers few are in the cache, but the one that was sent to last is.
// True: its paths should be fetched too.
template <class Core>
bool fetch_peer(Core& core, std::uint32_t peer) {
  if (std::exchange(core.last_sent_to, peer) == peer) return false;
  core.peers.fetch(peer);
  return true;
}

// The status for a message that isn't here: whether one may still come.
template <class Core>
Status nothing_of(const Core& core, PeerId peer) {
  if (peer == kAnyPeer) return Status::again;
  const std::uint32_t index = core.peers.index_of(peer);
  const auto answer = [](const auto& session) {
    return session.state == SessionState::failed ? session.failure : Status::again;
  };
  return core.peers.is_awake(index) ? answer(core.peers.at(index).session)
                                    : answer(core.peers.resting(index));
}

// Looks for an unmatched message; null: there is none, and `status` says why.
template <class Core>
const UnexpectedEntry* look_for(const Core& core, PeerId peer, std::uint16_t channel,
                                std::uint64_t tag, std::uint64_t mask, Envelope& envelope,
                                Status& status) {
  status = Status::endpoint_closed;
  if (core.sessions.closing()) return nullptr;
  status = Status::unknown_peer;
  if (peer != kAnyPeer && core.peers.index_of(peer) == kNoIndex) return nullptr;
  const UnexpectedEntry* const found = core.incoming.probe(peer, channel, tag, mask);
  status = found != nullptr ? Status::ok : nothing_of(core, peer);
  if (found != nullptr) envelope = {found->peer, found->tag, found->bytes, found->immediate};
  return found;
}

// Whether a short address adds nothing: it may have fewer NICs than the peer's HELLO told.
template <class Core>
bool names_known(Core& core, Peer& peer, const ParsedAddress& address) {
  if (!address.is_short || address.nics > peer.session.remote_nics) return false;
  for (std::size_t i = 0; i < address.nics; ++i) {
    if (core.peers.nic_of(peer, i).address != address.records[i].address) return false;
  }
  return true;
}

template <class Core>
bool has_place_for_send(const Core& core, const Peer& peer) {
  return peer.sends.table.size() < core.turn.tunables.max_messages_per_peer &&
         peer.sends.table.in_window(peer.sends.next_number);
}

std::uint32_t u32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xfffffff0u));
}

}  // namespace

Endpoint::Core::Core(const EndpointConfig& config, std::span<Nic* const> given, PacketPool& buffers)
    : turn(config.tunables, config.seed,
           u32(std::min<std::uint64_t>(4 * config.tunables.max_peers, kMostEvents) + 64)),
      endpoint_id(config.endpoint_id),
      epoch(config.epoch),
      job_secret(config.job_secret),
      peers(u32(turn.tunables.max_peers)),
      sender(turn, peers, given, buffers, job_secret.bytes()),
      nics(sender.nics()),
      sessions({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .senders = senders,
                .touched = touched,
                .outbox = outbox,
                .routes = control_routes,
                .descriptors = descriptors,
                .calls = call_queue,
                .half_open = half_open,
                .verdicts = verdicts,
                .paths = paths,
                .receive_paths = receive_paths,
                .outgoing = outgoing,
                .incoming = incoming,
                .numbers = table_blocks},
               {.endpoint_id = endpoint_id,
                .epoch = epoch,
                .job_secret = job_secret.bytes(),
                .seed = config.seed}),
      outgoing({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .senders = senders,
                .touched = touched,
                .routes = control_routes,
                .paths = paths},
               u32(turn.tunables.max_operations),
               // Twice, so that packets in flight to silent peers leave the others their limit.
               u32(2 * turn.tunables.max_in_flight_packets)),
      paths({.turn = turn,
             .peers = peers,
             .sender = sender,
             .reporter = reporter,
             .senders = senders,
             .touched = touched,
             .verdicts = verdicts,
             .packets = outgoing,
             .user = sessions,
             .endpoint_id = endpoint_id},
            u32(turn.tunables.max_peers *
                std::min<std::uint64_t>(turn.tunables.max_path_slots, 2 * kMaxNics)),
            u32(2 * turn.tunables.max_in_flight_packets / SentBlockPool::kRecords +
                32 * turn.tunables.max_peers)),
      receive_paths(turn, reporter, u32(turn.tunables.max_peers * kMaxPaths)),
      table_blocks(u32(8 * turn.tunables.max_peers + turn.tunables.max_operations / 16 +
                       turn.tunables.max_receive_messages / 16)),
      incoming({.turn = turn,
                .peers = peers,
                .sender = sender,
                .reporter = reporter,
                .touched = touched,
                .outbox = outbox,
                .routes = control_routes,
                .descriptors = descriptors,
                .paths = receive_paths,
                .numbers = table_blocks}),
      outbox({.turn = turn,
              .peers = peers,
              .touched = touched,
              .sender = sender,
              .routes = control_routes,
              .receive_paths = receive_paths,
              .incoming = incoming.all(),
              .allowance = allowance,
              .solicitor = descriptors},
             u32(turn.tunables.max_receive_messages + turn.tunables.max_peers)),
      burst(nics.size()) {
  HAWSER_ASSERT(config.endpoint_id != 0);
  turn.trace_to(config.trace, config.trace_context);
  const std::uint32_t indices = std::bit_ceil(peers.capacity()) - 1;
  const Screen screen{~indices, sessions.name_mask() & ~indices};
  for (const LocalNic& local : nics) {
    local.nic->screen(screen);
    local.nic->take_views();
  }
}

Endpoint::Endpoint(const EndpointConfig& config, std::span<Nic* const> nics, PacketPool& pool)
    : core_(std::make_unique<Core>(config, nics, pool)) {}

Endpoint::~Endpoint() = default;

std::size_t Endpoint::write_address(std::span<std::byte, kMaxAddressBytes> out) const {
  AddressHead head;
  head.endpoint_id = core_->endpoint_id;
  head.epoch = core_->epoch;
  head.nics = static_cast<std::uint32_t>(core_->nics.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::size_t at = sizeof head;
  for (std::size_t i = 0; i < core_->nics.size(); ++i) {
    const wire::NicRecord record = core_->sessions.nic_record(i);
    std::memcpy(out.data() + at, &record, sizeof record);
    at += sizeof record;
  }
  return at;
}

Status Endpoint::connect(Time now, std::span<const std::byte> address, PeerId& peer_id) {
  Core& core = *core_;
  core.turn.call(now);
  ParsedAddress to;
  if (!parse_address(address, to) || to.endpoint_id == core.endpoint_id) {
    return Status::invalid_argument;
  }
  if (core.sessions.closing()) return Status::endpoint_closed;
  Peer* peer = core.sessions.find_peer(to.endpoint_id);
  const bool is_ready = peer != nullptr && peer->session.state == SessionState::ready;
  if (!is_ready && !is_any_addressable(core, to.nic_records())) return Status::no_route;
  if (peer == nullptr) peer = core.sessions.make_peer(to.endpoint_id, core.turn.now());
  if (peer == nullptr) return Status::again;
  if (peer->session.state == SessionState::failed) core.sessions.forget_failed(*peer);
  if (peer->session.state == SessionState::idle) {
    core.sessions.learn_nics(*peer, to.nic_records());
  } else if (is_called(*peer) && !names_known(core, *peer, to)) {
    core.sessions.call_elsewhere(*peer, to.nic_records());
  }
  core.sessions.want_session(*peer);
  if (peer->session.state == SessionState::idle) return Status::again;
  peer->session.used_at = core.turn.now();
  core.touched.add(*peer);
  peer_id = core.peers.id_of(*peer);
  return Status::ok;
}

namespace {

// A caller without a free name for an operation may ask whether anything else is wrong with it.
Status without_slot(OperationId operation) {
  return operation == kNoOperation ? Status::again : Status::invalid_argument;
}

}  // namespace

Status Endpoint::send(Time now, const SendRequest& request) {
  Core& core = *core_;
  core.turn.call(now);
  const bool fetches = fetch_peer(core, peer_place(request.peer));
  if (core.sessions.closing()) return Status::endpoint_closed;
  if (request.bytes > kMaxMessageBytes || (request.data == nullptr && request.bytes > 0)) {
    return Status::invalid_argument;
  }
  Peer* peer = core.used_peer(request.peer);
  if (peer == nullptr) return Status::unknown_peer;
  if (peer->session.state == SessionState::failed) return peer->session.failure;
  core.sessions.want_session(*peer);
  if (peer->session.state == SessionState::idle) return Status::again;
  if (!fits_in_fragments(request.bytes, peer->session.state == SessionState::ready
                                            ? peer->session.fragment_bytes
                                            : core.sender.limits().fragment_bytes)) {
    return Status::invalid_argument;
  }
  // A message that fits any fragment size the handshake may agree on can wait for it here. Others
  // can't, as a number once given must be sent.
  if (peer->session.state != SessionState::ready &&
      !fits_in_fragments(request.bytes, wire::kMinFragmentBytes)) {
    return Status::again;
  }
  if (!has_place_for_send(core, *peer)) return Status::again;
  if (!core.turn.operations.is_free(request.operation)) return without_slot(request.operation);
  OutgoingMessage* message = core.outgoing.make(*peer);
  if (message == nullptr) return Status::again;
  message->operation = request.operation;
  message->data = request.data;
  message->bytes = request.bytes;
  message->tag = request.tag;
  message->channel = request.channel;
  message->options = request.options;
  message->readable = request.readable;
  core.turn.operations.begin(request.operation, OperationKind::send,
                             core.outgoing.index_of(*message), core.turn.now());
  if (core.turn.tracing()) core.reporter.trace_send(TraceKind::message_begun, *message, 0, 0);
  if (peer->session.state == SessionState::ready) core.outgoing.start(*peer, *message);
  core.touched.add(*peer);
  if (fetches) core.paths.fetch(peer->paths);
  core.called_to_send = message->fragments == 1;
  core.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::receive(Time now, const ReceiveRequest& request) {
  Core& core = *core_;
  core.turn.call(now);
  if (core.sessions.closing()) return Status::endpoint_closed;
  if (request.data == nullptr && request.bytes > 0) return Status::invalid_argument;
  IncomingMessage* claimed = nullptr;
  if (request.claimed != kNoMessage) {
    claimed = core.incoming.claimed(request.claimed);
    if (claimed == nullptr) return Status::unknown_operation;
  } else if (request.peer != kAnyPeer) {
    Peer* peer = core.used_peer(request.peer);
    if (peer == nullptr) return Status::unknown_peer;
    if (peer->session.state != SessionState::ready &&
        core.incoming.probe(request.peer, request.channel, request.tag, request.mask) == nullptr) {
      if (peer->session.state == SessionState::failed) return peer->session.failure;
      core.sessions.want_session(
          *peer);  // else nothing would end the wait for a peer that dies now
      if (peer->session.state == SessionState::idle) return Status::again;
    }
  }
  if (!core.turn.operations.is_free(request.operation)) return without_slot(request.operation);
  core.turn.operations.begin(request.operation, OperationKind::receive, kNoIndex, core.turn.now());
  const PostedReceive receive{.operation = request.operation,
                              .peer = request.peer,
                              .channel = request.channel,
                              .tag = request.tag,
                              .mask = request.mask,
                              .data = request.data,
                              .bytes = request.bytes,
                              .options = request.options};
  if (claimed != nullptr) {
    core.incoming.receive_claimed(*claimed, receive);
  } else {
    core.incoming.post(receive);
  }
  core.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::probe(PeerId peer, std::uint16_t channel, std::uint64_t tag, std::uint64_t mask,
                       Envelope& envelope) const {
  Status status = Status::again;
  (void)look_for(*core_, peer, channel, tag, mask, envelope, status);
  return status;
}

Status Endpoint::claim(PeerId peer, std::uint16_t channel, std::uint64_t tag, std::uint64_t mask,
                       Envelope& envelope, MessageId& message) {
  Core& core = *core_;
  Status status = Status::again;
  const UnexpectedEntry* const found = look_for(core, peer, channel, tag, mask, envelope, status);
  if (found != nullptr) message = core.incoming.claim(*found);
  return status;
}

Status Endpoint::put_back(Time now, MessageId name) {
  Core& core = *core_;
  core.turn.call(now);
  IncomingMessage* message = core.incoming.claimed(name);
  if (message == nullptr) return Status::unknown_operation;
  core.incoming.put_back(*message);
  core.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::cancel(Time now, OperationId operation) {
  Core& core = *core_;
  core.turn.call(now);
  const OperationSlot* const slot = core.turn.operations.find(operation);
  if (slot == nullptr) return Status::unknown_operation;
  if (slot->kind == OperationKind::send)
    return core.outgoing.cancel(core.outgoing.at(slot->outgoing));
  return core.incoming.cancel(operation, Status::cancelled) ? Status::ok : Status::too_late;
}

Status Endpoint::disconnect(Time now, PeerId id) {
  Core& core = *core_;
  core.turn.call(now);
  Peer* peer = core.used_peer(id);
  if (peer == nullptr) return Status::unknown_peer;
  core.sessions.disconnect(*peer);
  core.sender.flush();
  return Status::ok;
}

void Endpoint::close(Time now) {
  Core& core = *core_;
  if (core.sessions.closing()) return;
  core.turn.call(now);
  core.sessions.close();
}

bool Endpoint::closed() const { return core_->sessions.closed(); }

bool Endpoint::is_through() const {
  return core_->sessions.closed() && core_->outgoing.unreleased() == 0;
}

bool Endpoint::knows(PeerId peer) const { return core_->peers.index_of(peer) != kNoIndex; }

void Endpoint::transmit(Time now) {
  Core& core = *core_;
  if (core.sessions.closed()) return;
  core.turn.call(now);
  core.transmit();
  core.sender.flush();
}

void Endpoint::begin_turn(Time now) { core_->begin_turn(now); }

TurnResult Endpoint::finish_turn(Time now) { return core_->finish_turn(now); }

const Event& Endpoint::last_warning() const { return core_->turn.last_warning(); }

std::size_t Endpoint::poll_completions(std::span<Completion> completions) {
  return core_->turn.operations.poll(completions);
}

std::size_t Endpoint::poll_events(std::span<Event> events) {
  return core_->turn.poll_events(events);
}

}  // namespace hawser::proto
