// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/memory/datagram_ring.hpp"

#include <atomic>
#include <deque>
#include <thread>

#include "test/engine/driver/nic_user.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

bool push(engine::DatagramRing& ring, std::uint64_t id, std::size_t bytes) {
  const auto whole = datagram(id, bytes);
  const std::size_t cut = bytes / 3;
  return ring.push(std::span(whole).first(cut), std::span(whole).subspan(cut));
}

}  // namespace

TEST_CASE("datagram ring: beside a queue, under random pushes and pops") {
  for_each_seed(10, [](proto::Random& random) {
    engine::DatagramRing ring(16, 200);
    std::deque<std::vector<std::byte>> model;
    std::size_t lent = 0;  // popped, and not given back yet
    std::uint64_t dropped = 0;
    std::array<RxPacket, 8> packets;
    for (std::uint64_t id = 0; id < 5000; ++id) {
      if (random.chance(0.7)) {
        const std::size_t bytes = 1 + random.below(200);
        const bool fits = model.size() + lent < ring.slots();
        REQUIRE(push(ring, id, bytes) == fits);
        if (fits) model.push_back(datagram(id, bytes));
        dropped += fits ? 0 : 1;
      } else {
        const std::size_t asked = random.below(packets.size() + 1);
        const std::size_t count = ring.pop(std::span(packets).first(asked), Queue::control);
        REQUIRE(count == std::min(asked, model.size()));
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(equals(packets[i], model.front()));
          CHECK(packets[i].queue == Queue::control);
          model.pop_front();
        }
        lent = count;
      }
      REQUIRE(ring.overruns() == dropped);
    }
  });
}

TEST_CASE("datagram ring: a datagram longer than a slot is dropped, and is no overrun") {
  engine::DatagramRing ring(4, 100);
  CHECK_FALSE(push(ring, 1, 101));
  CHECK(push(ring, 2, 100));
  CHECK(ring.overruns() == 0);
  std::array<RxPacket, 4> packets;
  CHECK(ring.pop(packets, Queue::data) == 1);
  CHECK(equals(packets[0], datagram(2, 100)));
}

TEST_CASE("datagram ring: views stay as they were while others push") {
  engine::DatagramRing ring(8, 64);
  for (std::uint64_t id = 0; id < 8; ++id) REQUIRE(push(ring, id, 64));
  std::array<RxPacket, 5> packets;
  REQUIRE(ring.pop(packets, Queue::data) == 5);
  for (std::uint64_t id = 8; id < 20; ++id) CHECK_FALSE(push(ring, id, 64));
  for (std::uint64_t id = 0; id < 5; ++id) CHECK(equals(packets[id], datagram(id, 64)));
  REQUIRE(ring.pop(std::span(packets).first(1), Queue::data) == 1);
  for (std::uint64_t id = 8; id < 13; ++id) CHECK(push(ring, id, 64));
  CHECK_FALSE(push(ring, 13, 64));
}

TEST_CASE("datagram ring: several senders, one receiver, nothing lost or mixed but by overrun") {
  constexpr std::uint64_t kSenders = 3;
  constexpr std::uint64_t kEach = 20'000;
  engine::DatagramRing ring(64, 64);
  std::atomic<std::uint64_t> running{kSenders};
  std::array<std::uint64_t, kSenders> pushed{};
  std::vector<std::thread> senders;
  for (std::uint64_t s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const std::uint64_t words[2] = {s, i};
        const auto bytes = std::as_bytes(std::span(words));
        // Wait for room for most datagrams, so that the receiver sees some of all; drop a few.
        while (!ring.push(bytes.first(8), bytes.subspan(8))) {
          if (i % 16 == 0) break;
          std::this_thread::yield();
        }
        pushed[s] = i + 1;
      }
      running.fetch_sub(1);
    });
  }
  std::array<std::uint64_t, kSenders> next{};
  std::uint64_t received = 0;
  std::uint64_t wrong = 0;
  std::array<RxPacket, 16> packets;
  for (bool last = false;;) {
    const std::size_t count = ring.pop(packets, Queue::data);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t words[2];
      if (packets[i].bytes != sizeof words) ++wrong;
      std::memcpy(words, packets[i].data, sizeof words);
      if (words[0] >= kSenders || words[1] < next[words[0]]) {
        ++wrong;
        continue;
      }
      next[words[0]] = words[1] + 1;
      ++received;
    }
    if (count == 0) {
      if (last) break;
      last = running.load() == 0;
      std::this_thread::yield();
    }
  }
  for (auto& sender : senders) sender.join();
  CHECK(wrong == 0);
  CHECK(received <= kSenders * kEach);
  CHECK(received >= kSenders * kEach * 15 / 16);
}

}  // namespace hawser::test
