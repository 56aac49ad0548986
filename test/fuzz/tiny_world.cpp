// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/tiny_world.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hawser::test {

namespace {

constexpr std::uint32_t kOperations = 32;
constexpr proto::Duration kFlight = proto::microseconds(20);

// Tunables as small as can be, so that limits are reached and memory is exhausted quickly.
Tunables tiny_tunables() {
  Tunables tunables;
  tunables.fragment_bytes = 256;
  tunables.unscheduled_bytes = 1024;
  tunables.grant_window_bytes = 65536;
  tunables.unexpected_bytes = 65536;
  tunables.max_peers = 4;
  tunables.max_operations = kOperations;
  tunables.max_messages_per_peer = 8;
  tunables.max_in_flight_packets = 64;
  tunables.max_receive_messages = 16;
  tunables.packet_buffers = 256;
  tunables.max_outstanding_handshakes = 2;
  tunables.max_half_open_sessions = 1;
  tunables.peer_timeout_ms = 200;
  tunables.close_timeout_ms = 50;
  tunables.handshake_retry_us = 1000;
  tunables.initial_rtt_us = 200;
  return tunables;
}

// The byte at `i` of the message with that number.
std::byte byte_of(std::uint64_t serial, std::size_t i) {
  return static_cast<std::byte>(serial * 31 + i * 7 + i / 256);
}

unsigned sum_of(const std::byte* data, std::size_t bytes) {
  return std::accumulate(data, data + bytes, 0u,
                         [](unsigned sum, std::byte b) { return sum * 3 + unsigned(b); });
}

}  // namespace

Status TinyNic::open_remote(const proto::NicAddress& remote, proto::RemoteHandle& handle) {
  const auto number = static_cast<std::uint32_t>(remote.bytes[1]);
  proto::NicAddress expected;
  expected.bytes[0] = std::byte{static_cast<std::uint8_t>(proto::NicKind::memory)};
  expected.bytes[1] = remote.bytes[1];
  if (remote != expected || number >= 2 * TinyNode::kNics + kStrangerNics) {
    return Status::invalid_argument;
  }
  handle = proto::RemoteHandle{number};
  return Status::ok;
}

std::size_t TinyNic::tx_burst(std::span<const proto::TxPacket> packets) {
  for (const proto::TxPacket& packet : packets) {
    sends_.push_back({packet.buffer, packet.cookie, packet.payload, packet.payload_bytes,
                      sum_of(packet.payload, packet.payload_bytes)});
    if (dead || air_.size() >= kMostFlying) continue;
    const auto number = static_cast<std::uint32_t>(packet.remote);
    HAWSER_ASSERT(number < 2 * TinyNode::kNics + kStrangerNics, "sent to nobody");
    Flying& flying = air_.emplace_back();
    flying.to = number / TinyNode::kNics;
    flying.nic = number % TinyNode::kNics;
    flying.queue = packet.queue;
    flying.bytes = std::size_t{packet.header_bytes} + packet.payload_bytes;
    HAWSER_ASSERT(flying.bytes <= caps_.max_datagram_bytes);
    flying.words.resize((flying.bytes + 7) / 8);
    std::memcpy(flying.words.data(), packet.buffer->bytes, packet.header_bytes);
    if (packet.payload_bytes > 0) {
      std::memcpy(flying.datagram().data() + packet.header_bytes, packet.payload,
                  packet.payload_bytes);
    }
  }
  return packets.size();
}

std::size_t TinyNic::reap(std::span<std::uint64_t> cookies) {
  std::size_t count = 0;
  while (!holds_sends && !sends_.empty() && count < cookies.size()) {
    const Send& send = sends_.front();
    // The NIC reads the payload up to here. A buffer that was given back too early makes the
    // sanitizer or the sum fail.
    HAWSER_ASSERT(sum_of(send.payload, send.bytes) == send.sum, "changed while a NIC reads it");
    pool_.give(std::span(&send.buffer, 1));
    if (send.cookie != proto::TxPacket::kNoCookie) cookies[count++] = send.cookie;
    sends_.pop_front();
  }
  return count;
}

std::size_t TinyNic::rx_burst(proto::Queue queue, std::span<proto::RxPacket> packets) {
  std::deque<Flying>& ring = queue == proto::Queue::data ? data_ : control_;
  std::vector<Flying>& views = handed_out_[static_cast<std::size_t>(queue)];
  views.clear();
  const std::size_t count = std::min({ring.size(), packets.size(), kMaxRxBurst});
  for (std::size_t i = 0; i < count; ++i) {
    views.push_back(std::move(ring.front()));
    ring.pop_front();
  }
  for (std::size_t i = 0; i < count; ++i) {
    packets[i] = {views[i].datagram().data(), static_cast<std::uint32_t>(views[i].bytes), queue,
                  false};
  }
  return count;
}

