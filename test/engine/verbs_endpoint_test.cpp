// Whole endpoints over RDMA devices: two hosts' worth of NICs, joined by two cables (test/vm/). The
// NICs of one cable don't reach those of the other, as in a rail-optimised fabric.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "hawser/engine.hpp"
#include "test/engine/verbs_pair.hpp"

namespace hawser::engine {
namespace {

void run(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

}  // namespace

TEST_CASE("VerbsEndpoint__sends_and_receives") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  VerbsPair pair(threads);
  std::uint64_t seed = 1;
  for (const std::size_t bytes : {0u, 8u, 4096u, 100'000u, 1'000'003u}) {
    CAPTURE(bytes);
    pair.exchange(*pair.a, bytes, seed++);
    pair.exchange(*pair.b, bytes, seed++);
  }
  for (const Endpoint* const endpoint : {pair.a.get(), pair.b.get()}) {
    for (const NicStats& nic : endpoint->nic_stats()) {
      CAPTURE(nic.name);
      CHECK(nic.packets_sent > 0);
      CHECK(nic.packets_received > 0);
    }
  }
  CHECK(pair.gets_quiet());
}

TEST_CASE("VerbsEndpoint__survives_a_cable_that_loses_packets") {
  run("tc qdisc add dev a0 root netem loss 3%");
  run("tc qdisc add dev b1 root netem loss 3%");
  {
    VerbsPair pair(0);
    pair.exchange(*pair.a, 1'000'000, 1);
    pair.exchange(*pair.b, 1'000'000, 2);
    CHECK(pair.a->stats().fragments_retransmitted + pair.b->stats().fragments_retransmitted > 0);
  }
  run("tc qdisc del dev a0 root");
  run("tc qdisc del dev b1 root");
}

TEST_CASE("VerbsEndpoint__goes_on_over_the_other_cable_and_takes_the_first_back") {
  VerbsPair pair(0);
  pair.exchange(*pair.a, 200'000, 1);
  run("ip link set a0 down");
  pair.exchange(*pair.a, 200'000, 2);
  pair.exchange(*pair.b, 200'000, 3);
  run("ip link set a0 up");
  const auto carried_by_first = [&] { return pair.b->nic_stats()[0].packets_received; };
  const std::uint64_t before = carried_by_first();
  std::uint64_t seed = 4;
  // Until its paths are probed and carry again.
  for (int round = 0; round < 200 && carried_by_first() < before + 20; ++round) {
    pair.exchange(*pair.a, 100'000, seed++);
  }
  CHECK(carried_by_first() >= before + 20);
}

}  // namespace hawser::engine
