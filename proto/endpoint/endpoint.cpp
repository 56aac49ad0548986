// SPDX-License-Identifier: Apache-2.0
// The public face of proto/: checks arguments, charges limits, hands over to the owners.
#include "proto/endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/endpoint/owners.hpp"
#include "proto/message/unscheduled.hpp"
#include "proto/wire/address_blob.hpp"

namespace hawser::proto {

namespace {

// Whether any of our NICs can send to one of these.
bool is_any_addressable(std::span<const LocalNic> nics, std::span<const wire::NicRecord> records) {
  return std::ranges::any_of(records, [&](const wire::NicRecord& record) {
    return std::ranges::any_of(
        nics, [&](const LocalNic& local) { return local.nic->can_address(record.address); });
  });
}

static_assert(sizeof(AddressHead) + kMaxNics * sizeof(wire::NicRecord) <=
              Endpoint::kMaxAddressBytes);

// The status for a message that isn't here: whether one may still come.
Status nothing_of(const PeerTable& peers, PeerId peer) {
  if (peer == kAnyPeer) return Status::again;
  const std::uint32_t index = peers.index_of(peer);
  const auto answer = [](const auto& session) {
    return session.state == SessionState::failed ? session.failure : Status::again;
  };
  return peers.is_awake(index) ? answer(peers.at(index).session) : answer(peers.resting(index));
}

// Looks for an unmatched message; null: there is none, and `status` says why.
const UnexpectedEntry* look_for(const Owners& owners, PeerId peer, std::uint16_t channel,
                                std::uint64_t tag, std::uint64_t mask, Envelope& envelope,
                                Status& status) {
  status = Status::endpoint_closed;
  if (owners.sessions.closing()) return nullptr;
  status = Status::unknown_peer;
  if (peer != kAnyPeer && owners.peers.index_of(peer) == kNoIndex) return nullptr;
  const UnexpectedEntry* const found = owners.incoming.probe(peer, channel, tag, mask);
  status = found != nullptr ? Status::ok : nothing_of(owners.peers, peer);
  if (found != nullptr) envelope = {found->peer, found->tag, found->bytes, found->immediate};
  return found;
}

// Whether a short address names only NICs that are known. The peer's HELLO may have told more.
bool names_known(PeerTable& peers, Peer& peer, const ParsedAddress& address) {
  if (!address.is_short || address.nics > peer.session.remote_nics) return false;
  for (std::size_t i = 0; i < address.nics; ++i) {
    if (peers.nic_of(peer, i).address != address.records[i].address) return false;
  }
  return true;
}

// Whether the request names memory for all its bytes.
template <class Request>
bool has_place(const Request& request) {
  if (request.pieces != nullptr) return request.pieces->bytes == request.bytes;
  return request.data != nullptr || request.bytes == 0;
}

}  // namespace

Endpoint::Endpoint(const EndpointConfig& config, std::span<Nic* const> nics, PacketPool& pool)
    : owners_(std::make_unique<Owners>(config, nics, pool)) {}

Endpoint::~Endpoint() = default;

std::size_t Endpoint::write_address(std::span<std::byte, kMaxAddressBytes> out) const {
  AddressHead head;
  head.endpoint_id = owners_->endpoint_id;
  head.epoch = owners_->epoch;
  head.nics = static_cast<std::uint32_t>(owners_->nics.size());
  std::memcpy(out.data(), &head, sizeof head);
  std::size_t at = sizeof head;
  for (std::size_t i = 0; i < owners_->nics.size(); ++i) {
    const wire::NicRecord record = owners_->sessions.nic_record(i);
    std::memcpy(out.data() + at, &record, sizeof record);
    at += sizeof record;
  }
  return at;
}

Status Endpoint::connect(Time now, std::span<const std::byte> address, PeerId& peer_id) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  ParsedAddress to;
  if (!parse_address(address, to) || to.endpoint_id == owners.endpoint_id) {
    return Status::invalid_argument;
  }
  if (owners.sessions.closing()) return Status::endpoint_closed;
  Peer* peer = owners.sessions.find_peer(to.endpoint_id);
  const bool is_ready = peer != nullptr && peer->session.state == SessionState::ready;
  const bool stays = is_ready && to.epoch <= peer->identity.remote_epoch;
  if (!stays && !is_any_addressable(owners.nics, to.nic_records())) return Status::no_route;
  if (peer == nullptr) peer = owners.sessions.make_peer(to.endpoint_id, Asker::program);
  if (peer == nullptr) return Status::again;
  owners.sessions.name_process(*peer, to.epoch);
  if (peer->session.state == SessionState::failed) owners.sessions.forget_failed(*peer);
  if (peer->session.state == SessionState::idle) {
    owners.sessions.learn_nics(*peer, to.nic_records());
  } else if (is_called(*peer) && !names_known(owners.peers, *peer, to)) {
    owners.sessions.call_elsewhere(*peer, to.nic_records());
  }
  owners.sessions.want_session(*peer);
  if (peer->session.state == SessionState::idle) return Status::again;
  peer->session.used_at = owners.turn.now();
  owners.touched.add(*peer);
  peer_id = owners.peers.id_of(*peer);
  return Status::ok;
}

