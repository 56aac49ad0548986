// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/memory/memory_nic.hpp"

#include <atomic>
#include <thread>

#include "hawser/engine.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {

using engine::MemoryFabric;
using engine::MemoryNic;
using engine::MemoryNicConfig;

TEST_CASE("memory fabric: a name leads to one fabric while somebody holds it") {
  const auto a = MemoryFabric::named("memory_nic_test");
  CHECK(MemoryFabric::named("memory_nic_test") == a);
  CHECK(MemoryFabric::named("memory_nic_test_2") != a);
  SimplePool pool(16);
  MemoryNic nic(a, {}, pool);
  CHECK(nic.name() == "memory:memory_nic_test");
}

TEST_CASE(
    "memory fabric: NICs of one fabric don't reach those of another, whatever their numbers") {
  SimplePool pool(16);
  MemoryNic a(MemoryFabric::named("fabric a"), {}, pool);
  MemoryNic b(MemoryFabric::named("fabric b"), {}, pool);
  RemoteHandle handle{};
  CHECK(a.open_remote(b.address(), handle) == Status::invalid_argument);
  CHECK(b.open_remote(a.address(), handle) == Status::invalid_argument);
  CHECK(a.open_remote(a.address(), handle) == Status::ok);
}

TEST_CASE("memory fabric: the same construction gives the same addresses") {
  SimplePool pool(16);
  const auto address = [&] {
    const auto fabric = std::make_shared<MemoryFabric>("sim", 7);
    const MemoryNic first(fabric, {}, pool);
    return MemoryNic(fabric, {}, pool).address();
  };
  CHECK(address() == address());
}

TEST_CASE("memory fabric: a number that was never given out is no address") {
  SimplePool pool(16);
  const auto fabric = std::make_shared<MemoryFabric>();
  MemoryNic a(fabric, {}, pool);
  RemoteHandle handle{};
  proto::NicAddress later;
  {
    const MemoryNic b(fabric, {}, pool);
    later = b.address();
    CHECK(a.open_remote(later, handle) == Status::ok);
  }
  // The address of a NIC that has gone can still be opened; packets sent there are lost.
  CHECK(a.open_remote(later, handle) == Status::ok);
  proto::NicAddress never = later;
  for (const int number : {0, 3, 99}) {  // the NICs were 1 and 2
    never.bytes[16] = static_cast<std::byte>(number);
    CHECK(a.open_remote(never, handle) == Status::invalid_argument);
  }
}

TEST_CASE("memory NIC: the ring drops what it has no slot for, and counts it") {
  SimplePool pool(256);
  const auto fabric = std::make_shared<MemoryFabric>();
  MemoryNic a(fabric, {}, pool);
  MemoryNic b(fabric, {.data_slots = 16, .control_slots = 32}, pool);
  CHECK(b.caps().receive_bytes == 16 * (4096 + 64));
  const RemoteHandle to = open(a, b);
  Burst burst(pool);
  for (std::uint64_t id = 0; id < 40; ++id) {
    burst.add({.id = id, .remote = to, .queue = id < 20 ? Queue::data : Queue::control});
  }
  REQUIRE(burst.send(a) == 40);
  CHECK(b.overruns() == 4);
  const auto arrived = receive_all(b);
  REQUIRE(arrived.size() == 16);
  CHECK(arrived.front() == datagram(0, 32));
  CHECK(arrived.back() == datagram(15, 32));
  CHECK(receive_all(b, Queue::control).size() == 20);
  CHECK(reap_all(a).size() == 40);
}

TEST_CASE("memory NIC: it sends nothing longer than it says, nor to a NIC that takes less") {
  SimplePool pool(16);
  const auto fabric = std::make_shared<MemoryFabric>();
  MemoryNic small(fabric, {.max_datagram_bytes = 1000}, pool);
  MemoryNic big(fabric, {.max_datagram_bytes = 4000}, pool);
  const auto arrives = [&](MemoryNic& from, MemoryNic& to, std::size_t bytes) {
    Burst burst(pool);
    burst.add({.id = 1, .payload_bytes = bytes - 32, .remote = open(from, to)});
    CHECK(burst.send(from) == 1);
    CHECK(reap_all(from).size() == 1);
    return receive_all(to).size() == 1;
  };
  CHECK(arrives(small, big, 1000));
  CHECK_FALSE(arrives(small, big, 1001));
  CHECK(arrives(big, small, 1000));
  CHECK_FALSE(arrives(big, small, 1001));
  CHECK(big.overruns() == 0);
  CHECK(small.overruns() == 0);
}

