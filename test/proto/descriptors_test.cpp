// SPDX-License-Identifier: Apache-2.0
#include "proto/service/descriptors.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "proto/message/finished_entry.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

// Two peers that send messages, and a limit of two descriptors.
struct Flooded : Sending {
  Slab<Path> paths{4};
  Slab<OutgoingMessage> outgoing{4};
  Reporter reporter{turn, peers, outgoing};
  ReceivePaths receive_paths{turn, reporter, 4};
  Slab<IncomingMessage> incoming{4};
  MessageTablePool numbers{8};
  Allowance allowance;
  TouchedPeers touched{peers};
  ControlRoutes routes{turn, sender, paths, touched};
  Descriptors descriptors;
  Outbox outbox;
  Peer& other = *peers.make(8);

  Flooded()
      : Sending(2),
        descriptors(turn, peers, touched, outbox, routes),
        outbox(
            {turn, peers, touched, sender, routes, receive_paths, incoming, allowance, descriptors},
            4) {
    other.session.remote_nics = 2;
    for (Peer* const one : {&peer, &other}) {
      one->paths.indices.fill(kNoIndex);
      one->paths.receiving.fill(kNoIndex);
      one->session.state = SessionState::ready;
      one->response = ResponseTime(microseconds(100));
      REQUIRE(one->receives.table.open(numbers, 0));
    }
  }
  ~Flooded() {
    peer.receives.table.close();
    other.receives.table.close();
  }

  // Sends what is due, and returns which messages were requested, perhaps over several routes.
  std::set<std::uint32_t> requested() {
    first.sent.clear();
    second.sent.clear();
    outbox.send_due(true);
    struct Requests {
      std::set<std::uint32_t> messages;
      void operator()(wire::RequestView view) { messages.insert(view.message); }
    } requests;
    for (const auto& packet : first.sent) packet.parsed()->blocks.visit(requests);
    for (const auto& packet : second.sent) packet.parsed()->blocks.visit(requests);
    return requests.messages;
  }
  void next_turn(Duration later) { (void)turn.begin(turn.now() + later); }
};

}  // namespace

TEST_CASE("descriptors: peers share a limit, and each has one in reserve") {
  Flooded at;
  at.descriptors.take(at.peer, false);
  REQUIRE_FALSE(at.descriptors.all_taken());
  at.descriptors.take(at.peer, false);
  REQUIRE(at.descriptors.all_taken());
  REQUIRE(at.descriptors.has_reserve(at.peer));
  at.descriptors.take(at.peer, true);
  REQUIRE_FALSE(at.descriptors.has_reserve(at.peer));
  REQUIRE(at.descriptors.has_reserve(at.other));
  REQUIRE(at.descriptors.unmatched() == 3);
  at.descriptors.give_back(at.peer, false);
  REQUIRE_FALSE(at.descriptors.all_taken());  // the reserve doesn't count
  at.descriptors.give_back(at.peer, true);
  REQUIRE(at.descriptors.has_reserve(at.peer));
  REQUIRE(at.descriptors.unmatched() == 1);
  at.descriptors.take(at.other, false);
  REQUIRE(at.descriptors.all_taken());
}

TEST_CASE("descriptors: a descriptor that becomes free is offered to the peer that waits longest") {
  Flooded at;
  at.descriptors.take(at.peer, false);
  at.descriptors.take(at.peer, false);
  at.descriptors.turn_away(at.other, 4);
  at.descriptors.turn_away(at.peer, 2);
  REQUIRE(at.descriptors.any_starved());
  REQUIRE(at.descriptors.is_starved(at.other));
  REQUIRE(at.requested().empty());
  at.descriptors.give_back(at.peer, false);
  REQUIRE(at.requested() == std::set<std::uint32_t>{4});
  at.descriptors.give_back(at.peer, false);
  REQUIRE(at.requested() == std::set<std::uint32_t>{2});
}

TEST_CASE("descriptors: no more messages are solicited in a turn than have a place") {
  Flooded at;
  at.peer.receives.next_to_process = 1;
  for (std::uint64_t number = 1; number < 9; ++number) at.descriptors.turn_away(at.peer, number);
  at.descriptors.turn_away(at.other, 20);
  at.next_turn(microseconds(200));
  at.descriptors.take(at.peer, false);
  at.descriptors.expire(at.peer);
  // One has a place. The other peer's is wanted by nobody as far as is known, so only one is asked.
  REQUIRE(at.requested() == std::set<std::uint32_t>{1, 20});
  at.next_turn({});
  at.descriptors.give_back(at.peer, false);
  REQUIRE(at.requested() == std::set<std::uint32_t>{2, 3});
}

