// SPDX-License-Identifier: Apache-2.0
// The NIC contract, sentence by sentence: which packets arrive, and how long their views are valid.
#include <poll.h>

#include <deque>
#include <random>

#include "test/engine/driver/conformance/rigs.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {

TEMPLATE_TEST_CASE("a datagram arrives whole, whatever its shape", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const std::size_t longest = sender.caps().max_datagram_bytes;
  const std::size_t most_header = PacketBuffer::kBytes;
  const std::pair<std::size_t, std::size_t> shapes[] = {{1, 0},
                                                        {7, 0},
                                                        {8, 0},
                                                        {most_header, 0},
                                                        {1, 1},
                                                        {3, 5},
                                                        {64, 1},
                                                        {64, 4095},
                                                        {64, 4096},
                                                        {most_header, 4096},
                                                        {16, longest - 16},
                                                        {most_header, longest - most_header}};
  for (const Queue queue : {Queue::data, Queue::control}) {
    std::uint64_t id = 0;
    for (const auto& [header, payload] : shapes) {
      if (header + payload > longest) continue;
      Burst burst(rig.pool);
      burst.add({.id = ++id,
                 .header_bytes = header,
                 .payload_bytes = payload,
                 .remote = to,
                 .queue = queue});
      rig.send_all(sender, burst);
      std::array<RxPacket, 4> packets;
      CAPTURE(header, payload);
      REQUIRE(rig.receive(receiver, queue, packets) == 1);
      CHECK(equals(packets[0], datagram(id, header + payload)));
      CHECK(packets[0].queue == queue);
      CHECK_FALSE(packets[0].congestion_experienced);
      CHECK(reinterpret_cast<std::uintptr_t>(packets[0].data) % 8 == 0);
      (void)rig.reap_rest(sender);
    }
  }
}

TEMPLATE_TEST_CASE("a burst of equal datagrams arrives as the datagrams it was, in order, aligned",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  // These lengths stay unaligned in a segmented send too. The last packet is shorter.
  for (const std::size_t bytes : {33u, 40u, 1001u, 1024u, 4103u}) {
    if (bytes > sender.caps().max_datagram_bytes) continue;
    CAPTURE(bytes);
    Burst burst(rig.pool);
    for (std::uint64_t id = 0; id < 30; ++id) {
      burst.add(
          {.id = id, .header_bytes = 32, .payload_bytes = bytes - 32 - (id == 29), .remote = to});
    }
    rig.send_all(sender, burst);
    std::uint64_t id = 0;
    std::array<RxPacket, 64> packets;
    while (id < 30) {
      const std::size_t count = rig.receive(receiver, Queue::data, packets);
      REQUIRE(count > 0);
      for (std::size_t i = 0; i < count; ++i, ++id) {
        CHECK(equals(packets[i], datagram(id, bytes - (id == 29))));
        CHECK(reinterpret_cast<std::uintptr_t>(packets[i].data) % 8 == 0);
      }
    }
    CHECK(id == 30);
    (void)rig.reap_rest(sender);
  }
}

TEMPLATE_TEST_CASE("a mixed burst is sorted out: remotes, queues, lengths", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  std::array<Nic*, 3> receivers{&rig.make(), &rig.make(), &sender};  // itself too
  std::array<RemoteHandle, 3> to;
  for (std::size_t i = 0; i < 3; ++i) to[i] = open(sender, *receivers[i]);
  const std::size_t longest = std::min<std::size_t>(1232, sender.caps().max_datagram_bytes) - 32;
  std::mt19937_64 random(20240607);
  std::array<std::array<std::vector<std::vector<std::byte>>, 2>, 3> expected;
  for (std::uint64_t round = 0; round < 20; ++round) {
    Burst burst(rig.pool);
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint64_t id = round * 40 + i;
      const std::size_t who = random() % 3;
      // Runs of equal length make the NIC segment some sends amid the others.
      const std::size_t payload = random() % 2 == 0 ? longest - 200 : random() % longest;
      const Queue queue = random() % 4 == 0 ? Queue::control : Queue::data;
      burst.add({.id = id, .payload_bytes = payload, .remote = to[who], .queue = queue});
      expected[who][static_cast<std::size_t>(queue)].push_back(datagram(id, 32 + payload));
    }
    rig.send_all(sender, burst);
    rig.pass_time();
    for (std::size_t who = 0; who < 3; ++who) {
      for (const Queue queue : {Queue::data, Queue::control}) {
        auto& wanted = expected[who][static_cast<std::size_t>(queue)];
        CHECK(rig.settle(*receivers[who], queue) == wanted);
        wanted.clear();
      }
    }
    (void)rig.reap_rest(sender);
  }
  CHECK(rig.pool.in_use() == 0);
}

