#include "tool/run/path_log.hpp"

#include <catch2/catch.hpp>

#include "test/tool/figures.hpp"

namespace hawser::tool {
namespace {

using Change = PathChange::Kind;
constexpr std::uint64_t kMs = 1'000'000;

// Rank 0 of three; each other rank has a path a NIC.
struct Bench {
  Figures endpoint;
  PathLog log{endpoint, {kAnyPeer, PeerId{4}, PeerId{9}}, 0};
  std::uint64_t now = 1000 * kMs;
  std::size_t told = 0;

  Bench() {
    for (const PeerId peer : {PeerId{4}, PeerId{9}}) {
      for (std::uint8_t nic = 0; nic < 2; ++nic) add(peer, nic, nic, nic, PathState::up);
    }
    log.begin(now);
  }
  PathStats& add(PeerId peer, std::uint8_t slot, std::uint8_t nic, std::uint8_t remote_nic,
                 PathState state) {
    PathStats path;
    path.slot = slot;
    path.local_nic = nic;
    path.remote_nic = remote_nic;
    path.state = state;
    endpoint.peers[peer].paths.push_back(path);
    return endpoint.peers[peer].paths.back();
  }
  PathStats& path(PeerId peer, std::size_t slot) { return endpoint.peers[peer].paths[slot]; }
  void deliver(PeerId peer, std::size_t slot) {
    path(peer, slot).packets_sent += 10;
    path(peer, slot).delivered_bytes += 1000;
  }
  // What has changed since the last call.
  std::vector<PathChange> changes() {
    now += 20 * kMs;
    log.look_closely(now);
    std::vector<PathChange> fresh(log.changes().begin() + static_cast<std::ptrdiff_t>(told),
                                  log.changes().end());
    told = log.changes().size();
    return fresh;
  }
};

bool is(const PathChange& change, Change kind, std::uint32_t nic, std::uint32_t peer,
        std::uint32_t remote_nic) {
  return change.kind == kind && change.nic == nic && change.peer == peer &&
         change.remote_nic == remote_nic;
}

TEST_CASE("path_log: a path is alive when it delivers, and that is told once") {
  Bench bench;
  CHECK(bench.changes().empty());
  bench.deliver(PeerId{9}, 1);
  const auto first = bench.changes();
  REQUIRE(first.size() == 1);
  CHECK(is(first[0], Change::up, 1, 2, 1));
  CHECK(first[0].at_ns == 40 * kMs);
  bench.deliver(PeerId{9}, 1);
  CHECK(bench.changes().empty());
}

TEST_CASE("path_log: an event tells the moment, and puts the NICs' other paths in doubt") {
  Bench bench;
  bench.deliver(PeerId{4}, 0);
  bench.deliver(PeerId{9}, 0);
  bench.deliver(PeerId{9}, 1);
  CHECK(bench.changes().size() == 3);
  bench.path(PeerId{4}, 0).state = PathState::down;
  Event down;
  down.kind = Event::Kind::path_down;
  down.endpoint_id = 2;  // rank 1
  down.time_ns = bench.now + kMs;
  bench.endpoint.events.push_back(down);
  auto told = bench.changes();
  REQUIRE(told.size() == 2);
  CHECK(is(told[0], Change::down, 0, 1, 0));
  CHECK(told[0].at_ns == 21 * kMs);
  CHECK(is(told[1], Change::gone, 0, 2, 0));  // the same local NIC; NIC 1 is not in doubt
  bench.deliver(PeerId{9}, 0);
  told = bench.changes();
  REQUIRE(told.size() == 1);
  CHECK(is(told[0], Change::up, 0, 2, 0));
  down.kind = Event::Kind::path_up;
  down.time_ns = bench.now + kMs;
  bench.path(PeerId{4}, 0).state = PathState::up;
  bench.endpoint.events.push_back(down);
  told = bench.changes();
  REQUIRE(told.size() == 1);
  CHECK(is(told[0], Change::up, 0, 1, 0));
}

TEST_CASE("path_log: a bridge counts as tried after three probes, until its NIC finds another") {
  Bench bench;
  bench.deliver(PeerId{4}, 0);
  CHECK(bench.changes().size() == 1);
  bench.path(PeerId{4}, 0).state = PathState::down;
  PathStats& bridge = bench.add(PeerId{4}, 2, 0, 1, PathState::down);
  bridge.packets_sent = 2;
  auto told = bench.changes();
  REQUIRE(told.size() == 1);
  CHECK(is(told[0], Change::down, 0, 1, 0));
  bench.path(PeerId{4}, 2).packets_sent = 3;
  told = bench.changes();
  REQUIRE(told.size() == 1);
  CHECK(is(told[0], Change::tried, 0, 1, 1));
  // It moves on; what it tried stays known.
  bench.path(PeerId{4}, 2).generation = 1;
  bench.path(PeerId{4}, 2).remote_nic = 2;
  bench.path(PeerId{4}, 2).packets_sent = 0;
  CHECK(bench.changes().empty());
  bench.path(PeerId{4}, 2).state = PathState::up;
  bench.deliver(PeerId{4}, 2);
  told = bench.changes();
  REQUIRE(told.size() == 2);
  CHECK(is(told[0], Change::up, 0, 1, 2));
  CHECK(is(told[1], Change::gone, 0, 1, 1));
}

TEST_CASE("path_log: data packets of a NIC, slots that change hands included") {
  Bench bench;
  bench.deliver(PeerId{4}, 0);
  bench.deliver(PeerId{9}, 0);
  bench.deliver(PeerId{9}, 1);
  (void)bench.changes();
  CHECK(bench.log.data_packets_sent(0) == 20);
  CHECK(bench.log.data_packets_sent(1) == 10);
  bench.path(PeerId{4}, 0).generation = 1;
  bench.path(PeerId{4}, 0).local_nic = 1;
  bench.path(PeerId{4}, 0).packets_sent = 3;
  (void)bench.changes();
  CHECK(bench.log.data_packets_sent(0) == 20);
  CHECK(bench.log.data_packets_sent(1) == 13);
  bench.log.replace_peers({kAnyPeer, PeerId{5}, PeerId{6}});
  CHECK(bench.log.data_packets_sent(1) == 13);
}

TEST_CASE("path_log: it keeps no more than its limit, and says what it left out") {
  Bench bench;
  Event event;
  event.endpoint_id = 2;
  for (std::size_t i = 0; i < PathLog::kMaxChanges + 10; ++i) {
    event.kind = i % 2 == 0 ? Event::Kind::path_down : Event::Kind::path_up;
    event.time_ns = bench.now + i;
    bench.endpoint.events.push_back(event);
  }
  bench.log.look(bench.now);
  CHECK(bench.log.changes().size() == PathLog::kMaxChanges);
  CHECK(bench.log.changes_left_out() == 10);
}

}  // namespace
}  // namespace hawser::tool
