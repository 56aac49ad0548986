// SPDX-License-Identifier: Apache-2.0
// Faults under whole endpoints: lossy NICs, NICs that die and return, and peers that are gone.
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/clock.hpp"
#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

std::string states_of(const EndpointPair& pair) {
  std::string text;
  for (const auto& [endpoint, peer] :
       {std::pair{pair.a.get(), pair.b_of_a}, std::pair{pair.b.get(), pair.a_of_b}}) {
    PeerStats stats;
    if (endpoint->peer_stats(peer, stats) != Status::ok) continue;
    for (const PathStats& path : stats.paths) {
      text += std::to_string(path.local_nic) + "-" + std::to_string(path.remote_nic) + " " +
              std::string(to_string(path.state)) + ", ";
    }
    text += "; ";
  }
  return text;
}

TEST_CASE("faults__everything_arrives_over_bad_nics") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::vector<std::byte> data = pattern(2'000'000, 1);
  std::vector<std::byte> buffer(data.size());
  std::string faults = "loss=0.05,duplicate=0.01,reorder=0.05,seed=11";
  // Memory NICs say that they need no checksum, as verbs NICs do, so damage would go unnoticed.
  if (setting.driver == "udp") faults += ",corrupt=0.001,truncate=0.001";
  Tunables tunables = short_close();
  tunables.fragment_bytes = 4096;  // so many packets that each fault happens
  EndpointPair pair(setting, tunables, 4, faults);
  for (int i = 0; i < 3; ++i) {
    post_receive(*pair.b, pair.a_of_b, 1, buffer);
    post_send(*pair.a, pair.b_of_a, 1, data);
    REQUIRE(pair.next(*pair.b).status == Status::ok);
    REQUIRE(pair.next(*pair.a).status == Status::ok);
    REQUIRE(buffer == data);
  }
  CHECK(pair.a->stats().fragments_retransmitted > 0);
  CHECK(pair.b->stats().duplicate_fragments +
            pair.b->stats().drops[static_cast<std::size_t>(DropReason::old_path_number)] >
        0);
}

TEST_CASE("faults__a_nic_dies_and_returns_and_nothing_fails") {
  const Setting setting = GENERATE(from_range(all_settings()));
  const bool event = GENERATE(false, true);
  CAPTURE(setting, event);
  const std::string suffix = event ? ":event" : "";
  const std::vector<std::byte> data = pattern(1'000'000, 2);
  std::vector<std::byte> buffer(data.size());
  EndpointPair pair(setting, short_close(), 2, "seed=1");
  const auto exchange = [&] {
    post_receive(*pair.b, pair.a_of_b, 1, buffer);
    post_send(*pair.a, pair.b_of_a, 1, data);
    REQUIRE(pair.next(*pair.b).status == Status::ok);
    REQUIRE(pair.next(*pair.a).status == Status::ok);
    REQUIRE(buffer == data);
  };
  exchange();
  REQUIRE(pair.engine_a.inject_fault(1, "kill" + suffix) == Status::ok);
  // Without traffic an endpoint can't know that a path is dead, so traffic goes on until it does.
  const auto is_down = [&] { return pair.a->nic_stats()[1].state == PathState::down; };
  const HangLimit limit;
  for (int i = 0; i < 5 || !(is_down() || limit.is_over()); ++i) exchange();
  CHECK(is_down());
  // While an engine's thread waited for a processor, its other paths were silent too; they return.
  CHECK(pair.turn_until([&] { return pair.a->nic_stats()[0].state == PathState::up; }));
  REQUIRE(pair.engine_a.inject_fault(1, "revive" + suffix) == Status::ok);
  const bool returned =
      pair.turn_until([&] { return pair.a->nic_stats()[1].state == PathState::up; });
  CAPTURE(states_of(pair));
  CHECK(returned);
  exchange();
  CHECK(pair.a->stats().peer_failures == 0);
}

