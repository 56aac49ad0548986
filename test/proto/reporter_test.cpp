// SPDX-License-Identifier: Apache-2.0
#include "proto/service/reporter.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "proto/peer/peer_lists.hpp"

namespace hawser::proto {
namespace {

struct Reporting {
  Turn turn{Tunables{}, 1, 8};
  PeerTable peers{4};
  Slab<OutgoingMessage> outgoing{4};
  Reporter reporter{turn, peers, outgoing};
  Peer& peer = *peers.make(77);
  Path path;
  std::vector<TraceRecord> records;

  Reporting() {
    path.local_nic = 2;
    path.remote_nic = 3;
    path.slot = 5;
    path.generation = 6;
  }
  void trace() {
    turn.trace_to(
        [](void* context, const TraceRecord& record) {
          static_cast<Reporting*>(context)->records.push_back(record);
        },
        this);
  }
};

}  // namespace

TEST_CASE("reporter: a dropped packet is counted, and traced with its NIC and peer") {
  Reporting at;
  at.reporter.packet_came(1);
  at.reporter.drop(DropReason::duplicate_fragment);
  at.trace();
  at.reporter.packet_came(1);
  at.reporter.drop(DropReason::wrong_token);
  at.reporter.packet_came(2);
  at.reporter.packet_is_from(at.peer.index);
  at.reporter.drop(DropReason::duplicate_fragment);
  at.reporter.packet_came(3);  // nobody's: the peer of the packet before is forgotten
  at.reporter.drop(DropReason::duplicate_fragment);

  const auto& drops = at.turn.counters.drops;
  CHECK(drops[static_cast<std::size_t>(DropReason::duplicate_fragment)] == 3);
  CHECK(drops[static_cast<std::size_t>(DropReason::wrong_token)] == 1);
  REQUIRE(at.records.size() == 3);
  CHECK(at.records[0].kind == TraceKind::packet_dropped);
  CHECK(at.records[0].cause == static_cast<std::uint8_t>(DropReason::wrong_token));
  CHECK(at.records[0].nic == 1);
  CHECK(at.records[0].peer == kNoIndex);
  CHECK(at.records[1].nic == 2);
  CHECK(at.records[1].peer == at.peer.index);
  CHECK(at.records[1].endpoint_id == 77);
  CHECK(at.records[2].nic == 3);
  CHECK(at.records[2].peer == kNoIndex);
}

TEST_CASE("reporter: a change of a path is an event, and a record with the path's state") {
  Reporting at;
  at.trace();
  at.reporter.emit(Event::Kind::path_suspect, at.peer, at.path, Reason::silence);
  std::array<Event, 2> events;
  REQUIRE(at.turn.poll_events(events) == 1);
  CHECK(events[0].kind == Event::Kind::path_suspect);
  CHECK(events[0].reason == Reason::silence);
  CHECK(events[0].peer == at.peers.id_of(at.peer));
  CHECK(events[0].endpoint_id == 77);
  CHECK(events[0].nic == 2);
  CHECK(events[0].remote_nic == 3);
  REQUIRE(at.records.size() == 1);
  CHECK(at.records[0].kind == TraceKind::path_state);
  CHECK(at.records[0].cause == static_cast<std::uint8_t>(Reason::silence));
  CHECK(at.records[0].detail == static_cast<std::uint32_t>(PathState::suspect));
  CHECK(at.records[0].slot == 5);
  CHECK(at.records[0].generation == 6);
}

TEST_CASE("reporter: a packet's record names its message as long as that exists") {
  Reporting at;
  SlabId id;
  OutgoingMessage* message = at.outgoing.try_allocate(id);
  message->number = 900;
  message->bytes = 100;
  message->operation = OperationId{12};
  message->fragment_bytes = 64;
  SentPacket packet;
  packet.message = id.index;
  packet.message_generation = id.generation;
  packet.fragment = 1;
  TraceRecord record = at.reporter.traced(TraceKind::packet_lost, at.peer, at.path, 41, packet);
  CHECK(record.path_number == 41);
  CHECK(record.message == 900);
  CHECK(record.operation == 12);
  CHECK(record.fragment == 1);
  CHECK(record.bytes == 36);

  at.outgoing.free(id.index);
  record = at.reporter.traced(TraceKind::packet_lost, at.peer, at.path, 41, packet);
  CHECK(record.path_number == 41);
  CHECK(record.message == TraceRecord{}.message);
  CHECK(record.bytes == 0);

  packet.packed = true;  // messages 2^32 + 5 and the two that follow
  packet.message_generation = 5;
  packet.fragment = 2;
  at.peer.sends.next_number = (std::uint64_t{1} << 32) + 8;
  record = at.reporter.traced(TraceKind::packet_lost, at.peer, at.path, 41, packet);
  CHECK(record.message == (std::uint64_t{1} << 32) + 5);
  CHECK(record.more == 2);
}

TEST_CASE("senders: a peer is listed once, while it is READY and has something to send") {
  Reporting at;
  Senders senders(at.peers);
  SlabId id;
  (void)at.outgoing.try_allocate(id);
  senders.want(at.peer);
  CHECK(senders.empty());  // it is not READY
  at.peer.session.state = SessionState::ready;
  senders.want(at.peer);
  CHECK(senders.empty());  // it has nothing to send
  at.peer.sends.to_send.push_back(at.outgoing, id.index);
  senders.want(at.peer);
  senders.want(at.peer);
  REQUIRE(senders.pop_front(at.peers) == at.peer.index);
  CHECK(senders.empty());
}

}  // namespace hawser::proto
