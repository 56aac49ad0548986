// SPDX-License-Identifier: Apache-2.0
#include "proto/peer/peer_table.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>

#include "proto/base/untouched.hpp"
#include "test/support/seeded.hpp"

namespace {

using hawser::proto::kNoIndex;
using hawser::proto::MadeAtUse;
using hawser::proto::Peer;
using hawser::proto::PeerTable;
using hawser::proto::Random;
using hawser::proto::RestingPeer;
using hawser::proto::Slab;

struct Known {
  std::uint64_t id = 0;
  std::uint64_t token = 0;
  bool rests = false;
};

// Checks that each peer is found by name and index, awake or at rest, with its own values.
void check(PeerTable& table, const std::map<std::uint32_t, Known>& known) {
  std::uint32_t awake = 0;
  for (const auto& [index, peer] : known) {
    REQUIRE(table.find(peer.id) == index);
    REQUIRE(table.is_known(index));
    REQUIRE(table.is_awake(index) != peer.rests);
    REQUIRE(index < table.used());
    if (peer.rests) {
      REQUIRE(table.resting(index).token == peer.token);
    } else {
      ++awake;
      REQUIRE(table.at(index).index == index);
      REQUIRE(table.at(index).session.token == peer.token);
    }
  }
  std::set<std::uint32_t> visited;
  std::set<std::uint32_t> places;
  table.for_each_awake([&](Peer& peer) {
    visited.insert(peer.index);
    places.insert(table.place_of(peer));
  });
  REQUIRE(visited.size() == awake);
  REQUIRE(places.size() == awake);
  REQUIRE(table.awake() == awake);
  REQUIRE(table.at_rest() == known.size() - awake);
  REQUIRE(table.full() == (known.size() == table.capacity()));
}

}  // namespace

TEST_CASE("peer table: model") {
  hawser::test::for_each_seed(30, [](Random& random) {
    const auto capacity = static_cast<std::uint32_t>(1 + random.below(40));
    PeerTable table(capacity);
    std::map<std::uint32_t, Known> known;
    std::uint64_t stamp = 0;
    std::set<hawser::PeerId> void_names;
    for (int step = 0; step < 400; ++step) {
      for (const hawser::PeerId name : void_names) REQUIRE(table.index_of(name) == kNoIndex);
      if (known.empty() || random.chance(0.4)) {
        const std::uint64_t id = 1 + random.below(1000) * 4294967296u;
        if (table.find(id) != kNoIndex) continue;
        Peer* peer = table.make(id);
        REQUIRE((peer == nullptr) == (known.size() == capacity));
        if (peer == nullptr) continue;
        REQUIRE(peer->identity.remote_id == id);
        REQUIRE(known.count(peer->index) == 0);
        peer->session.token = ++stamp;
        known[peer->index] = {id, stamp, false};
      } else {
        auto at = known.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(known.size())));
        auto& [index, peer] = *at;
        if (peer.rests && random.chance(0.7)) {
          RestingPeer record;
          Peer& woken = table.wake(index, record);
          REQUIRE(record.token == peer.token);
          REQUIRE(woken.session.token == 0);  // as if just made
          woken.session.token = record.token;
          peer.rests = false;
        } else if (!peer.rests && random.chance(0.6)) {
          RestingPeer record;
          record.remote_id = peer.id;
          record.token = peer.token;
          table.put_to_rest(index, record);
          peer.rests = true;
        } else {
          const bool was_named = random.chance(0.5);
          const hawser::PeerId name = table.id_of(index);
          REQUIRE(table.index_of(name) == index);
          REQUIRE(hawser::peer_place(name) == index);
          table.forget(index, was_named);
          REQUIRE(table.find(peer.id) == kNoIndex);
          REQUIRE(table.index_of(name) == kNoIndex);
          if (was_named) void_names.insert(name);
          known.erase(at);
        }
      }
      check(table, known);
    }
  });
}

TEST_CASE("slab: what is withheld is for nobody until it is released") {
  Slab<int> slab(3);
  slab.withhold(2);
  CHECK(slab.available() == 1);
  CHECK_FALSE(slab.full());
  REQUIRE(slab.try_allocate() != nullptr);
  CHECK(slab.try_allocate() == nullptr);
  slab.release(1);
  CHECK(slab.try_allocate() != nullptr);
  CHECK(slab.try_allocate() == nullptr);
  slab.release(1);
  CHECK(slab.try_allocate() != nullptr);
  CHECK(slab.full());
}

TEST_CASE("slab: memory is touched as far as it was ever in use") {
  Slab<int> slab(1000);
  for (int round = 0; round < 3; ++round) {
    std::uint32_t taken[10];
    for (std::uint32_t& index : taken) index = slab.index_of(*slab.try_allocate());
    CHECK(slab.touched() == 10);
    for (const std::uint32_t index : taken) slab.free(index);
  }
}

TEST_CASE("made at use: places are made up to the highest asked for, each once") {
  MadeAtUse<int> places(8);
  CHECK(places.made() == 0);
  CHECK(places[3] == 0);
  CHECK(places.made() == 4);
  places[1] = 5;
  CHECK(places[6] == 0);
  CHECK(places[1] == 5);
  CHECK(places.made() == 7);
}
