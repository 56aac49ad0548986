// SPDX-License-Identifier: Apache-2.0
#include "proto/service/outbox.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "proto/base/sequence.hpp"
#include "proto/message/finished_entry.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

using wire::MessageStatus;

// The contents of a control packet, block by block.
struct Said {
  std::vector<wire::PathAckView> acks;
  std::map<std::uint32_t, MessageStatus> statuses;
  std::vector<wire::GrantBlock> grants;
  std::vector<wire::RequestView> requests;
  std::vector<wire::NicStateBlock> nics;
  std::uint16_t behind = 0;

  explicit Said(const wire::BlockRange& blocks) { blocks.visit(*this); }
  void operator()(const wire::AckInfoBlock& block) { behind = block.behind; }
  void operator()(wire::PathAckView view) { acks.push_back(view); }
  void operator()(wire::StatusView view) {
    for (const wire::StatusEntry& entry : view.entries) {
      for (std::uint32_t i = 0; i < std::max<std::uint32_t>(entry.run, 1); ++i) {
        statuses[entry.message + i] = entry.status;
      }
    }
  }
  void operator()(const wire::GrantBlock& block) { grants.push_back(block); }
  void operator()(wire::RequestView view) { requests.push_back(view); }
  void operator()(const wire::NicStateBlock& block) { nics.push_back(block); }
};

// An outbox, and a READY peer that gets a receive path by its first packet.
struct Owing : Sending, Solicitor {
  Slab<Path> paths{4};
  Slab<OutgoingMessage> outgoing{4};
  Reporter reporter{turn, peers, outgoing};
  ReceivePaths receive_paths{turn, reporter, 4};
  Slab<IncomingMessage> incoming{4};
  BlockPool bitmap_blocks{8, 8};
  MessageTablePool numbers{8};
  Allowance allowance;
  TouchedPeers touched{peers};
  ControlRoutes routes{turn, sender, paths, touched};
  Outbox outbox{{turn, peers, touched, sender, routes, receive_paths, incoming, allowance, *this},
                8};
  ReceivePath* path = nullptr;
  bool has_room = true;  // for solicitations
  int solicitations = 0;

  Owing() {
    peer.paths.indices.fill(kNoIndex);
    peer.paths.receiving.fill(kNoIndex);
    peer.session.state = SessionState::ready;
    REQUIRE(peer.receives.table.open(numbers, 0));
    next_turn(milliseconds(2));
  }
  ~Owing() {
    for (std::uint32_t i = 0; i < incoming.capacity(); ++i) {
      if (incoming.is_live(i)) incoming.at(i).arrived.release();
    }
    peer.receives.table.close();
  }

  [[nodiscard]] bool write_solicitation(Peer&, wire::PacketWriter&) override {
    ++solicitations;
    return has_room;
  }

  void next_turn(Duration later = {}) {
    (void)turn.begin(turn.now() + later);
    for (LocalNic& local : sender.nics()) local.drained = turn.number();
  }
  // `back`: the oldest number that the sender still awaits is so far below.
  void arrive(std::uint64_t number, std::uint8_t flags = 0, bool overtaken = false,
              std::uint16_t back = 0) {
    wire::CommonHeader header{};
    header.flags = flags;
    header.path_number = to_wire(number);
    header.path_back = back;
    wire::PacketView packet;
    packet.header = &header;
    const ReceivePaths::Arrival arrival = receive_paths.note(peer, 0, packet, false);
    REQUIRE(arrival.path != nullptr);
    path = arrival.path;
    if (!arrival.is_new) {
      outbox.acknowledge_again(peer, *path);
    } else {
      outbox.acknowledge(peer, *path, header, overtaken);
    }
  }
  // A message of ten fragments, of which the first has arrived.
  IncomingMessage& message(std::uint64_t number) {
    SlabId id;
    IncomingMessage& message = *incoming.try_allocate(id);
    message.peer = peer.index;
    message.number = number;
    message.fragments = message.may_come = 10;
    REQUIRE(message.arrived.start(bitmap_blocks, 10));
    REQUIRE(message.arrived.claim(0) == FragmentBitmap::Claim::fresh);
    return message;
  }
  // How many packets left by a call.
  std::size_t send(bool urgent_only = false) {
    const std::size_t before = first.sent.size() + second.sent.size();
    outbox.send_due(urgent_only);
    return first.sent.size() + second.sent.size() - before;
  }
  Said said() { return Said(first.sent.back().parsed()->blocks); }
};

}  // namespace

