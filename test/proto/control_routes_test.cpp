// SPDX-License-Identifier: Apache-2.0
#include "proto/service/control_routes.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

// A peer with an UP path over each of the four pairs of NICs. It was heard a millisecond ago, over
// the first NICs of both ends.
struct Routing : Sending {
  Slab<Path> paths{4};
  TouchedPeers touched{peers};
  ControlRoutes routes{turn, sender, paths, touched};

  Routing() {
    peer.paths.indices.fill(kNoIndex);
    for (std::uint8_t slot = 0; slot < 4; ++slot) {
      SlabId id;
      Path* const path = paths.try_allocate(id);
      path->slot = slot & 15;
      path->local_nic = slot / 2 % 2;
      path->remote_nic = slot % 2;
      path->state = PathState::up;
      peer.paths.indices[slot] = id.index;
      peer.paths.bound = static_cast<std::uint16_t>(peer.paths.bound | 1u << slot);
    }
    turn.call(turn.now() + milliseconds(100'000));
    peer.session.route = {0, 0};
    peer.response = ResponseTime(microseconds(10));
    peer.session.last_heard = turn.now();
    turn.call(turn.now() + milliseconds(1));
  }
  Path& path(std::size_t slot) { return paths.at(peer.paths.indices[slot]); }

  // Sends a control packet, and returns over how many pairs it went.
  std::size_t send(Ways ways) {
    const std::size_t before = first.sent.size() + second.sent.size();
    PacketBuffer* const buffer = sender.take_buffer();
    wire::PacketWriter writer(*buffer);
    writer.begin(wire::PacketType::control, 1, 1, 0);
    REQUIRE(routes.send(peer, ways, *buffer, writer));
    return first.sent.size() + second.sent.size() - before;
  }
};

}  // namespace

TEST_CASE("control routes: a single packet takes the pair last heard, unless it is no good") {
  Routing at;
  REQUIRE(at.routes.first_of(at.peer, Ways::one) == NicPair(0, 0));
  at.path(0).state = PathState::down;
  REQUIRE(at.routes.first_of(at.peer, Ways::one) != NicPair(0, 0));
  at.path(0).state = PathState::up;
  at.sender.nics()[0].up = false;
  REQUIRE(at.routes.first_of(at.peer, Ways::one).local == 1);
  at.sender.nics()[0].up = true;
  at.sender.close_remotes(at.peer, 0);
  at.sender.close_remotes(at.peer, 1);
  at.first.knows_way = false;
  REQUIRE(at.routes.first_of(at.peer, Ways::one).local == 1);
  REQUIRE(at.routes.find_way(at.peer, {0, 1}).local == 1);
  REQUIRE(at.routes.find_way(at.peer, {1, 1}) == NicPair(1, 1));
}

TEST_CASE("control routes: copies take other pairs") {
  Routing at;
  REQUIRE(at.send(Ways::one) == 1);
  REQUIRE(at.send(Ways::two) == 2);
  REQUIRE(at.send(Ways::all) == 4);
}

TEST_CASE("control routes: a question takes more pairs the more often it was in vain") {
  Routing at;
  REQUIRE(at.routes.ways_of_question(at.peer, 0) == Ways::one);
  REQUIRE(at.routes.ways_of_question(at.peer, 1) == Ways::two);
  REQUIRE(at.routes.ways_of_question(at.peer, kInsistsAfter) == Ways::all);
  // One packet goes over all pairs in a response time, be it a question or an answer.
  REQUIRE(at.routes.ways_of_question(at.peer, kInsistsAfter) == Ways::two);
  REQUIRE(at.routes.ways_of_answer(at.peer, false) == Ways::two);
  at.turn.call(at.turn.now() + milliseconds(10));
  REQUIRE(at.routes.ways_of_answer(at.peer, false) == Ways::all);
  at.routes.begin_session(at.peer);
  REQUIRE(at.routes.ways_of_answer(at.peer, false) == Ways::all);
}

TEST_CASE("control routes: a pair that brought no answer comes last for a while") {
  Routing at;
  REQUIRE(at.send(Ways::one) == 1);
  at.peer.session.last_heard = at.turn.now();  // over another pair
  REQUIRE(at.routes.ways_of_answer(at.peer, false) == Ways::all);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(at.routes.first_of(at.peer, Ways::one) != NicPair(0, 0));
  }
  const Time doubted = at.turn.now();
  SECTION("until its time is over") {
    at.turn.call(doubted + microseconds(at.tunables.path_probe_max_us) * 2);
    REQUIRE(at.routes.first_of(at.peer, Ways::one) == NicPair(0, 0));
  }
  SECTION("until its slot stands for another pair") {
    at.routes.forget_slot(at.peer, 0);
    REQUIRE(at.routes.first_of(at.peer, Ways::one) == NicPair(0, 0));
  }
}

}  // namespace hawser::proto