std::size_t TinyNic::events(std::span<proto::NicEvent> out) {
  const std::size_t count = std::min(out.size(), events_.size());
  std::copy_n(events_.begin(), count, out.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

TinyWorld::TinyWorld(const TinyOptions& options) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    TinyNode& node = nodes_[i];
    proto::EndpointConfig config;
    config.tunables = tiny_tunables();
    config.tunables.max_half_open_sessions = options.max_half_open_sessions;
    config.job_secret = std::as_bytes(std::span(options.secrets[i]));
    config.endpoint_id = i + 1;
    config.epoch = 1;
    config.seed = 100 + i;
    node.pool = std::make_unique<SimplePool>(config.tunables.packet_buffers);
    std::array<proto::Nic*, TinyNode::kNics> nics{};
    for (std::uint32_t n = 0; n < TinyNode::kNics; ++n) {
      node.nics.push_back(std::make_unique<TinyNic>(i * TinyNode::kNics + n, air_, *node.pool));
      nics[n] = node.nics.back().get();
    }
    node.endpoint = std::make_unique<proto::Endpoint>(config, nics, *node.pool);
    node.operations.resize(kOperations);
    for (std::uint32_t n = kOperations; n-- > 0;) node.free.push_back(n);
    node.next_turn = now_;
  }
}

void TinyWorld::connect(std::uint32_t from) {
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
  const std::size_t bytes = nodes_[1 - from].endpoint->write_address(blob);
  TinyNode& node = nodes_[from];
  node.next_turn = now_;
  if (node.closing) return;
  PeerId peer = kAnyPeer;
  if (node.endpoint->connect(now_, std::span(blob).first(bytes), peer) == Status::ok) {
    node.peer = peer;
  }
}

TinyOperation* TinyWorld::take(TinyNode& node) {
  if (node.free.empty()) return nullptr;
  const std::uint32_t index = node.free.back();
  TinyOperation& operation = node.operations[index];
  operation = TinyOperation{};
  operation.id = OperationId{(++serials_ << 32) | index};
  return &operation;
}

bool TinyWorld::took(TinyNode& node, TinyOperation& operation, Status status) {
  if (status == Status::ok) {
    node.free.pop_back();
  } else {
    operation = TinyOperation{};
  }
  return status == Status::ok;
}

bool TinyWorld::send(std::uint32_t from, std::size_t bytes, std::uint64_t tag,
                     const proto::SendOptions& options) {
  TinyNode& node = nodes_[from];
  TinyOperation* operation = node.peer == kAnyPeer ? nullptr : take(node);
  if (operation == nullptr) return false;
  operation->is_send = true;
  operation->serial = serials_;
  operation->size = bytes;
  operation->bytes = std::make_unique<std::byte[]>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) operation->bytes[i] = byte_of(serials_, i);
  proto::SendRequest request;
  request.operation = operation->id;
  request.peer = node.peer;
  request.tag = tag;
  request.data = operation->bytes.get();
  request.bytes = bytes;
  request.options = options;
  request.options.immediate = serials_;
  node.next_turn = now_;
  return took(node, *operation, node.endpoint->send(now_, request));
}

bool TinyWorld::receive(std::uint32_t at, std::size_t bytes, std::uint64_t tag,
                        std::uint64_t mask) {
  TinyNode& node = nodes_[at];
  TinyOperation* operation = take(node);
  if (operation == nullptr) return false;
  operation->size = bytes;
  operation->bytes = std::make_unique<std::byte[]>(bytes);
  proto::ReceiveRequest request;
  request.operation = operation->id;
  request.peer = tag % 2 == 0 ? kAnyPeer : node.peer;
  request.tag = tag;
  request.mask = mask;
  request.data = operation->bytes.get();
  request.bytes = bytes;
  node.next_turn = now_;
  return took(node, *operation, node.endpoint->receive(now_, request));
}

void TinyWorld::claim(std::uint32_t at, std::uint64_t tag, std::uint64_t mask) {
  TinyNode& node = nodes_[at];
  if (node.claimed) return;
  Envelope envelope;
  MessageId message = kNoMessage;
  if (node.endpoint->claim(kAnyPeer, 0, tag, mask, envelope, message) == Status::ok) {
    node.claimed = message;
  }
}

void TinyWorld::put_back(std::uint32_t at) {
  TinyNode& node = nodes_[at];
  if (!node.claimed) return;
  (void)node.endpoint->put_back(now_, *node.claimed);
  node.claimed.reset();
  node.next_turn = now_;
}