Status Endpoint::send(Time now, const SendRequest& request) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  // With many peers few are in the cache, but the one that was sent to last is.
  const std::uint32_t place = peer_place(request.peer);
  const bool fetches = std::exchange(last_sent_to_, place) != place;
  if (fetches) owners.peers.fetch(place);
  if (owners.sessions.closing()) return Status::endpoint_closed;
  if (request.bytes > kMaxMessageBytes || !has_place(request)) return Status::invalid_argument;
  Peer* peer = owners.used_peer(request.peer);
  if (peer == nullptr) return Status::unknown_peer;
  if (peer->session.state == SessionState::failed) return peer->session.failure;
  owners.sessions.want_session(*peer);
  if (peer->session.state == SessionState::idle) return Status::again;
  if (!wire::fits_in_fragments(request.bytes, peer->session.state == SessionState::ready
                                                  ? peer->session.session_bytes
                                                  : owners.sender.limits().fragment_bytes)) {
    return Status::invalid_argument;
  }
  if (owners.sessions.doubts_ways(peer->session)) owners.sessions.follow_ways(*peer);
  // A message that fits any fragment size the handshake may agree on can wait for it here. Others
  // can't, as a number once given must be sent.
  if (peer->session.state != SessionState::ready &&
      !wire::fits_in_fragments(request.bytes, wire::kMinFragmentBytes)) {
    return Status::again;
  }
  if (!owners.has_place_for_send(*peer)) return Status::again;
  if (!owners.turn.operations.is_free(request.operation)) return without_slot(request.operation);
  const OutgoingMessage* message = owners.outgoing.begin(*peer, request);
  if (message == nullptr) return Status::again;
  if (fetches) owners.paths.fetch(peer->paths);
  called_to_send_ = message->fragments == 1;
  owners.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::receive(Time now, const ReceiveRequest& request) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  if (owners.sessions.closing()) return Status::endpoint_closed;
  if (!has_place(request)) return Status::invalid_argument;
  IncomingMessage* claimed = nullptr;
  if (request.claimed != kNoMessage) {
    claimed = owners.incoming.claimed(request.claimed);
    if (claimed == nullptr) return Status::unknown_operation;
  } else if (request.peer != kAnyPeer) {
    Peer* peer = owners.used_peer(request.peer);
    if (peer == nullptr) return Status::unknown_peer;
    if (peer->session.state != SessionState::ready &&
        owners.incoming.probe(request.peer, request.channel, request.tag, request.mask) ==
            nullptr) {
      if (peer->session.state == SessionState::failed) return peer->session.failure;
      // Else nothing would end the wait for a peer that dies now.
      owners.sessions.want_session(*peer);
      if (peer->session.state == SessionState::idle) return Status::again;
    }
  }
  if (!owners.turn.operations.is_free(request.operation)) return without_slot(request.operation);
  owners.turn.operations.begin(request.operation, OperationKind::receive, kNoIndex,
                               owners.turn.now());
  PostedReceive receive{.operation = request.operation,
                        .peer = request.peer,
                        .channel = request.channel,
                        .tag = request.tag,
                        .mask = request.mask,
                        .data = request.data,
                        .bytes = request.bytes,
                        .options = request.options};
  if (request.pieces != nullptr) receive.scatter_to(*request.pieces);
  if (claimed != nullptr) {
    owners.incoming.receive_claimed(*claimed, receive);
  } else {
    owners.incoming.post(receive);
  }
  owners.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::probe(PeerId peer, std::uint16_t channel, std::uint64_t tag, std::uint64_t mask,
                       Envelope& envelope) const {
  Status status = Status::again;
  (void)look_for(*owners_, peer, channel, tag, mask, envelope, status);
  return status;
}

Status Endpoint::claim(PeerId peer, std::uint16_t channel, std::uint64_t tag, std::uint64_t mask,
                       Envelope& envelope, MessageId& message) {
  Owners& owners = *owners_;
  Status status = Status::again;
  const UnexpectedEntry* const found = look_for(owners, peer, channel, tag, mask, envelope, status);
  if (found != nullptr) message = owners.incoming.claim(*found);
  return status;
}

Status Endpoint::put_back(Time now, MessageId name) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  IncomingMessage* message = owners.incoming.claimed(name);
  if (message == nullptr) return Status::unknown_operation;
  owners.incoming.put_back(*message);
  owners.turn.ask_for_pass();
  return Status::ok;
}

Status Endpoint::cancel(Time now, OperationId operation) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  const OperationSlot* const slot = owners.turn.operations.find(operation);
  if (slot == nullptr) return Status::unknown_operation;
  if (slot->kind == OperationKind::send)
    return owners.outgoing.cancel(owners.outgoing.at(slot->outgoing));
  return owners.incoming.cancel(operation, Status::cancelled) ? Status::ok : Status::too_late;
}

Status Endpoint::disconnect(Time now, PeerId id) {
  Owners& owners = *owners_;
  owners.turn.call(now);
  Peer* peer = owners.used_peer(id);
  if (peer == nullptr) return Status::unknown_peer;
  owners.sessions.disconnect(*peer);
  owners.sender.flush();
  return Status::ok;
}

void Endpoint::close(Time now) {
  Owners& owners = *owners_;
  if (owners.sessions.closing()) return;
  owners.turn.call(now);
  owners.sessions.close();
}

bool Endpoint::closed() const { return owners_->sessions.closed(); }

bool Endpoint::is_through() const {
  return owners_->sessions.closed() && owners_->outgoing.unreleased() == 0;
}

bool Endpoint::knows(PeerId peer) const { return owners_->peers.index_of(peer) != kNoIndex; }

void Endpoint::transmit(Time now) {
  Owners& owners = *owners_;
  if (owners.sessions.closed()) return;
  owners.turn.call(now);
  owners.transmitter.transmit();
  owners.sender.flush();
}

const Event& Endpoint::last_warning() const { return owners_->turn.last_warning(); }

std::size_t Endpoint::poll_completions(std::span<Completion> completions) {
  return owners_->turn.operations.poll(completions);
}

std::size_t Endpoint::poll_events(std::span<Event> events) {
  return owners_->turn.poll_events(events);
}

}  // namespace hawser::proto