TEMPLATE_TEST_CASE("fewer than asked for means empty, asking for much is asking for kMaxRxBurst",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const bool equal = GENERATE(true, false);  // coalesced, or one by one
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 150; ++id) {
    burst.add({.id = id, .payload_bytes = equal ? 200 : 200 + id, .remote = to});
  }
  rig.send_all(sender, burst);
  std::array<RxPacket, 200> packets;
  std::vector<std::vector<std::byte>> all;
  std::vector<std::size_t> counts;
  const auto take = [&](std::size_t asked) {
    const std::size_t count = rig.receive(receiver, Queue::data, std::span(packets).first(asked));
    for (auto& bytes : copies(std::span(packets).first(count))) all.push_back(bytes);
    counts.push_back(count);
  };
  for (const std::size_t asked : {200, 1, 7, 64, 200}) take(asked);
  CHECK(counts == std::vector<std::size_t>{64, 1, 7, 64, 14});
  REQUIRE(all.size() == 150);
  for (std::uint64_t id = 0; id < 150; ++id) {
    CHECK(all[id] == datagram(id, 32 + (equal ? 200 : 200 + id)));
  }
}

TEMPLATE_TEST_CASE("views are valid until the next rx_burst for their queue", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const auto send = [&](std::uint64_t first, std::uint64_t count, Queue queue) {
    Burst burst(rig.pool);
    for (std::uint64_t id = first; id < first + count; ++id) {
      burst.add({.id = id, .payload_bytes = 900, .remote = to, .queue = queue});
    }
    rig.send_all(sender, burst);
    (void)rig.reap_rest(sender);
  };
  send(0, 90, Queue::data);
  std::array<RxPacket, 64> views;
  REQUIRE(rig.receive(receiver, Queue::data, views) == 64);
  // The rest of those 90, new arrivals and the other queue must not touch these views.
  send(1000, 200, Queue::data);
  for (std::uint64_t round = 0; round < 5; ++round) {
    send(5000 + 40 * round, 40, Queue::control);
    CHECK(rig.settle(receiver, Queue::control).size() == 40);
  }
  for (std::uint64_t id = 0; id < 64; ++id) CHECK(equals(views[id], datagram(id, 932)));
  CHECK(rig.settle(receiver).size() == 226);
}

TEMPLATE_TEST_CASE("whatever is asked for when: nothing is lost, mixed up or overwritten too early",
                   "[conformance]", HAWSER_RIGS) {
  for_each_seed(TestType::kSeeds, [](proto::Random& random) {
    TestType rig;
    Nic& sender = rig.make();
    Nic& receiver = rig.make();
    const RemoteHandle to = open(sender, receiver);
    const std::size_t longest = std::min<std::size_t>(1532, sender.caps().max_datagram_bytes) - 32;
    struct Stream {
      std::deque<std::vector<std::byte>> expected;  // sent, and not received yet
      std::array<RxPacket, 64> views;
      std::vector<std::vector<std::byte>> lent;  // the views' contents until the next call
    };
    std::array<Stream, 2> streams;
    const auto check_views = [](const Stream& stream) {
      for (std::size_t i = 0; i < stream.lent.size(); ++i) {
        REQUIRE(equals(stream.views[i], stream.lent[i]));
      }
    };
    for (std::uint64_t step = 0; step < 300; ++step) {
      const Queue queue = random.chance(0.3) ? Queue::control : Queue::data;
      Stream& stream = streams[static_cast<std::size_t>(queue)];
      if (random.chance(0.5) && stream.expected.size() < 200) {
        Burst burst(rig.pool);
        const std::size_t payload = random.below(longest);
        const bool equal = random.chance(0.7);
        for (std::uint64_t i = 0, count = 1 + random.below(40); i < count; ++i) {
          const std::size_t bytes = equal ? payload : random.below(longest);
          const std::uint64_t id = step * 100 + i;
          burst.add({.id = id, .payload_bytes = bytes, .remote = to, .queue = queue});
          stream.expected.push_back(datagram(id, 32 + bytes));
        }
        rig.send_all(sender, burst);
        (void)rig.reap_rest(sender);
      } else {
        rig.pass_time();
        check_views(stream);
        const std::size_t asked = random.below(65);
        const std::size_t count = receiver.rx_burst(queue, std::span(stream.views).first(asked));
        const std::size_t there = std::min(asked, stream.expected.size());
        REQUIRE((rig.holds() ? count <= there : count == there));
        stream.lent.clear();
        for (std::size_t i = 0; i < count; ++i) {
          stream.lent.push_back(std::move(stream.expected.front()));
          stream.expected.pop_front();
        }
      }
      for (const Stream& other : streams) check_views(other);
    }
    for (const Queue queue : {Queue::data, Queue::control}) {
      const auto& expected = streams[static_cast<std::size_t>(queue)].expected;
      CHECK(rig.settle(receiver, queue) == std::vector(expected.begin(), expected.end()));
    }
    CHECK(rig.pool.in_use() == 0);
  });
}

