// SPDX-License-Identifier: Apache-2.0
// Two endpoints with a verbs NIC at each end of two cables, and the messages between them. The
// cables join rxe_a0 to rxe_b0 and rxe_a1 to rxe_b1, or are those of rdma_ports.hpp. The NICs of
// one cable don't reach those of the other, as in a rail-optimised fabric.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"
#include "test/engine/rdma_ports.hpp"

namespace hawser::engine {

// Emulated processors are some 14 times slower than real ones.
inline Tunables patient() {
  Tunables tunables = short_close();
  tunables.max_peers = 4;
  return tunables;
}

// The NICs at end 0 or 1 of all cables.
inline std::vector<std::string> verbs_nics(std::size_t end) {
#ifdef HAWSER_FAKE_RIGS
  const std::vector<std::string> ports = test::rdma_ports();
#else
  const std::vector<std::string> ports = test::present_rdma_ports();
#endif
  std::vector<std::string> nics;
  for (std::size_t i = end; i < ports.size(); i += 2) nics.push_back("verbs:" + ports[i]);
  return nics;
}

struct VerbsPair {
  explicit VerbsPair(unsigned threads, const Tunables& tunables = patient())
      : engine_a({verbs_nics(0), threads, tunables, ""}),
        engine_b({verbs_nics(1), threads, tunables, ""}),
        a(engine_a.create_endpoint({})),
        b(engine_b.create_endpoint({})) {
    REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
    REQUIRE(b->connect(a->address(), a_of_b) == Status::ok);
  }

  Completion next(Endpoint& mine) { return next_of(mine, &mine == a.get() ? *b : *a); }

  // Like EndpointPair::turn_until.
  template <class Condition>
  [[nodiscard]] bool turn_until(Condition&& condition) {
    return engine::turn_until(*a, *b, condition);
  }

  // Sends a message from `from`, receives and compares it.
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

  // Waits until both endpoints have reaped all their sends.
  [[nodiscard]] bool gets_quiet() {
    for (const HangLimit limit; !limit.is_over();) {
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

}  // namespace hawser::engine
