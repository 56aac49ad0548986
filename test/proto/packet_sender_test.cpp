// SPDX-License-Identifier: Apache-2.0
#include "proto/service/packet_sender.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "proto/wire/mac.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

struct SenderAlone : Sending {
  // Sends a packet of that type without payload.
  bool send(wire::PacketType type, const Routes& routes) {
    PacketBuffer* const buffer = sender.take_buffer();
    REQUIRE(buffer != nullptr);
    wire::PacketWriter writer(*buffer);
    writer.begin(type, peer.session.remote_index, peer.session.remote_token, 0);
    if (type == wire::PacketType::reset) writer.part(wire::ClosingPart{1, 0, 0, 0, {}});
    return sender.send_over(peer, routes, *buffer, writer);
  }
};

}  // namespace

TEST_CASE("packet sender: its limits are those of the weakest NIC") {
  SenderAlone at;
  const NicLimits& limits = at.sender.limits();
  REQUIRE(limits.fragment_bytes == (2048 - wire::kDataHeaderBytes) / 16 * 16);
  REQUIRE(limits.control_bytes == PacketBuffer::kBytes);
  REQUIRE(limits.receive_bytes == 204'800);
  REQUIRE(limits.burst_packets == 8);
  REQUIRE(limits.checksum);
  REQUIRE(limits.link_bytes_per_s == 2'000'000'000);
  const auto padding = at.sender.padding(limits.fragment_bytes);
  REQUIRE(padding.size() == limits.fragment_bytes);
  REQUIRE(std::ranges::all_of(padding, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("packet sender: a packet goes over each of its routes once") {
  SenderAlone at;
  Routes routes;
  routes.first = {0, 1};
  routes.add({1, 0});
  routes.add({0, 1});  // the first one
  REQUIRE(at.send(wire::PacketType::control, routes));
  REQUIRE(at.first.sent.size() == 1);
  REQUIRE(at.second.sent.size() == 1);
  const auto& over_first = at.first.sent.front();
  REQUIRE(at.first.open.at(over_first.remote) == at.peers.nic_of(at.peer, 1).address);
  REQUIRE(over_first.queue == Queue::control);
  const auto view = over_first.parsed();  // with its checksum
  REQUIRE(view);
  REQUIRE(view->header->receiver == 9);
  REQUIRE(view->header->token == 11);
  REQUIRE(view->header->nic() == 0);
  REQUIRE(at.second.sent.front().parsed()->header->nic() == 1);
  // The caller counts the packet itself.
  REQUIRE(at.turn.counters.control_packets_sent == 1);
  REQUIRE(at.pool.in_use() == 0);
}

TEST_CASE("packet sender: no copy of a packet leaves without it") {
  SenderAlone at;
  Routes routes;
  routes.first = {0, 0};
  routes.add({0, 1});  // by the same NIC
  routes.add({1, 0});
  at.first.room = 0;
  REQUIRE_FALSE(at.send(wire::PacketType::control, routes));
  REQUIRE(at.first.sent.empty());
  REQUIRE(at.second.sent.empty());
  REQUIRE(at.turn.counters.control_packets_sent == 0);
  at.first.room = 1;
  REQUIRE(at.send(wire::PacketType::control, routes));
  REQUIRE(at.first.sent.size() == 1);
  REQUIRE(at.first.open.at(at.first.sent.front().remote) == at.peers.nic_of(at.peer, 0).address);
  REQUIRE(at.second.sent.size() == 1);
  REQUIRE(at.pool.in_use() == 0);
}

TEST_CASE("packet sender: of many copies each finds room in its turn") {
  SenderAlone at;
  Routes routes;
  routes.first = {0, 0};
  routes.add({1, 0});
  routes.add({1, 1});
  std::vector<NicAddress> reached;
  for (int i = 0; i < 2; ++i) {
    (void)at.turn.begin(at.turn.now() + milliseconds(1));
    at.second.room = 1;
    REQUIRE(at.send(wire::PacketType::control, routes));
    reached.push_back(at.second.open.at(at.second.sent.back().remote));
  }
  REQUIRE(reached[0] != reached[1]);
  REQUIRE(at.turn.counters.control_packets_sent == 2);
}

TEST_CASE("packet sender: a copy for a NIC that is down, or without a buffer, is left out") {
  SenderAlone at;
  Routes routes;
  routes.first = {0, 0};
  routes.add({1, 0});
  at.sender.nics()[1].up = false;
  REQUIRE(at.send(wire::PacketType::control, routes));
  at.sender.nics()[1].up = true;
  std::array<PacketBuffer*, 3> taken{};
  REQUIRE(at.sender.take_buffers(taken) == 3);
  REQUIRE(at.send(wire::PacketType::control, routes));
  at.sender.give_buffers(taken);
  REQUIRE(at.first.sent.size() == 2);
  REQUIRE(at.second.sent.empty());
  REQUIRE(at.pool.in_use() == 0);
}

TEST_CASE("packet sender: a refused packet's buffer goes back to the pool") {
  SenderAlone at;
  Routes routes;
  at.first.room = 0;
  REQUIRE_FALSE(at.send(wire::PacketType::control, routes));
  REQUIRE(at.turn.counters.nic_backpressure == 1);
  REQUIRE(at.sender.nics()[0].packets_sent == 0);
  at.first.room = 1;
  at.first.knows_way = false;
  at.sender.close_remotes(at.peer, 0);
  REQUIRE_FALSE(at.send(wire::PacketType::control, routes));
  REQUIRE(at.first.sent.empty());
  REQUIRE(at.pool.in_use() == 0);
}

TEST_CASE("packet sender: packets of sessions have a MAC") {
  SenderAlone at;
  Routes routes;
  routes.add({1, 1});
  REQUIRE(at.send(wire::PacketType::reset, routes));
  for (const auto* nic : {&at.first, &at.second}) {
    const auto view = nic->sent.front().parsed();
    REQUIRE(view);
    REQUIRE(nic->sent.front().queue == Queue::data);
    REQUIRE(wire::verify(*view, kSecret));  // it covers the NIC's number, which differs
  }
}

TEST_CASE("packet sender: handles are opened at their first use, and closed with the address") {
  SenderAlone at;
  REQUIRE(at.sender.can_address(at.peer, 0, 1));
  REQUIRE_FALSE(at.sender.can_address(at.peer, 0, 2));  // the peer has no such NIC
  REQUIRE(at.first.open.empty());
  const RemoteHandle handle = at.sender.remote(at.peer, {0, 1});
  REQUIRE(at.sender.remote(at.peer, {0, 1}) == handle);
  REQUIRE(at.first.open.size() == 1);
  REQUIRE(at.sender.remote(at.peer, {0, 2}) == kNoRemote);
  at.sender.close_remotes(at.peer, 0);
  REQUIRE(at.first.open.size() == 1);
  at.sender.close_remotes(at.peer, 1);
  REQUIRE(at.first.open.empty());
}

TEST_CASE("packet sender: a NIC counts what it takes, and is flushed if it took anything") {
  SenderAlone at;
  at.sender.flush();
  REQUIRE(at.first.flushes == 0);
  REQUIRE(at.send(wire::PacketType::control, {}));
  const LocalNic& local = at.sender.nics()[0];
  REQUIRE(local.packets_sent == 1);
  REQUIRE(local.bytes_sent == at.first.sent.front().header_bytes);
  REQUIRE(local.idle_at == at.turn.now() + local.time_of(local.bytes_sent));
  at.sender.flush();
  at.sender.flush();
  REQUIRE(at.first.flushes == 1);
  REQUIRE(at.second.flushes == 0);
  // Packets without a path number take the lanes in turn.
  REQUIRE(at.send(wire::PacketType::control, {}));
  REQUIRE(at.first.sent[0].entropy != at.first.sent[1].entropy);
}

}  // namespace hawser::proto