TEST_CASE(
    "outbox: an acknowledgement leaves after its delay, or with the packet that makes it due") {
  Owing at;
  at.arrive(0);
  REQUIRE(at.outbox.is_scheduled(at.peer));
  REQUIRE(at.touched.contains(at.peer));
  const Time due = at.turn.now() + microseconds(at.tunables.max_ack_delay_us);
  REQUIRE(at.outbox.due_at(at.peer) == due);
  REQUIRE(at.send() == 0);
  SECTION("after its delay") {
    at.next_turn(due - at.turn.now());
    REQUIRE(at.send(true) == 0);  // it isn't urgent
    REQUIRE(at.send() == 1);
  }
  SECTION("after so many packets") {
    for (std::uint64_t i = 1; i < at.tunables.ack_every_packets; ++i) {
      REQUIRE(at.send() == 0);
      at.arrive(i);
    }
    REQUIRE(at.send(true) == 1);
  }
  SECTION("with a packet that asks for it") {
    at.arrive(1, wire::kFlagAckNow);
    REQUIRE(at.send(true) == 1);
  }
  SECTION("with a packet that shows a gap") {
    at.arrive(2, 0, true);
    REQUIRE(at.send(true) == 1);
  }
  SECTION("with a packet that came twice") {
    at.arrive(0);
    REQUIRE(at.send(true) == 1);
  }
  SECTION("in the next turn, at the end of a message") {
    at.arrive(1, wire::kFlagAllSent);
    REQUIRE(at.send() == 0);
    at.next_turn();
    REQUIRE(at.send() == 1);
  }
  REQUIRE(at.said().acks.size() == 1);
  REQUIRE(at.said().acks.front().largest == at.path->window.largest());
  REQUIRE_FALSE(at.path->ack_due);
  REQUIRE_FALSE(at.outbox.has_due(at.peer));
  REQUIRE_FALSE(at.outbox.is_scheduled(at.peer));
  REQUIRE(at.outbox.due_at(at.peer) == kNever);
}

TEST_CASE("outbox: overtaking means nothing on a path with lanes") {
  Owing at;
  at.arrive(5, wire::kFlagSprayed, true);
  REQUIRE(at.send() == 0);
  at.arrive(3, wire::kFlagSprayed, true);
  REQUIRE(at.send() == 1);  // two of the few that are under way
}

TEST_CASE("outbox: the newest status of a message counts, and a run takes one entry") {
  Owing at;
  at.outbox.add_status(at.peer, 7, MessageStatus::no_room);
  at.outbox.add_status(at.peer, 7, MessageStatus::accepted);
  at.outbox.add_status(at.peer, 8, MessageStatus::accepted);
  at.outbox.add_status(at.peer, 8, MessageStatus::accepted);
  for (std::uint64_t number = 10; number < 20; number += 2) {  // one more than there is room for
    at.outbox.add_status(at.peer, number, MessageStatus::pending);
  }
  REQUIRE(at.send() == 0);
  at.outbox.schedule_now(at.peer);
  REQUIRE(at.send() == 1);
  const auto statuses = at.said().statuses;
  REQUIRE(statuses.size() == 5);
  REQUIRE(statuses.at(7) == MessageStatus::accepted);
  REQUIRE(statuses.at(8) == MessageStatus::accepted);
  REQUIRE_FALSE(statuses.contains(16));
  REQUIRE_FALSE(at.outbox.has_due(at.peer));
}

TEST_CASE("outbox: a peer that waits learns the final statuses above its floor again") {
  Owing at;
  REQUIRE(at.peer.receives.table.set(
      1, kFinishedEntry | static_cast<std::uint32_t>(MessageStatus::delivered)));
  at.arrive(0, wire::kFlagAckNow);
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().statuses.at(1) == MessageStatus::delivered);
}

TEST_CASE("outbox: the answer to a question that insists has the other final statuses, too",
          "[A9]") {
  Owing at;
  REQUIRE(at.peer.receives.table.set(
      1, kFinishedEntry | static_cast<std::uint32_t>(MessageStatus::delivered)));
  at.outbox.answer_over(at.peer, Ways::two);
  at.outbox.add_status(at.peer, 2, MessageStatus::pending);
  at.outbox.schedule_now(at.peer);
  REQUIRE(at.send() > 0);
  REQUIRE(at.said().statuses.at(1) == MessageStatus::delivered);
  REQUIRE(at.said().statuses.at(2) == MessageStatus::pending);
}

