// SPDX-License-Identifier: Apache-2.0
// A peer whose every session packet the test writes, and which shows each packet that it gets. It
// can do what no endpoint would do, and it shows each answer by itself.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "proto/wire/mac.hpp"
#include "proto/wire/packet.hpp"
#include "test/protocol/injector.hpp"
#include "test/support/simple_pool.hpp"
#include "test/support/virtual_world.hpp"

namespace hawser::test {

class ScriptedPeer {
 public:
  // The parts of a packet that tests look at. Parts that the packet lacks are zeros.
  struct Seen {
    proto::wire::PacketType type{};
    proto::wire::CommonHeader header{};
    proto::wire::SessionPart session{};
    proto::wire::ClosingPart closing{};
    std::uint64_t cookie = 0;
    std::size_t bytes = 0;
  };

  ScriptedPeer(World& world, std::uint32_t node, std::uint64_t name, std::string secret = {})
      : id(name),
        world_(world),
        node_(node),
        secret_(std::move(secret)),
        pool_(256),
        nic_(world.fabric(), {}, pool_) {}

  // The fields of the peer's next packets: its own state, and what it knows of the other end.
  std::uint64_t id;
  std::uint64_t epoch = 1;
  std::uint32_t counter = 1;
  std::uint64_t token = 0x0123456789abcdef;
  std::uint32_t index = 7;
  std::uint64_t cookie = 0;
  std::uint32_t sequence = 0;  // grows by itself
  std::uint64_t unscheduled_bytes = 65536;
  std::uint8_t features = 0;
  std::uint32_t path_number = 0;  // of its next sequenced packet; grows by itself
  std::uint32_t floor = 0;
  bool echo = false;
  bool damage_mac = false;
  proto::NicAddress pretended{};   // sent as its address, if it isn't zeros
  std::uint16_t max_datagram = 0;  // of its NIC, in units of 8 bytes; 0: the real one
  // The state of the other end, from its last HELLO or WELCOME.
  std::uint32_t their_index = 0;
  std::uint64_t their_token = 0;
  std::uint64_t their_epoch = 0;
  std::uint32_t their_counter = 0;

  // The address for the other end's connect().
  [[nodiscard]] std::vector<std::byte> address() const {
    struct Head {
      std::array<char, 8> magic{'H', 'W', 'S', 'R', 'A', 'D', 'R', '1'};
      std::uint64_t endpoint_id = 0;
      std::uint64_t epoch = 0;
      std::uint32_t nics = 1;
      std::uint32_t reserved = 0;
    } head;
    head.endpoint_id = id;
    head.epoch = epoch;
    const proto::wire::NicRecord nic = record();
    std::vector<std::byte> blob(sizeof head + sizeof nic);
    std::memcpy(blob.data(), &head, sizeof head);
    std::memcpy(blob.data() + sizeof head, &nic, sizeof nic);
    return blob;
  }

  // Sends a HELLO or WELCOME.
  void say(proto::wire::PacketType type) {
    proto::PacketBuffer* buffer = take();
    proto::wire::PacketWriter writer(*buffer);
    writer.begin(type, proto::wire::kNoReceiver, 0, 0);
    proto::wire::SessionPart part{};
    part.sender_id = id;
    part.target_id = node_ + 1;
    part.epoch = epoch;
    part.counter = counter;
    part.my_index = index;
    part.my_token = token;
    if (echo) {
      part.echo_epoch = their_epoch;
      part.echo_counter = their_counter;
      part.echo_token = their_token;
    }
    part.sequence = ++sequence;
    part.fragment_bytes = 4096;
    part.nics = 1;
    part.features = features;
    part.cookie = cookie;
    part.unscheduled_bytes = unscheduled_bytes;
    writer.part(part);
    writer.part(record());
    sign_and_send(*buffer, writer, proto::Queue::data);
  }
  // Sends a CLOSE, CLOSED or RESET.
  void end(proto::wire::PacketType type, std::uint8_t flags = proto::wire::kClosingLast,
           std::uint8_t part = 0) {
    proto::PacketBuffer* buffer = take();
    proto::wire::PacketWriter writer(*buffer);
    writer.begin(type, their_index, their_token, 0);
    writer.part(proto::wire::ClosingPart{++sequence, part, flags, 0, {}});
    sign_and_send(*buffer, writer, proto::Queue::data);
  }
  void challenge(std::uint64_t with) {
    proto::PacketBuffer* buffer = take();
    proto::wire::PacketWriter writer(*buffer);
    writer.begin(proto::wire::PacketType::challenge, their_index, their_token, 0);
    writer.part(proto::wire::ChallengePart{with, {}});
    sign_and_send(*buffer, writer, proto::Queue::data);
  }
  // Sends a packet of the session; `write` adds parts and blocks, and may change its header.
  template <class Write>
  void put(proto::wire::PacketType type, std::span<const std::byte> payload, Write&& write) {
    const proto::wire::PacketRule& rule = proto::wire::rule_of(type);
    proto::PacketBuffer* buffer = take();
    proto::wire::PacketWriter writer(*buffer);
    writer.begin(type, their_index, their_token, floor);
    if (rule.sequenced) {
      writer.header().generation = 1;
      writer.header().path_number = path_number++;
    }
    write(writer);
    send(*buffer, writer, rule.queue, payload);
  }
  // Sends an empty control packet, which only shows that the peer knows the session.
  void speak() {
    put(proto::wire::PacketType::control, {}, [](proto::wire::PacketWriter&) {});
  }