TEST_CASE("memory NIC: as many sends as it has slots for, then back-pressure until the reap") {
  SimplePool pool(256);
  const auto fabric = std::make_shared<MemoryFabric>();
  MemoryNic a(fabric, {.send_slots = 8}, pool);
  const RemoteHandle to = open(a, a);
  Burst burst(pool);
  for (std::uint64_t id = 0; id < 20; ++id) burst.add({.id = id, .remote = to});
  CHECK(burst.send(a) == 8);
  CHECK(burst.send(a) == 0);
  CHECK(pool.in_use() == 20);  // reap ends a send, nothing earlier
  std::array<std::uint64_t, 3> cookies;
  CHECK(a.reap(cookies) == 3);
  CHECK(pool.in_use() == 17);
  CHECK(burst.send(a) == 3);
  burst.abandon();
  CHECK(reap_all(a).size() == 8);
  CHECK(pool.in_use() == 0);
}

TEST_CASE("memory NIC: it moves to another address, and what goes to the old one is lost") {
  SimplePool pool(256);
  const auto fabric = std::make_shared<MemoryFabric>();
  MemoryNic a(fabric, {}, pool);
  MemoryNic b(fabric, {.data_slots = 16}, pool);
  const RemoteHandle old = open(a, b);
  Burst first(pool);
  for (std::uint64_t id = 0; id < 20; ++id) first.add({.id = id, .remote = old});
  REQUIRE(first.send(a) == 20);
  const proto::NicAddress before = b.address();
  b.move();
  CHECK(b.address() != before);
  CHECK(b.overruns() == 4);
  CHECK(receive_all(b).empty());
  const RemoteHandle fresh = open(a, b);
  CHECK(fresh != old);
  Burst second(pool);
  second.add({.id = 100, .remote = old});
  second.add({.id = 101, .remote = fresh});
  REQUIRE(second.send(a) == 2);
  const auto arrived = receive_all(b);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived.front() == datagram(101, 32));
  CHECK(b.overruns() == 4);
}

TEST_CASE("memory NIC: its buffers are back in the pool when it is gone") {
  SimplePool pool(16);
  const auto fabric = std::make_shared<MemoryFabric>();
  {
    MemoryNic a(fabric, {}, pool);
    Burst burst(pool);
    burst.add({.id = 1, .remote = open(a, a)});
    REQUIRE(burst.send(a) == 1);
    CHECK(pool.in_use() == 1);
  }
  CHECK(pool.in_use() == 0);
}

TEST_CASE("memory NIC: a configuration without room is refused in words") {
  SimplePool pool(16);
  const auto fabric = std::make_shared<MemoryFabric>();
  CHECK_THROWS_AS(MemoryNic(fabric, {.data_slots = 0}, pool), Error);
  CHECK_THROWS_AS(MemoryNic(fabric, {.max_remotes = 0}, pool), Error);
}

TEST_CASE("memory NIC: engines in threads of their own, one of them coming and going") {
  const auto fabric = std::make_shared<MemoryFabric>();
  SimplePool pool(64);
  MemoryNic steady(fabric, {.data_slots = 64}, pool);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> received{0};
  proto::NicAddress visitor_address;
  std::atomic<std::uint64_t> visits{0};
  std::mutex mutex;  // over visitor_address, which a bootstrap would carry

  std::thread visitor([&] {
    SimplePool own(64);
    while (visits.load() < 50) {
      MemoryNic nic(fabric, {.data_slots = 16, .control_slots = 16}, own);
      {
        const std::lock_guard lock(mutex);
        visitor_address = nic.address();
      }
      visits.fetch_add(1);
      RemoteHandle to{};
      while (nic.open_remote(steady.address(), to) == Status::again) std::this_thread::yield();
      for (int i = 0; i < 20; ++i) {
        Burst burst(own);
        burst.add({.id = 5, .payload_bytes = 100, .remote = to});
        burst.send(nic);
        (void)reap_all(nic);
        received.fetch_add(receive_all(nic).size());
      }
      std::this_thread::yield();
    }
    done = true;
  });
  std::uint64_t wrong = 0;
  std::uint64_t from_visitor = 0;
  const auto expected = datagram(5, 132);
  while (!done.load()) {
    proto::NicAddress address;
    {
      const std::lock_guard lock(mutex);
      address = visitor_address;
    }
    RemoteHandle to{};
    if (address != proto::NicAddress{} && steady.open_remote(address, to) == Status::ok) {
      Burst burst(pool);
      for (std::uint64_t id = 0; id < 8; ++id) burst.add({.id = id, .remote = to});
      burst.send(steady);
      burst.abandon();
      (void)reap_all(steady);
      steady.close_remote(to);
    }
    for (const auto& bytes : receive_all(steady)) {
      ++from_visitor;
      wrong += bytes == expected ? 0 : 1;
    }
  }
  visitor.join();
  from_visitor += receive_all(steady).size();
  CHECK(wrong == 0);
  CHECK(from_visitor + steady.overruns() == 50 * 20);
}

}  // namespace hawser::test