TEST_CASE("descriptors: a reserve that becomes free is offered to its own peer alone") {
  Flooded at;
  at.descriptors.take(at.peer, false);
  at.descriptors.take(at.peer, false);
  at.descriptors.take(at.other, true);
  at.descriptors.turn_away(at.peer, 4);
  at.descriptors.give_back(at.other, true);
  REQUIRE(at.requested().empty());
  at.descriptors.take(at.peer, true);
  at.descriptors.give_back(at.peer, true);
  REQUIRE(at.requested() == std::set<std::uint32_t>{4});
}

TEST_CASE("descriptors: solicitations back off until the peer makes progress") {
  Flooded at;
  at.descriptors.turn_away(at.peer, 0);
  const auto interval = [&at] {
    const Time due = at.descriptors.due_at(at.peer);
    at.next_turn(due - at.turn.now());
    at.descriptors.expire(at.peer);
    REQUIRE(at.requested() == std::set<std::uint32_t>{0});
    return at.descriptors.due_at(at.peer) - due;
  };
  const Duration first = interval();
  REQUIRE(interval() == first * 2);
  REQUIRE(interval() == first * 4);
  for (int i = 0; i < 30; ++i) (void)interval();
  REQUIRE(interval() == milliseconds(at.tunables.peer_timeout_ms) / 8);
  at.descriptors.turn_away(at.peer, 1);
  ++at.peer.receives.next_to_process;
  at.descriptors.note_processed(at.peer);
  REQUIRE(at.descriptors.is_starved(at.peer));  // of message 1
  at.next_turn(at.descriptors.due_at(at.peer) - at.turn.now());
  at.descriptors.expire(at.peer);
  REQUIRE(at.descriptors.due_at(at.peer) == at.turn.now() + first);
}

TEST_CASE("descriptors: a peer is starved until all its dropped messages are processed") {
  Flooded at;
  at.descriptors.turn_away(at.peer, 1);
  at.peer.receives.next_to_process = 1;
  at.descriptors.note_processed(at.peer);
  at.descriptors.solicit_lowest(at.peer);  // it is the lowest one now
  REQUIRE(at.requested() == std::set<std::uint32_t>{1});
  at.descriptors.solicit_lowest(at.peer);
  REQUIRE(at.requested().empty());  // it was asked for
  at.peer.receives.next_to_process = 2;
  at.descriptors.note_processed(at.peer);
  REQUIRE_FALSE(at.descriptors.is_starved(at.peer));
  REQUIRE_FALSE(at.descriptors.any_starved());
  REQUIRE(at.descriptors.due_at(at.peer) == kNever);
}

TEST_CASE("descriptors: a posted receive solicits the lowest message of its peer") {
  Flooded at;
  at.descriptors.take(at.peer, true);
  at.descriptors.turn_away(at.peer, 0);
  at.descriptors.turn_away(at.other, 0);  // its reserve is free, so the message may just come
  SECTION("of one peer") { at.descriptors.note_waiting_receive(at.peers.id_of(at.peer.index)); }
  SECTION("of any peer") { at.descriptors.note_waiting_receive(kAnyPeer); }
  REQUIRE(at.outbox.solicits(at.peer));
  REQUIRE_FALSE(at.outbox.solicits(at.other));
}

TEST_CASE("descriptors: a full store is judged when nothing has left it for the peer timeout") {
  Flooded at;
  const Duration patience = milliseconds(at.tunables.peer_timeout_ms);
  REQUIRE(at.descriptors.judge_at() == kNever);
  at.descriptors.turn_away(at.peer, 0);
  REQUIRE(at.descriptors.full_since() == at.turn.now());
  REQUIRE(at.descriptors.judge_at() == at.turn.now() + patience);
  SECTION("then receives are judged") {
    at.next_turn(patience);
    REQUIRE(at.descriptors.begin_judgement());
    REQUIRE(at.descriptors.judge_at() == kNever);
    at.descriptors.judge_by(at.turn.now() + milliseconds(3));
    REQUIRE(at.descriptors.judge_at() == at.turn.now() + milliseconds(3));
  }
  SECTION("a message leaves it") {
    at.descriptors.note_store_moves();
    REQUIRE(at.descriptors.judge_at() == kNever);
    REQUIRE(at.descriptors.full_since() == Time{});
  }
  SECTION("nobody is starved any more") {
    at.descriptors.forget(at.peer);
    REQUIRE(at.descriptors.judge_at() == kNever);
    REQUIRE_FALSE(at.descriptors.begin_judgement());
  }
}

}  // namespace hawser::proto