// The receiver's dead NIC has no fault layer that could report it; it just delivers nothing.
TEST_CASE("faults__a_nic_that_falls_silent_is_noticed_by_silence") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  const Setting setting{"udp", threads};
  Engine sends({nic_names(setting, 0, 3), threads, short_close(), "seed=1"});
  Engine receives({nic_names(setting, 1, 3), threads, short_close(), ""});
  const auto a = sends.create_endpoint({});
  const auto b = receives.create_endpoint({});
  PeerId b_of_a = kAnyPeer;
  REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
  const std::vector<std::byte> data = pattern(1'000'000, 4);
  std::vector<std::byte> buffer(data.size());
  const auto exchange = [&] {
    post_receive(*b, kAnyPeer, 1, buffer);
    post_send(*a, b_of_a, 1, data);
    REQUIRE(next_of(*b, *a).status == Status::ok);
    REQUIRE(next_of(*a, *b).status == Status::ok);
    REQUIRE(buffer == data);
  };
  // On a busy machine the receiver may ask for missing data before the sender notices the silence.
  bool by_silence = false;
  for (const HangLimit limit; !(by_silence || limit.is_over());) {
    for (int i = 0; i < 5; ++i) exchange();
    REQUIRE(sends.inject_fault(1, "kill") == Status::ok);
    Event event;
    bool is_suspect = false;
    for (const HangLimit noticed; !(is_suspect || noticed.is_over());) {
      exchange();
      while (a->poll_events(std::span(&event, 1)) == 1) {
        if (event.kind != Event::Kind::path_suspect) continue;
        is_suspect = true;
        by_silence |= event.nic == 1 && event.reason == Reason::silence;
      }
    }
    REQUIRE(sends.inject_fault(1, "revive") == Status::ok);
    const HangLimit back;
    while (a->nic_stats()[1].state != PathState::up && !back.is_over()) exchange();
  }
  CHECK(by_silence);
}

// Two endpoints in a session. Null if some thread had no processor within the timeout.
std::unique_ptr<EndpointPair> met_within(const Setting& setting, std::uint64_t peer_timeout_ms) {
  Tunables tunables = short_close();
  tunables.longest_absence_ms = 0;
  tunables.peer_timeout_ms = peer_timeout_ms;
  const std::vector<std::byte> sent = pattern(100, 3);
  std::vector<std::byte> received(100);
  auto pair = std::make_unique<EndpointPair>(setting, tunables, 2, "seed=1");
  const proto::Time begun = monotonic_now();
  post_receive(*pair->b, pair->a_of_b, 1, received);
  post_send(*pair->a, pair->b_of_a, 1, sent);
  const Status at_b = pair->next(*pair->b).status;
  const Status at_a = pair->next(*pair->a).status;
  if (at_a == Status::ok && at_b == Status::ok) return pair;
  CHECK(monotonic_now() - begun >= proto::milliseconds(peer_timeout_ms));
  return nullptr;
}

TEST_CASE("faults__a_peer_that_is_gone_is_a_typed_error_within_peer_timeout") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::vector<std::byte> data = pattern(1'000'000, 3);
  std::vector<std::byte> buffer(100);
  // A peer whose engine thread waits for a processor for longer than this counts as gone, too.
  std::uint64_t peer_timeout_ms = 300;
  std::unique_ptr<EndpointPair> met = met_within(setting, peer_timeout_ms);
  for (; met == nullptr && peer_timeout_ms < test::kStandstillMs; peer_timeout_ms *= 10) {
    met = met_within(setting, peer_timeout_ms * 10);
  }
  REQUIRE(met != nullptr);
  EndpointPair& pair = *met;

  for (std::size_t nic = 0; nic < 2; ++nic) {
    REQUIRE(pair.engine_b.inject_fault(nic, "kill") == Status::ok);
  }
  pair.b->poll({});
  const proto::Time start = monotonic_now();
  const OperationId send = post_send(*pair.a, pair.b_of_a, 1, data);
  const OperationId receive = post_receive(*pair.a, pair.b_of_a, 7, buffer);
  for (int i = 0; i < 2; ++i) {
    const Completion completion = pair.next(*pair.a);
    CHECK(completion.status == Status::peer_timeout);
    CHECK(completion.peer == pair.b_of_a);
    CHECK((completion.operation == send || completion.operation == receive));
    CHECK(completion.released);
  }
  CHECK(monotonic_now() - start >= proto::milliseconds(peer_timeout_ms));
  bool named = false;
  Event event;
  while (pair.a->poll_events(std::span(&event, 1)) == 1) {
    named |= event.kind == Event::Kind::peer_failed && event.status == Status::peer_timeout &&
             event.peer == pair.b_of_a;
  }
  CHECK(named);
  // From here on the call itself, or the completion of the operation, reports the failure.
  OperationId operation = kNoOperation;
  const Status status = pair.a->send(
      {.peer = pair.b_of_a, .tag = 1, .data = data.data(), .bytes = data.size()}, operation);
  if (status == Status::ok) {
    CHECK(pair.next(*pair.a).status == Status::peer_timeout);
  } else {
    CHECK(status == Status::peer_timeout);
  }
}

}  // namespace
}  // namespace hawser::engine