TEST_CASE("outbox: what rode on a packet that no NIC took is due again") {
  Owing at;
  REQUIRE(at.peer.receives.table.set(
      1, kFinishedEntry | static_cast<std::uint32_t>(MessageStatus::delivered)));
  at.outbox.add_status(at.peer, 1, MessageStatus::delivered);
  at.arrive(0);
  PacketBuffer* const buffer = at.sender.take_buffer();
  wire::PacketWriter writer(*buffer);
  writer.begin(wire::PacketType::data, 9, 11, 0);
  REQUIRE(at.outbox.piggyback(at.peer, writer));
  REQUIRE_FALSE(at.outbox.is_scheduled(at.peer));
  REQUIRE_FALSE(at.outbox.piggyback(at.peer, writer));  // nothing is due now
  at.sender.give_buffers(std::span(&buffer, 1));

  at.outbox.take_back(at.peer);
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().acks.size() == 1);
  REQUIRE(at.said().statuses.at(1) == MessageStatus::delivered);
}

TEST_CASE("outbox: among lanes a few statuses are repeated in the next packet, once") {
  Owing at;
  REQUIRE(at.peer.receives.table.set(
      1, kFinishedEntry | static_cast<std::uint32_t>(MessageStatus::delivered)));
  at.outbox.add_status(at.peer, 1, MessageStatus::delivered);
  for (const std::size_t repeated : {1, 1, 0}) {
    at.outbox.schedule_now(at.peer);
    REQUIRE(at.send() == 1);
    REQUIRE(at.said().statuses.size() == repeated);
  }
}

// The acknowledgements before it may be lost. Numbers that one in front of a request leaves out
// would look overtaken to the sender.
TEST_CASE("outbox: an acknowledgement in front of a request names all that has arrived", "[B9]") {
  Owing at;
  for (std::uint16_t i = 0; i < 200; ++i) at.arrive(i, 0, false, i);
  at.next_turn(milliseconds(10));
  REQUIRE(at.send() == 1);
  REQUIRE_FALSE(at.path->ack_due);
  at.outbox.add_request(at.peer, at.message(3));
  at.next_turn();
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().acks.size() == 1);
  REQUIRE(at.said().acks.front().bitmap.size() == 4);
}

// Statuses of a peer to which no way leads can't be told. Others still find places.
TEST_CASE("outbox: a peer whose statuses wait leaves half of the places", "[A10]") {
  Owing at;
  at.first.knows_way = at.second.knows_way = false;
  for (std::uint64_t i = 0; i < 10; ++i)
    at.outbox.add_status(at.peer, 2 * i, MessageStatus::pending);
  at.next_turn(milliseconds(10));
  REQUIRE(at.send() == 0);
  REQUIRE(at.outbox.due_at(at.peer) > at.turn.now());  // not at once again
  at.first.knows_way = at.second.knows_way = true;
  at.next_turn(milliseconds(100));
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().statuses.size() == 4);  // of eight places
}

TEST_CASE("outbox: grants and requests leave with the turn, the last grant twice") {
  Owing at;
  at.arrive(0);  // on its only path
  at.next_turn(milliseconds(10));
  REQUIRE(at.send() == 1);
  IncomingMessage& message = at.message(3);
  message.granted = 10;
  at.outbox.add_grant(at.peer, message);
  at.outbox.add_request(at.peer, message);
  REQUIRE(at.send(true) == 1);
  REQUIRE(at.said().grants.size() == 1);
  REQUIRE(at.said().grants.front().up_to == 10);
  REQUIRE(at.said().requests.size() == 1);
  REQUIRE(at.said().requests.front().base == 1);
  REQUIRE(at.said().acks.size() == 1);  // a request comes with the acknowledgements of all paths
  REQUIRE(at.turn.counters.requests_sent == 1);
  at.outbox.schedule_now(at.peer);
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().grants.size() == 1);
  at.outbox.schedule_now(at.peer);
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().grants.empty());
}

