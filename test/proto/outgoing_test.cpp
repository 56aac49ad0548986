// SPDX-License-Identifier: Apache-2.0
#include "proto/message/outgoing.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <span>
#include <vector>

#include "proto/message/requests.hpp"
#include "proto/peer/peer_lists.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

using wire::MessageStatus;

// The messages to a READY peer that takes fragments of 1,024 bytes.
struct Messages : Sending, PathUser {
  MessageTablePool numbers{16};
  StandingVerdicts verdicts;
  Senders senders{peers};
  TouchedPeers touched{peers};
  Regions regions{4};
  Outgoing outgoing{{turn, peers, sender, reporter, senders, touched, routes, paths, regions},
                    {.messages = 8, .retransmits = 8}};
  Reporter reporter{turn, peers, outgoing.all()};
  PathSet paths{
      {turn, peers, sender, reporter, senders, touched, verdicts, outgoing, *this, 1}, 4, 64};
  ControlRoutes routes{turn, sender, paths.all(), touched};
  std::vector<std::byte> data = std::vector<std::byte>(200'000);
  std::uint64_t operations = 0;

  Messages() {
    peer.paths.indices.fill(kNoIndex);
    peer.session.state = SessionState::ready;
    proto::set_session_bytes(peer.session, 1024);
    peer.response = ResponseTime(microseconds(100));
    REQUIRE(peer.sends.table.open(numbers, 0));
    for (std::size_t i = 0; i < 2; ++i) peers.nic_of(peer, i).state = 1;
    paths.pair_nics(peer);
    paths.open_paths(peer);
  }
  ~Messages() { peer.sends.table.close(); }

  void announce(Peer&) override {}
  void timers_changed(Peer&) override {}

  OutgoingMessage& post(std::uint64_t bytes, Level level = Level::accepted) {
    OutgoingMessage* const message = outgoing.begin(peer, {.operation = OperationId{operations++},
                                                           .data = data.data(),
                                                           .bytes = bytes,
                                                           .options = {.level = level}});
    REQUIRE(message != nullptr);
    return *message;
  }
  // Picks the next fragment, and a NIC takes it. Its record is of no path.
  SentPacket leave() {
    Pick pick;
    REQUIRE(outgoing.pick(peer.sends, pick));
    TxPacket packet;
    packet.payload_bytes = 1024;
    SentPacket record;
    outgoing.picked_left(pick, packet, record);
    return record;
  }
  void say(std::uint32_t number, MessageStatus status, std::uint16_t run = 1) {
    wire::StatusEntry entry{};
    entry.message = number;
    entry.status = status;
    entry.run = run;
    outgoing.on_status(peer, {std::span(&entry, 1)});
  }
  // Gives back what the NICs have read of a message.
  void let_go(OutgoingMessage& message) { message.unreaped = 0; }
  std::vector<Completion> completions() {
    std::array<Completion, 8> some;
    const std::size_t count = turn.operations.poll(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }
};

}  // namespace

TEST_CASE("outgoing: fragments are picked in order, and those that are lost come first") {
  Messages at;
  at.post(3000);
  CHECK(at.outgoing.waiting_fragments(at.peer.sends, 100) == 3);
  CHECK(at.senders.contains(at.peer));
  CHECK(at.leave().fragment == 0);
  SentPacket second = at.leave();
  CHECK(second.fragment == 1);
  at.outgoing.packet_lost(at.peer, second);
  CHECK(at.outgoing.waiting_fragments(at.peer.sends, 100) == 2);
  Pick pick;
  REQUIRE(at.outgoing.pick(at.peer.sends, pick));
  CHECK((pick.fragment == 1 && pick.again));
  REQUIRE(at.outgoing.pick(at.peer.sends, pick));
  CHECK((pick.fragment == 2 && !pick.again));
  CHECK_FALSE(at.outgoing.pick(at.peer.sends, pick));
}

TEST_CASE("outgoing: what no NIC took is picked again, in order") {
  Messages at;
  at.post(3000);
  std::array<Pick, 3> picks;
  for (Pick& pick : picks) REQUIRE(at.outgoing.pick(at.peer.sends, pick));
  const bool last_left = GENERATE(true, false);
  // The last one has left over another NIC, or none has.
  if (!last_left) at.outgoing.unpick(at.peer, picks[2]);
  at.outgoing.unpick(at.peer, picks[1]);
  at.outgoing.unpick(at.peer, picks[0]);
  for (std::uint32_t fragment = 0; fragment < (last_left ? 2u : 3u); ++fragment) {
    Pick pick;
    REQUIRE(at.outgoing.pick(at.peer.sends, pick));
    CHECK(pick.fragment == fragment);
    CHECK_FALSE(pick.again);  // it was never sent
  }
}

TEST_CASE("outgoing: a packet that comes late takes its retransmission back") {
  Messages at;
  at.post(1000);
  SentPacket record = at.leave();
  at.outgoing.packet_lost(at.peer, record);
  record.state = SentPacket::State::lost;
  at.outgoing.packet_came_late(at.peer, record);
  Pick pick;
  CHECK_FALSE(at.outgoing.pick(at.peer.sends, pick));
  CHECK(at.turn.counters.spurious_retransmits == 0);
  at.outgoing.packet_came_late(at.peer, record);  // its place in the queue is another's by now
  CHECK(at.turn.counters.spurious_retransmits == 1);
}

TEST_CASE("outgoing: a message completes by its status alone") {
  Messages at;
  OutgoingMessage& message = at.post(1000);
  const SentPacket record = at.leave();
  at.outgoing.packet_arrived(at.peer, record);
  CHECK(at.completions().empty());
  CHECK(at.outgoing.next_timer() < kNever);  // so it asks
  at.let_go(message);
  at.say(0, MessageStatus::accepted);
  const auto done = at.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().status == Status::ok);
  CHECK(done.front().released);
  CHECK(at.peer.sends.floor == 1);
  CHECK(at.outgoing.all().size() == 0);
}