TEMPLATE_TEST_CASE("bulk data does not push control out, and its overrun is counted",
                   "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const std::uint64_t before = receiver.overruns();
  CHECK(before == 0);
  // This is far more than the data ring holds, and nobody receives.
  const std::size_t payload = std::min<std::size_t>(4000, sender.caps().max_datagram_bytes - 32);
  std::uint64_t sent = 0;
  for (int round = 0; round < 80; ++round) {
    Burst burst(rig.pool);
    for (int i = 0; i < 32; ++i) {
      burst.add({.id = sent++, .payload_bytes = payload, .remote = to, .with_cookie = false});
    }
    rig.send_all(sender, burst);
    (void)rig.reap_rest(sender);
  }
  Burst burst(rig.pool);
  for (std::uint64_t id = 0; id < 10; ++id) {
    burst.add({.id = id, .remote = to, .queue = Queue::control});
  }
  rig.send_all(sender, burst);
  CHECK(rig.settle(receiver, Queue::control).size() == 10);
  (void)rig.reap_rest(sender);
  // A kernel may count several datagrams as one.
  const std::size_t arrived = rig.settle(receiver).size();
  CHECK(arrived < sent);
  CHECK(receiver.overruns() > 0);
  CHECK(receiver.overruns() <= sent - arrived);
}

TEMPLATE_TEST_CASE("receive_bytes of full packets fit without loss", "[conformance]", HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  const bool burstwise = GENERATE(true, false);
  const std::size_t bytes = std::min<std::size_t>(4096 + 64, sender.caps().max_datagram_bytes);
  const std::uint64_t fit = receiver.caps().receive_bytes / bytes;
  REQUIRE(fit > 20);
  std::uint64_t sent = 0;
  while (sent < fit) {
    Burst burst(rig.pool);
    for (int i = 0; i < (burstwise ? 15 : 1) && sent < fit; ++i) {
      burst.add({.id = sent++, .header_bytes = 64, .payload_bytes = bytes - 64, .remote = to});
    }
    rig.send_all(sender, burst);
    (void)rig.reap_rest(sender);
  }
  CHECK(rig.settle(receiver).size() == fit);
  CHECK(receiver.overruns() == 0);
}

TEMPLATE_TEST_CASE("descriptors are readable when something is there", "[conformance]",
                   HAWSER_RIGS) {
  TestType rig;
  Nic& sender = rig.make();
  Nic& receiver = rig.make();
  const RemoteHandle to = open(sender, receiver);
  std::array<int, 8> fds;
  const std::size_t count = receiver.descriptors(fds);
  REQUIRE(count <= fds.size());
  const auto readable = [&](int timeout_ms) {
    std::vector<pollfd> polled;
    for (std::size_t i = 0; i < count; ++i) polled.push_back({fds[i], POLLIN, 0});
    return ::poll(polled.data(), polled.size(), timeout_ms);
  };
  const auto is_quiet = [&] {
    if (receiver.arm()) {
      CHECK(receive_all(receiver).empty());
      CHECK(receive_all(receiver, Queue::control).empty());
    }
    CHECK(!receiver.arm());
    return readable(0) == 0;
  };
  CHECK(is_quiet());
  if (count == 0) return;  // a memory NIC
  std::array<int, 1> one;
  CHECK(receiver.descriptors(one) == 1);
  for (const Queue queue : {Queue::data, Queue::control}) {
    Burst burst(rig.pool);
    burst.add({.id = 1, .remote = to, .queue = queue});
    rig.send_all(sender, burst);
    rig.pass_time();
    CHECK(readable(kHangLimitMs) == 1);
    CHECK(rig.settle(receiver, queue).size() == 1);
    CHECK(is_quiet());
  }
}

}  // namespace hawser::test
