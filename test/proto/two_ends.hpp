// SPDX-License-Identifier: Apache-2.0
// The owners of two endpoints, without the endpoints. Packets that the NICs of one are given wait
// there until `carry` takes them to the other.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "proto/endpoint/owners.hpp"
#include "test/proto/sending.hpp"
#include "test/support/recording_nic.hpp"
#include "test/support/simple_pool.hpp"

namespace hawser::proto {

struct End {
  EndpointConfig config;
  test::SimplePool pool{128};
  test::RecordingNic first;   // its packets carry checksums
  test::RecordingNic second;  // its packets need none
  std::array<Nic*, 2> nics{&first, &second};
  Owners owners;
  std::uint64_t operations = 0;

  End(std::uint64_t id, const Tunables& tunables, std::span<const std::byte> secret)
      : config{.tunables = tunables,
               .endpoint_id = id,
               .epoch = 1,
               .seed = id,
               .job_secret = secret,
               .trace = nullptr,
               .trace_context = nullptr},
        first(static_cast<std::uint8_t>(10 * id), pool, caps_of(2048, 8, true)),
        second(static_cast<std::uint8_t>(10 * id + 1), pool, caps_of(2048, 1, false)),
        owners(config, nics, pool) {}

  void begin(Time now) {
    (void)owners.turn.begin(now);
    owners.turn.look_into_rings();
  }
  void finish(Time now) {
    (void)owners.turn.begin_second_half(now);
    while (!owners.touched.empty()) {
      owners.sessions.rearm(owners.peers.at(owners.touched.pop_front(owners.peers)));
    }
    owners.turn.end(kNever);
  }
  // Takes what has come.
  void hear(Time now) {
    begin(now);
    owners.receiver.receive_all();
    owners.paths.judge_acks();
    finish(now);
  }
  // Lets timers of sessions expire.
  void expire(Time now) {
    begin(now);
    finish(now);
    owners.sessions.expire(8);
    finish(now);
  }
  void transmit(Time now) {
    begin(now);
    owners.transmitter.transmit();
    finish(now);
  }
  // The peer of that name; it is awake.
  Peer& peer(std::uint64_t id) {
    const std::uint32_t index = owners.peers.find(id);
    REQUIRE(index != kNoIndex);
    return owners.peers.at(index);
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    return owners.turn.counters.drops[static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] std::size_t packets() const { return first.sent.size() + second.sent.size(); }
  [[nodiscard]] int count_events(Event::Kind kind) {
    std::array<Event, 16> events;
    int count = 0;
    for (std::size_t i = 0, n = owners.turn.poll_events(events); i < n; ++i) {
      count += events[i].kind == kind;
    }
    return count;
  }
  std::vector<Completion> completions() {
    std::array<Completion, 8> some;
    const std::size_t count = owners.turn.operations.poll(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  void send(Peer& to, std::span<const std::byte> data) {
    const SendRequest request{
        .operation = OperationId{operations++}, .data = data.data(), .bytes = data.size()};
    REQUIRE(owners.outgoing.begin(to, request) != nullptr);
  }
  void receive(std::span<std::byte> room) {
    PostedReceive posted;
    posted.operation = OperationId{operations++};
    posted.peer = kAnyPeer;
    posted.data = room.data();
    posted.bytes = room.size();
    owners.turn.operations.begin(posted.operation, OperationKind::receive, kNoIndex,
                                 owners.turn.now());
    owners.incoming.post(posted);
  }
};

struct TwoEnds {
  static constexpr std::uint64_t kA = 1;
  static constexpr std::uint64_t kB = 2;

  Time now = Time{} + milliseconds(1);
  End a;
  End b;

  explicit TwoEnds(const Tunables& tunables = few_peers(1000),
                   std::span<const std::byte> secret_of_b = kSecret)
      : a(kA, tunables, kSecret), b(kB, tunables, secret_of_b) {}

  // `a` learns of `b`, and wants a session.
  Peer& call() {
    a.begin(now);
    Peer* const peer = a.owners.sessions.make_peer(kB, Asker::program);
    REQUIRE(peer != nullptr);
    const std::array records{b.owners.sessions.nic_record(0), b.owners.sessions.nic_record(1)};
    a.owners.sessions.learn_nics(*peer, records);
    a.owners.sessions.want_session(*peer);
    a.finish(now);
    a.expire(now);
    return *peer;
  }
  // Returns how many packets there were.
  std::size_t carry(End& from, End& to) {
    std::size_t count = 0;
    for (test::RecordingNic* const out : {&from.first, &from.second}) {
      for (auto& packet : std::exchange(out->sent, {})) {
        test::RecordingNic& in = packet.to == to.first.address() ? to.first : to.second;
        REQUIRE(packet.to == in.address());
        in.coming.push_back(std::move(packet));
        ++count;
      }
    }
    return count;
  }
  // Carries packets both ways until there are none, 10 us each.
  void exchange() {
    for (int i = 0; i < 20; ++i) {
      const std::size_t there = carry(a, b);
      b.hear(now = now + microseconds(10));
      const std::size_t back = carry(b, a);
      a.hear(now = now + microseconds(10));
      if (there + back == 0) return;
    }
    FAIL("the ends never stop answering each other");
  }
  // Makes a session; returns what `a` knows of `b`.
  Peer& connect() {
    Peer& peer = call();
    exchange();
    REQUIRE(peer.session.state == SessionState::ready);
    REQUIRE(b.peer(kA).session.state == SessionState::ready);
    return peer;
  }
};

}  // namespace hawser::proto
