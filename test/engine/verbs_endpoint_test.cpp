// Whole endpoints over RDMA devices: two hosts' worth of NICs, joined by two cables (test/vm/). The
// NICs of one cable don't reach those of the other, as in a rail-optimised fabric.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

// Emulated processors are some 14 times slower than real ones.
Tunables patient() {
  Tunables tunables = short_close();
  tunables.max_peers = 4;
  return tunables;
}

struct VerbsPair {
  explicit VerbsPair(unsigned threads, const Tunables& tunables = patient())
      : engine_a({{"verbs:rxe_a0", "verbs:rxe_a1"}, threads, tunables, ""}),
        engine_b({{"verbs:rxe_b0", "verbs:rxe_b1"}, threads, tunables, ""}),
        a(engine_a.create_endpoint({})),
        b(engine_b.create_endpoint({})) {
    REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
    REQUIRE(b->connect(a->address(), a_of_b) == Status::ok);
  }

  Completion next(Endpoint& mine) { return next_of(mine, &mine == a.get() ? *b : *a); }

  // A message from `from`, received and compared.
  void exchange(Endpoint& from, std::size_t bytes, std::uint64_t seed) {
    Endpoint& to = &from == a.get() ? *b : *a;
    const std::vector<std::byte> sent = pattern(bytes, seed);
    std::vector<std::byte> received(bytes);
    post_receive(to, kAnyPeer, seed, received);
    post_send(from, &from == a.get() ? b_of_a : a_of_b, seed, sent);
    const Completion at_receiver = next(to);
    CHECK(at_receiver.status == Status::ok);
    CHECK(at_receiver.bytes == bytes);
    CHECK(received == sent);
    const Completion at_sender = next(from);
    CHECK(at_sender.status == Status::ok);
    CHECK(at_sender.released);
  }

  // Until no send of either is unreaped.
  [[nodiscard]] bool gets_quiet() {
    for (int round = 0; round < 5000; ++round) {
      a->wait({}, 1'000'000);
      b->wait({}, 1'000'000);
      if (a->stats().buffers_in_use + b->stats().buffers_in_use == 0) return true;
    }
    return false;
  }

  Engine engine_a;
  Engine engine_b;
  std::unique_ptr<Endpoint> a;
  std::unique_ptr<Endpoint> b;
  PeerId b_of_a = kAnyPeer;
  PeerId a_of_b = kAnyPeer;
};

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
