// SPDX-License-Identifier: Apache-2.0
// A cancelled thread makes every call of an endpoint but `wait`. The first cancellation point in
// any of them would end the thread there.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {

inline void poll_until(EndpointPair& pair, std::size_t completions) {
  std::array<Completion, 4> some;
  for (const HangLimit limit; completions > 0;) {
    REQUIRE_FALSE(limit.is_over());
    for (Endpoint* endpoint : {pair.a.get(), pair.b.get()}) completions -= endpoint->poll(some);
  }
}

inline void pass_by_polling(EndpointPair& pair, std::size_t bytes, std::uint64_t tag) {
  const std::vector<std::byte> sent = pattern(bytes, tag);
  std::vector<std::byte> received(bytes);
  post_receive(*pair.b, pair.a_of_b, tag, received);
  post_send(*pair.a, pair.b_of_a, tag, sent);
  pair.a->flush();
  poll_until(pair, 2);
  CHECK(std::ranges::equal(received, sent));
}

// Claims a message, gives it back, claims it again and receives it.
inline void claim_by_polling(EndpointPair& pair) {
  const std::vector<std::byte> sent = pattern(100, 5);
  std::vector<std::byte> received(sent.size());
  post_send(*pair.a, pair.b_of_a, 5, sent);
  Envelope envelope;
  MessageId message = kNoMessage;
  for (const HangLimit limit; pair.b->probe({.tag = 5}, envelope) != Status::ok;) {
    REQUIRE_FALSE(limit.is_over());
    for (Endpoint* endpoint : {pair.a.get(), pair.b.get()}) (void)endpoint->poll({});
  }
  REQUIRE(pair.b->claim({.tag = 5}, envelope, message) == Status::ok);
  REQUIRE(pair.b->put_back(message) == Status::ok);
  REQUIRE(pair.b->claim({.tag = 5}, envelope, message) == Status::ok);
  OperationId operation = kNoOperation;
  REQUIRE(pair.b->receive_claimed(message, {.data = received.data(), .bytes = received.size()},
                                  operation) == Status::ok);
  poll_until(pair, 2);
  CHECK(std::ranges::equal(received, sent));
}

inline void look_at(Endpoint& endpoint, PeerId peer) {
  std::array<Event, 8> events;
  PeerStats stats;
  CHECK(endpoint.stats().sessions_established == 1);
  CHECK(endpoint.nic_stats().size() == 2);
  CHECK(endpoint.verdicts().empty());
  CHECK(endpoint.peer_stats(peer, stats) == Status::ok);
  CHECK(endpoint.poll_events(events) > 0);
}

inline void register_some(Endpoint& endpoint) {
  std::vector<std::byte> memory(100'000);
  RegistrationId registration{};
  CHECK(endpoint.register_memory(memory.data(), memory.size(), registration) == Status::ok);
  CHECK(endpoint.deregister_memory(registration) == Status::ok);
  CHECK(endpoint.register_memory(memory.data(), memory.size(), registration) == Status::ok);
  endpoint.release_memory(registration);
  std::string why;
  CHECK(endpoint.register_dmabuf({-1, 0, 1, nullptr}, registration, &why) != Status::ok);
}

inline void make_all_calls(EndpointPair& pair) {
  CHECK(pair.b->fd() >= 0);
  for (std::uint64_t i = 0; i < 20; ++i) pass_by_polling(pair, i % 2 == 0 ? 100 : 300'000, i + 10);
  claim_by_polling(pair);
  std::vector<std::byte> never(8);
  CHECK(pair.b->cancel(post_receive(*pair.b, pair.a_of_b, 9, never)) == Status::ok);
  poll_until(pair, 1);
  look_at(*pair.a, pair.b_of_a);
  register_some(*pair.a);
  CHECK(pair.a->disconnect(pair.b_of_a) == Status::ok);
  pair.a->close();
  pair.b->close();
}

}  // namespace hawser::engine