TEST_CASE("outbox: what is withdrawn does not leave") {
  Owing at;
  IncomingMessage& gone = at.message(3);
  at.outbox.add_request(at.peer, gone);
  at.outbox.add_request(at.peer, at.message(4));
  at.outbox.withdraw(at.peer, gone);
  at.outbox.withdraw(at.peer, gone);
  at.outbox.add_solicitation(at.peer);
  REQUIRE(at.outbox.solicits(at.peer));
  at.outbox.withdraw_solicitation(at.peer);
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().requests.size() == 1);
  REQUIRE(at.said().requests.front().message == 4);
  REQUIRE(at.solicitations == 0);
  at.outbox.add_request(at.peer, gone);
  at.outbox.withdraw_messages(at.peer);
  REQUIRE_FALSE(at.outbox.has_due(at.peer));
}

TEST_CASE("outbox: solicitations without room are due again") {
  Owing at;
  at.has_room = false;
  at.first.room = 1;
  at.outbox.add_solicitation(at.peer);
  REQUIRE(at.send() == 1);  // the NIC takes no second packet
  REQUIRE(at.solicitations == 2);
  REQUIRE(at.outbox.solicits(at.peer));
  at.has_room = true;
  at.first.room = 1;
  REQUIRE(at.send() == 1);
  REQUIRE_FALSE(at.outbox.has_due(at.peer));
}

TEST_CASE("outbox: a refused packet leaves everything due that nobody would ask for") {
  Owing at;
  at.sender.nics()[1].up = false;
  at.sender.nics()[1].sequence = 6;
  at.arrive(0);
  at.outbox.add_nic_state(at.peer, 1);
  at.outbox.schedule_now(at.peer);
  at.first.room = 0;
  REQUIRE(at.send() == 0);
  REQUIRE(at.turn.was_refused());
  REQUIRE(at.outbox.has_due(at.peer));
  at.first.room = 1;
  REQUIRE(at.send(true) == 1);
  REQUIRE(at.said().acks.size() == 1);
  REQUIRE(at.said().nics.size() == 1);
  REQUIRE(at.said().nics.front().nic == 1);
  REQUIRE(at.said().nics.front().state == 0);
  REQUIRE(at.said().nics.front().sequence == 6);
}

TEST_CASE("outbox: control rides on data") {
  Owing at;
  at.arrive(0);
  at.outbox.add_status(at.peer, 2, MessageStatus::accepted);
  PacketBuffer* const buffer = at.sender.take_buffer();
  wire::PacketWriter writer(*buffer);
  writer.begin(wire::PacketType::control, 1, 1, 0);
  const auto empty = writer.header_bytes();
  SECTION("unless it is to go over all pairs") {
    at.outbox.raise_ways(at.peer, Ways::all);
    (void)at.outbox.piggyback(at.peer, writer);
    REQUIRE(writer.header_bytes() == empty);
    REQUIRE(at.outbox.is_scheduled(at.peer));
  }
  SECTION("all of it") {
    (void)at.outbox.piggyback(at.peer, writer);
    REQUIRE(writer.header_bytes() > empty);
    REQUIRE_FALSE(at.outbox.is_scheduled(at.peer));
  }
  SECTION("or what rides there; the rest leaves with the turn") {
    at.outbox.add_nic_state(at.peer, 0);
    (void)at.outbox.piggyback(at.peer, writer);
    REQUIRE(at.send(true) == 1);
    REQUIRE(at.said().statuses.empty());
    REQUIRE(at.said().nics.size() == 1);
  }
  at.sender.give_buffers(std::span(&buffer, 1));
}

TEST_CASE("outbox: a session that ends leaves nothing due") {
  Owing at;
  at.arrive(0);
  at.outbox.add_status(at.peer, 2, MessageStatus::accepted);
  at.outbox.add_nic_state(at.peer, 0);
  at.path->ack_due = false;  // its path is gone
  at.outbox.end_session(at.peer);
  REQUIRE_FALSE(at.outbox.has_due(at.peer));
  REQUIRE_FALSE(at.outbox.is_scheduled(at.peer));
  REQUIRE(at.outbox.due_at(at.peer) == kNever);
  at.outbox.schedule_now(at.peer);
  at.peer.session.state = SessionState::failed;
  REQUIRE(at.send() == 0);
  REQUIRE_FALSE(at.outbox.is_scheduled(at.peer));
}

TEST_CASE("outbox: acknowledgements say how far behind the slowest NIC is") {
  Owing at;
  at.next_turn();
  at.next_turn();
  at.sender.nics()[1].drained -= 2;
  at.arrive(0, wire::kFlagAckNow);
  REQUIRE(at.send() == 1);
  REQUIRE(at.said().behind == 2);
}

}  // namespace hawser::proto
