// SPDX-License-Identifier: Apache-2.0
// Two endpoints in one process that know each other, with any NICs and number of threads.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "test/support/hang_limit.hpp"

namespace hawser::engine {

struct Setting {
  std::string driver;  // "memory" or "udp"
  unsigned threads = 0;
  friend std::ostream& operator<<(std::ostream& out, const Setting& setting) {
    return out << setting.driver << ", " << setting.threads << " threads";
  }
};

inline std::vector<Setting> all_settings() {
  return {{"memory", 0}, {"memory", 1}, {"udp", 0}, {"udp", 1}};
}

using test::comes_true;
using test::HangLimit;
using test::kHangLimitMs;
using test::kHangLimitNs;

inline std::vector<std::string> nic_names(const Setting& setting, int side, int count) {
  static int fabrics = 0;
  if (side == 0) ++fabrics;
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(setting.driver == "udp" ? "udp:127.0.0." + std::to_string(1 + 10 * side + i)
                                            : "memory:test-" + std::to_string(fabrics));
  }
  return names;
}

// Tunables for two endpoints that one thread drives: an endpoint that closes gets no answer from
// the other. A machine that stands still must not make a peer seem dead.
inline Tunables short_close() {
  Tunables tunables;
  tunables.close_timeout_ms = 50;
  tunables.longest_absence_ms = test::kStandstillMs;
  return tunables;
}

// The next completion of `mine`. With inline progress the other endpoint gets its turns too.
inline Completion next_of(Endpoint& mine, Endpoint& other) {
  Completion completion;
  for (const HangLimit limit; !limit.is_over();) {
    if (mine.wait(std::span(&completion, 1), 1'000'000) == 1) return completion;
    other.poll({});
  }
  FAIL("no completion");
  return completion;
}

// Gives both endpoints turns, which must bring no completions, until `condition` is true. False if
// it was not within kHangLimit.
template <class Condition>
[[nodiscard]] bool turn_until(Endpoint& one, Endpoint& other, Condition&& condition) {
  for (const HangLimit limit; !condition();) {
    if (limit.is_over()) return condition();
    Completion none;
    REQUIRE(one.wait(std::span(&none, 1), 100'000) == 0);
    REQUIRE(other.wait(std::span(&none, 1), 100'000) == 0);
  }
  return true;
}

struct EndpointPair {
  explicit EndpointPair(const Setting& setting, const Tunables& tunables = short_close(),
                        int nics = 2, const std::string& faults = "", EndpointConfig config = {})
      : engine_a({nic_names(setting, 0, nics), setting.threads, tunables, faults}),
        engine_b({nic_names(setting, 1, nics), setting.threads, tunables, faults}),
        a(engine_a.create_endpoint(config)),
        b(engine_b.create_endpoint(config)) {
    REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
    REQUIRE(b->connect(a->address(), a_of_b) == Status::ok);
  }

  Completion next(Endpoint& mine) { return next_of(mine, &mine == a.get() ? *b : *a); }

  template <class Condition>
  [[nodiscard]] bool turn_until(Condition&& condition) {
    return engine::turn_until(*a, *b, condition);
  }

  Engine engine_a;
  Engine engine_b;
  std::unique_ptr<Endpoint> a;
  std::unique_ptr<Endpoint> b;
  PeerId b_of_a = kAnyPeer;
  PeerId a_of_b = kAnyPeer;
};

inline OperationId post_send(Endpoint& endpoint, PeerId peer, std::uint64_t tag,
                             std::span<const std::byte> data, SendRequest request = {}) {
  OperationId operation = kNoOperation;
  request.peer = peer;
  request.tag = tag;
  request.data = data.data();
  request.bytes = data.size();
  REQUIRE(endpoint.send(request, operation) == Status::ok);
  return operation;
}

inline OperationId post_receive(Endpoint& endpoint, PeerId peer, std::uint64_t tag,
                                std::vector<std::byte>& data, ReceiveRequest request = {}) {
  OperationId operation = kNoOperation;
  request.peer = peer;
  request.tag = tag;
  request.data = data.data();
  request.bytes = data.size();
  REQUIRE(endpoint.receive(request, operation) == Status::ok);
  return operation;
}

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((seed * 0x9e3779b97f4a7c15u + i * 0xff51afd7ed558ccdu) >> 56);
  }
  return data;
}

// Sends a message of several packets from one endpoint to the other.
inline void check_that_messages_pass(EndpointPair& pair) {
  const std::vector<std::byte> sent = pattern(70'000, 3);
  std::vector<std::byte> received(sent.size());
  post_receive(*pair.b, pair.a_of_b, 1, received);
  post_send(*pair.a, pair.b_of_a, 1, sent);
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(pair.next(*pair.a).status == Status::ok);
  CHECK(received == sent);
}

}  // namespace hawser::engine