void TinyWorld::receive_claimed(std::uint32_t at, std::size_t bytes) {
  TinyNode& node = nodes_[at];
  TinyOperation* operation = node.claimed ? take(node) : nullptr;
  if (operation == nullptr) return;
  operation->size = bytes;
  operation->bytes = std::make_unique<std::byte[]>(bytes);
  proto::ReceiveRequest request;
  request.operation = operation->id;
  request.claimed = *node.claimed;
  request.data = operation->bytes.get();
  request.bytes = bytes;
  node.next_turn = now_;
  if (took(node, *operation, node.endpoint->receive(now_, request))) node.claimed.reset();
}

void TinyWorld::cancel(std::uint32_t at, std::uint32_t which) {
  TinyNode& node = nodes_[at];
  node.next_turn = now_;
  (void)node.endpoint->cancel(now_, node.operations[which % kOperations].id);
}

void TinyWorld::check_receive(const TinyOperation& operation, const Completion& completion) const {
  if (!honest) return;
  HAWSER_ASSERT(completion.bytes <= operation.size);
  for (std::size_t b = 0; b < completion.bytes; ++b) {
    HAWSER_ASSERT(operation.bytes[b] == byte_of(completion.immediate, b), "other bytes");
  }
}

void TinyWorld::take_completions(TinyNode& node) {
  std::array<Completion, 16> completions;
  for (std::size_t n = completions.size(); n == completions.size();) {
    n = node.endpoint->poll_completions(completions);
    for (std::size_t i = 0; i < n; ++i) {
      const Completion& completion = completions[i];
      const auto index = static_cast<std::uint32_t>(completion.operation);
      TinyOperation& operation = node.operations[index];
      HAWSER_ASSERT(operation.id == completion.operation, "a completion of nothing");
      const bool ok = completion.status == Status::ok || completion.status == Status::truncated;
      if (operation.is_one_sided()) {
        listener->on_completed(operation, completion);
      } else if (ok) {
        if (!operation.is_send) check_receive(operation, completion);
        ++(operation.is_send ? sends_ok : receives_ok);
      }
      if (!completion.released) continue;
      operation = TinyOperation{};
      node.free.push_back(index);
    }
  }
  std::array<Event, 16> events;
  while (node.endpoint->poll_events(events) == events.size()) {
  }
}

void TinyWorld::take_notices(std::uint32_t i) {
  std::array<Completion, 16> notices;
  for (std::size_t n = notices.size(); n == notices.size();) {
    n = nodes_[i].endpoint->poll_notices(notices);
    for (std::size_t k = 0; k < n && listener != nullptr; ++k) listener->on_notice(i, notices[k]);
  }
  HAWSER_ASSERT(!nodes_[i].endpoint->has_notices(), "a notice is left");
}

void TinyWorld::turn(std::uint32_t i) {
  TinyNode& node = nodes_[i];
  const proto::TurnResult result = node.endpoint->turn(now_);
  node.next_turn = result.progressed ? now_ + proto::microseconds(1) : result.wake_at;
  take_completions(node);
  if (!node.holds_notices) take_notices(i);
}

void TinyWorld::close() {
  for (TinyNode& node : nodes_) {
    node.endpoint->close(now_);
    node.next_turn = now_;
  }
  const bool closed = run(proto::milliseconds(1000), [&] {
    return nodes_[0].endpoint->closed() && nodes_[1].endpoint->closed();
  });
  HAWSER_ASSERT(closed, "an endpoint doesn't close");
  for (std::uint32_t i = 0; i < 2; ++i) {
    turn(i);
    HAWSER_ASSERT(open(i) == 0, "an operation without its completion");
    HAWSER_ASSERT(nodes_[i].pool->in_use() == 0, "a packet buffer is missing");
  }
}

void TinyWorld::step(proto::Time end) {
  if (!air_.empty()) {
    now_ = now_ + kFlight;
    for (std::deque<Flying> all = std::exchange(air_, {}); !all.empty(); all.pop_front()) {
      deliver(std::move(all.front()));
    }
  } else {
    const proto::Time due = proto::earlier(nodes_[0].next_turn, nodes_[1].next_turn);
    now_ = proto::later(now_ + proto::microseconds(1), proto::earlier(due, end));
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    const TinyNode& node = nodes_[i];
    const bool arrivals =
        std::ranges::any_of(node.nics, [](const auto& nic) { return nic->has_arrivals(); });
    if (arrivals || node.next_turn <= now_) turn(i);
  }
}

}  // namespace hawser::test