TEST_CASE("outgoing: a status of what was never sent is refused") {
  Messages at;
  at.post(100);
  at.say(0, MessageStatus::delivered, 2);
  CHECK(at.completions().empty());
  CHECK(at.turn.counters.drops[static_cast<std::size_t>(DropReason::bad_field)] == 1);
}

TEST_CASE("outgoing: a packet names so many statuses, but those of a CLOSE all count") {
  Messages at;
  at.peer.sends.next_number = 20'000;
  at.post(1000);
  std::vector<wire::StatusEntry> entries;
  for (std::uint32_t from = 0; from <= 20'000; from += wire::kMaxStatusRun) {
    wire::StatusEntry& entry = entries.emplace_back();
    entry.message = from;
    entry.status = MessageStatus::delivered;
    entry.run = static_cast<std::uint16_t>(std::min(wire::kMaxStatusRun + 0u, 20'001 - from));
  }
  at.outgoing.on_status(at.peer, {entries});
  CHECK(at.completions().empty());
  at.outgoing.on_final_status(at.peer, {entries});
  REQUIRE(at.completions().size() == 1);
  CHECK(at.turn.counters.drops[static_cast<std::size_t>(DropReason::bad_field)] == 0);
}

TEST_CASE("outgoing: a question goes out at its time, and backs off") {
  Messages at;
  at.post(1000, Level::delivered);
  at.outgoing.packet_arrived(at.peer, at.leave());
  std::vector<Duration> intervals;
  for (int i = 0; i < 4; ++i) {
    const Time next = at.outgoing.next_timer();
    REQUIRE(next < kNever);
    intervals.push_back(next - at.turn.now());
    (void)at.turn.begin(next);
    at.outgoing.expire(8);
  }
  CHECK(at.turn.counters.message_probes_sent == 4);
  CHECK(intervals[2] > intervals[1]);
  CHECK(intervals[3] > intervals[2]);
}

TEST_CASE("outgoing: an ended session ends all messages, and reports what NICs still hold") {
  Messages at;
  OutgoingMessage& held = at.post(1000);
  at.post(1000);
  SentPacket record = at.leave();
  at.outgoing.packet_lost(at.peer, record);
  at.outgoing.end_session(at.peer, Status::peer_timeout);
  const auto done = at.completions();
  REQUIRE(done.size() == 2);
  for (const Completion& completion : done) CHECK(completion.status == Status::peer_timeout);
  CHECK(done[0].outcome_unknown);  // all of it had left
  CHECK_FALSE(done[1].outcome_unknown);
  CHECK(at.outgoing.unreleased() == 1);
  CHECK(at.outgoing.all().size() == 1);
  CHECK(held.finished);
  Pick pick;
  CHECK_FALSE(at.outgoing.pick(at.peer.sends, pick));
  CHECK(at.outgoing.next_timer() == kNever);
}

TEST_CASE("outgoing: a message without a place") {
  Messages at;
  for (int i = 0; i < 8; ++i) at.post(10);
  CHECK(at.outgoing.begin(at.peer, {.bytes = 10}) == nullptr);
  at.outgoing.end_session(at.peer, Status::peer_timeout);
  CHECK(at.completions().size() == 8);
  CHECK(at.outgoing.all().size() == 0);
  at.post(10);
}

}  // namespace hawser::proto
