// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/answering_nic.hpp"

#include <algorithm>
#include <cstring>

#include "proto/base/assert.hpp"
#include "proto/endpoint.hpp"
#include "proto/wire/mac.hpp"

namespace hawser::bench {

namespace {

using proto::Queue;
namespace wire = proto::wire;

constexpr std::uint32_t kEchoBytes = 8;
constexpr std::uint32_t kOwnNumber = 0xfffffff0u;  // the address of this NIC itself

proto::NicAddress address_with(std::uint32_t number) {
  proto::NicAddress address;
  address.bytes[0] = static_cast<std::byte>(proto::NicKind::memory);
  std::memcpy(&address.bytes[1], &number, sizeof number);
  return address;
}

// For NICs that are made only to ask for their address.
class NoPool final : public proto::PacketPool {
 public:
  [[nodiscard]] std::size_t take(std::span<proto::PacketBuffer*>) override { return 0; }
  void give(std::span<proto::PacketBuffer* const>) override {}
  [[nodiscard]] std::size_t in_use() const override { return 0; }
};

std::uint64_t token_of(std::uint32_t peer) { return 0x9e3779b97f4a7c15u * (peer + 1) | 1; }

wire::NicRecord record_of(std::uint32_t peer) {
  wire::NicRecord record{};
  record.address = address_with(peer);
  record.receive_kib = 4096;
  record.max_datagram = (AnsweringNic::kFragmentBytes + 256) / 8;
  record.state = 1;
  return record;
}

}  // namespace

AnsweringNic::AnsweringNic(const AnsweringConfig& config, proto::PacketPool& pool)
    : config_(config), pool_(pool), address_(address_with(kOwnNumber)), peers_(config.peers) {
  HAWSER_ASSERT((config.most_answers & (config.most_answers - 1)) == 0);
  caps_.max_datagram_bytes = kFragmentBytes + 256;
  caps_.entropies = config.entropies;
  caps_.needs_checksum = false;
  caps_.receive_bytes = 4 << 20;
  caps_.link_bytes_per_s = config.link_bytes_per_s;
  for (Ring& ring : rings_) {
    ring.answers.resize(config.most_answers);
    ring.lengths.resize(config.most_answers);
    ring.due.resize(config.most_answers);
  }
}

std::vector<std::byte> AnsweringNic::address_of(std::uint32_t peer) {
  NoPool pool;
  AnsweringNic nic({.most_answers = 1}, pool);
  nic.address_ = address_with(peer);
  proto::EndpointConfig config;
  config.endpoint_id = kFirstId + peer;
  config.epoch = 1;
  config.tunables.max_peers = config.tunables.max_messages_per_peer = 4;
  config.tunables.max_operations = config.tunables.max_receive_messages = 16;
  config.tunables.max_in_flight_packets = 64;
  config.tunables.unexpected_bytes = 65'536;
  std::array<proto::Nic*, 1> nics{&nic};
  const proto::Endpoint endpoint(config, nics, pool);
  std::vector<std::byte> blob(proto::Endpoint::kMaxAddressBytes);
  blob.resize(endpoint.write_address(std::span(blob).first<proto::Endpoint::kMaxAddressBytes>()));
  return blob;
}

Status AnsweringNic::open_remote(const proto::NicAddress& remote, proto::RemoteHandle& handle) {
  std::uint32_t number = 0;
  std::memcpy(&number, &remote.bytes[1], sizeof number);
  if (number >= peers_.size()) return Status::invalid_argument;
  handle = proto::RemoteHandle{number};
  return Status::ok;
}

std::size_t AnsweringNic::tx_burst(std::span<const proto::TxPacket> packets) {
  for (const proto::TxPacket& packet : packets) {
    const auto at = static_cast<std::uint32_t>(headers_.size());
    headers_.resize(at + (packet.header_bytes + 7) / 8 * 8);
    std::memcpy(&headers_[at], packet.buffer->bytes, packet.header_bytes);
    sent_.push_back(
        {static_cast<std::uint32_t>(packet.remote), at, packet.header_bytes, packet.queue});
    pool_.give({&packet.buffer, 1});
    if (packet.cookie != proto::TxPacket::kNoCookie) cookies_.push_back(packet.cookie);
    used_[static_cast<std::size_t>(packet.queue)] = true;
  }
  packets_ += packets.size();
  return packets.size();
}

std::size_t AnsweringNic::reap(std::span<std::uint64_t> cookies) {
  const std::size_t count = std::min(cookies.size(), reapable_.size());
  std::copy_n(reapable_.end() - static_cast<std::ptrdiff_t>(count), count, cookies.begin());
  reapable_.resize(reapable_.size() - count);
  return count;
}

std::size_t AnsweringNic::rx_burst(Queue queue, std::span<proto::RxPacket> packets) {
  Ring& ring = rings_[static_cast<std::size_t>(queue)];
  const std::size_t limit = std::min(packets.size(), kMaxRxBurst);
  std::size_t count = 0;
  for (; count < limit && ring.begin != ring.end; ++count, ++ring.begin) {
    const std::size_t place = ring.begin & (config_.most_answers - 1);
    if (now_ < ring.due[place]) break;
    packets[count] = {ring.answers[place].bytes, ring.lengths[place], queue, false,
                      ring.due[place]};
  }
  packets_ += count;
  used_[static_cast<std::size_t>(queue)] |= count > 0;
  return count;
}

// Keep room for one burst: the endpoint owns the newest views until it calls rx_burst again.
bool AnsweringNic::has_room() const {
  return std::ranges::all_of(rings_, [this](const Ring& ring) {
    return ring.end - ring.begin + kMaxRxBurst < config_.most_answers;
  });
}

void AnsweringNic::answer(proto::Time now) {
  now_ = now;
  std::swap(cookies_, reapable_);
  reapable_.insert(reapable_.end(), cookies_.begin(), cookies_.end());
  cookies_.clear();
  if (held_back_) return;
  while (answered_ < sent_.size() && has_room()) {
    const Sent& sent = sent_[answered_++];
    take(sent.peer, std::span(headers_).subspan(sent.at, sent.bytes), sent.queue);
  }
  if (answered_ < sent_.size()) return;
  answered_ = 0;
  sent_.clear();
  headers_.clear();
}

void AnsweringNic::take(std::uint32_t number, std::span<const std::byte> headers, Queue queue) {
  Peer& peer = peers_[number];
  wire::PacketView packet;
  HAWSER_ASSERT(!wire::parse(headers, queue, false, packet), "the endpoint sends what is none");
  struct Finals {
    Peer& peer;
    void operator()(const wire::StatusView& view) const {
      for (const wire::StatusEntry& entry : view.entries) {
        peer.floor = std::max(peer.floor, entry.message + entry.run);
      }
    }
  };
  packet.blocks.visit(Finals{peer});
  switch (packet.type) {
    case wire::PacketType::hello: return welcome(peer, number, *packet.session);
    case wire::PacketType::data: ++messages_taken_; return acknowledge(peer, number, packet);
    case wire::PacketType::probe:
    case wire::PacketType::envelope: return acknowledge(peer, number, packet);
    default: return;  // the endpoint's acknowledgements, and the end of the handshake
  }
}

void AnsweringNic::welcome(Peer& peer, std::uint32_t number, const wire::SessionPart& hello) {
  ++hellos_;
  peer.token = hello.my_token;
  peer.receiver = hello.my_index;
  wire::PacketWriter writer(scratch_);
  writer.begin(wire::PacketType::welcome, hello.my_index, hello.my_token, 0);
  wire::SessionPart part{};
  part.sender_id = kFirstId + number;
  part.target_id = hello.sender_id;
  part.epoch = 1;
  part.counter = 1;
  part.my_index = number;
  part.my_token = token_of(number);
  part.echo_epoch = hello.epoch;
  part.echo_counter = hello.counter;
  part.echo_token = hello.my_token;
  part.sequence = ++peer.turn;
  part.fragment_bytes = kFragmentBytes;
  part.nics = 1;
  part.cookie = hello.sequence;
  part.unscheduled_bytes = 65536;
  writer.part(part);
  writer.part(record_of(number));
  wire::sign(writer, {});
  put(Queue::data, writer, 0);
}

// Acknowledges everything in flight: nothing is lost here, so all of it came, in order.
void AnsweringNic::acknowledge(Peer& peer, std::uint32_t number, const wire::PacketView& packet) {
  (void)number;
  wire::PacketWriter writer(scratch_);
  const bool is_message = packet.type == wire::PacketType::data;
  const bool echoes = config_.sends_back && is_message;
  if (echoes) {
    write_message(writer, peer, kEchoBytes);
  } else {
    writer.begin(wire::PacketType::control, peer.receiver, peer.token, peer.floor);
  }
  bool all = writer.ack_info(++peer.turn, 0, 4096);
  if (packet.type != wire::PacketType::envelope) {
    const std::uint32_t back = std::min<std::uint32_t>(packet.header->path_back, 63);
    const std::uint64_t bitmap = ~std::uint64_t{0} >> (63 - back);
    all = all && writer.path_ack(packet.header->path_slot(), packet.header->generation,
                                 packet.header->path_number, 0, 0, std::span(&bitmap, 1));
  }
  if (packet.fragment != nullptr) {
    all = all && writer.status(packet.fragment->message, wire::MessageStatus::delivered);
  }
  HAWSER_ASSERT(all);
  put(echoes ? Queue::data : Queue::control, writer, echoes ? kEchoBytes : 0);
}

void AnsweringNic::write_message(wire::PacketWriter& writer, Peer& peer, std::uint32_t bytes) {
  wire::CommonHeader& header =
      writer.begin(wire::PacketType::data, peer.receiver, peer.token, peer.floor);
  header.generation = 1;
  header.flags = wire::kFlagAllSent;
  header.path_number = peer.next_path_number++;
  writer.part(wire::FragmentPart{peer.next_message++, 0});
  wire::EnvelopePart envelope{};
  envelope.set_length(bytes);
  writer.part(envelope);
}

void AnsweringNic::send_from(std::uint32_t peer) {
  wire::PacketWriter writer(scratch_);
  write_message(writer, peers_[peer], 0);
  put(Queue::data, writer, 0);
}

void AnsweringNic::put(Queue queue, wire::PacketWriter& writer, std::uint32_t payload_bytes) {
  Ring& ring = rings_[static_cast<std::size_t>(queue)];
  HAWSER_ASSERT(ring.end - ring.begin < config_.most_answers);
  const std::uint32_t bytes = writer.finish(false);
  HAWSER_ASSERT(bytes + payload_bytes <= kAnswerBytes);
  const std::size_t place = ring.end++ & (config_.most_answers - 1);
  std::memcpy(ring.answers[place].bytes, scratch_.bytes, bytes);
  std::memset(ring.answers[place].bytes + bytes, 0x5a, payload_bytes);
  ring.lengths[place] = bytes + payload_bytes;
  ring.due[place] = now_ + config_.round_trip;
}

std::uint32_t AnsweringNic::queues_used() const {
  return static_cast<std::uint32_t>(std::ranges::count(used_, true));
}

}  // namespace hawser::bench