  // The packets since the last call of one of these three functions, without control packets and
  // probes.
  std::vector<Seen> seen() {
    std::vector<Seen> all;
    for_each_packet([&](const proto::RxPacket& packet) { note(packet, all); });
    return all;
  }
  // The raw packets, with control packets and probes.
  std::vector<Datagram> datagrams() {
    std::vector<Datagram> all;
    for_each_packet([&](const proto::RxPacket& packet) {
      all.emplace_back(packet.queue, std::span(packet.data, packet.bytes),
                       std::span<const std::byte>{});
    });
    return all;
  }
  // The names of the packets, in order.
  std::string heard() {
    std::string names;
    for (const Seen& packet : seen()) {
      if (!names.empty()) names += ' ';
      names += proto::wire::rule_of(packet.type).name;
    }
    return names;
  }
  [[nodiscard]] const proto::NicAddress& nic_address() const { return nic_.address(); }
  [[nodiscard]] std::size_t bytes_sent() const { return bytes_sent_; }

 private:
  [[nodiscard]] proto::wire::NicRecord record() const {
    const bool pretends = pretended != proto::NicAddress{};
    return {pretends ? pretended : nic_.address(), 4096,
            max_datagram != 0 ? max_datagram
                              : static_cast<std::uint16_t>(nic_.caps().max_datagram_bytes / 8),
            0, 1};
  }
  proto::PacketBuffer* take() {
    proto::PacketBuffer* buffer = nullptr;
    REQUIRE(pool_.take(std::span(&buffer, 1)) == 1);
    return buffer;
  }
  void sign_and_send(proto::PacketBuffer& buffer, proto::wire::PacketWriter& writer,
                     proto::Queue queue) {
    proto::wire::sign(writer, std::as_bytes(std::span(secret_)));
    if (damage_mac) buffer.bytes[writer.header_bytes() - 1] ^= std::byte{1};
    send(buffer, writer, queue);
  }
  void send(proto::PacketBuffer& buffer, proto::wire::PacketWriter& writer, proto::Queue queue,
            std::span<const std::byte> payload = {}) {
    proto::TxPacket packet;
    packet.buffer = &buffer;
    packet.header_bytes = writer.finish(true, payload);
    packet.payload = payload.data();
    packet.payload_bytes = static_cast<std::uint32_t>(payload.size());
    packet.queue = queue;
    REQUIRE(nic_.open_remote(world_.nic(node_, 0).address(), packet.remote) == Status::ok);
    REQUIRE(nic_.tx_burst(std::span(&packet, 1)) == 1);
    bytes_sent_ += packet.header_bytes;
    std::array<std::uint64_t, 8> cookies;
    (void)nic_.reap(cookies);
    nic_.close_remote(packet.remote);
    world_.wake(node_);
  }
  template <class Take>
  void for_each_packet(Take&& take) {
    std::array<proto::RxPacket, 64> batch;
    for (const proto::Queue queue : {proto::Queue::control, proto::Queue::data}) {
      for (std::size_t n = batch.size(); n == batch.size();) {
        n = nic_.rx_burst(queue, batch);
        for (std::size_t i = 0; i < n; ++i) take(batch[i]);
      }
    }
  }
  void note(const proto::RxPacket& received, std::vector<Seen>& all) {
    proto::wire::PacketView view;
    REQUIRE(!proto::wire::parse({received.data, received.bytes}, received.queue, true, view));
    if (view.type == proto::wire::PacketType::control ||
        view.type == proto::wire::PacketType::probe) {
      return;
    }
    Seen packet{.type = view.type, .header = *view.header, .bytes = received.bytes};
    if (view.session != nullptr) {
      packet.session = *view.session;
      their_index = view.session->my_index;
      their_token = view.session->my_token;
      their_epoch = view.session->epoch;
      their_counter = view.session->counter;
    }
    if (view.closing != nullptr) packet.closing = *view.closing;
    if (view.challenge != nullptr) packet.cookie = view.challenge->cookie;
    all.push_back(packet);
  }

  World& world_;
  std::uint32_t node_;
  std::string secret_;
  SimplePool pool_;
  engine::MemoryNic nic_;
  std::size_t bytes_sent_ = 0;
};

}  // namespace hawser::test
