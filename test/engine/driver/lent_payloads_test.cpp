// SPDX-License-Identifier: Apache-2.0
// Payloads that a memory NIC lends to their receiver: who owns them, until when, and what becomes
// of them if the receiver is slow or either end goes.
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "engine/driver/memory/memory_nic.hpp"
#include "proto/base/assert.hpp"
#include "test/engine/driver/fault_pair.hpp"
#include "test/engine/driver/nic_user.hpp"

namespace hawser::test {
namespace {

using engine::DatagramRing;
using engine::MemoryFabric;
using engine::MemoryNic;
using engine::MemoryNicConfig;

constexpr std::size_t kHeader = 32;
constexpr std::size_t kPayload = 4096;

// Two NICs. The second one takes views of payloads.
struct Lending {
  explicit Lending(MemoryNicConfig sender = {}, const MemoryNicConfig& receiver = {})
      : a(std::make_unique<MemoryNic>(fabric, sender, pool)),
        b(std::make_unique<MemoryNic>(fabric, receiver, pool)),
        to_b(open(*a, *b)) {
    b->take_views();
  }
  void send(Burst& burst, std::uint64_t first, std::uint64_t count,
            std::size_t payload = kPayload) {
    for (std::uint64_t id = first; id < first + count; ++id) {
      burst.add({.id = id, .payload_bytes = payload, .remote = to_b});
    }
    REQUIRE(burst.send(*a) == count);
  }
  // Reaps more often than a sender's patience lasts.
  std::vector<std::uint64_t> reap_long() {
    std::vector<std::uint64_t> all;
    for (std::uint32_t i = 0; i < 2 * MemoryNic::kPatience; ++i) {
      for (const std::uint64_t cookie : reap_all(*a)) all.push_back(cookie);
    }
    return all;
  }
  std::size_t pop() { return b->rx_burst(Queue::data, packets); }
  void give_back() { REQUIRE(b->rx_burst(Queue::data, {}) == 0); }

  SimplePool pool{4096};
  std::shared_ptr<MemoryFabric> fabric = std::make_shared<MemoryFabric>();
  std::unique_ptr<MemoryNic> a;
  std::unique_ptr<MemoryNic> b;
  RemoteHandle to_b;
  std::array<RxPacket, 64> packets;
};

bool is_view_of(const RxPacket& packet, const TxPacket& sent) {
  return packet.payload == sent.payload && packet.payload_bytes == sent.payload_bytes;
}

// A header that stays in place while many of them are pushed.
struct Pushed {
  explicit Pushed(std::uint64_t id) : bytes(datagram(id, 64)) {}
  [[nodiscard]] std::span<const std::byte> header() const { return std::span(bytes).first(16); }
  [[nodiscard]] std::span<const std::byte> payload() const { return std::span(bytes).subspan(16); }
  std::vector<std::byte> bytes;
};

}  // namespace

TEST_CASE("datagram ring: who takes a payload back leaves alone what its cell holds now") {
  DatagramRing ring(4, 64);
  std::array<RxPacket, 4> packets;
  const Pushed first(1);
  const Pushed later(2);
  std::uint64_t position = 0;
  std::uint64_t later_position = 0;
  REQUIRE(ring.lend(first.header(), first.payload(), position));
  REQUIRE(ring.pop(packets, Queue::data) == 1);
  CHECK_FALSE(ring.take_back(position));
  CHECK(ring.pop({}, Queue::data) == 0);
  for (std::uint64_t i = 0; i < 4; ++i) {  // the last takes the first one's cell
    REQUIRE(ring.lend(later.header(), later.payload(), later_position));
  }
  REQUIRE(later_position == position + 4);
  CHECK(ring.take_back(position));
  REQUIRE(ring.pop(packets, Queue::data) == 4);
  CHECK(packets[3].payload == later.payload().data());
}

TEST_CASE("datagram ring: once closed it holds nothing that was lent, and takes nothing") {
  DatagramRing ring(4, 64);
  const Pushed one(1);
  std::uint64_t position = 0;
  REQUIRE(ring.lend(one.header(), one.payload(), position));
  CHECK_FALSE(ring.is_released(position));
  ring.close();
  CHECK(ring.is_released(position));
  CHECK(ring.take_back(position));
  CHECK_FALSE(ring.lend(one.header(), one.payload(), position));
  CHECK_FALSE(ring.push(one.header(), one.payload()));
  CHECK(ring.overruns() == 0);
}

TEST_CASE("lent payloads: a send is over when the receiver has given the view back, not before") {
  Lending two;
  Burst burst(two.pool);
  two.send(burst, 0, 3);
  CHECK(reap_all(*two.a).empty());
  REQUIRE(two.pop() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(is_view_of(two.packets[i], burst.packets()[i]));
    CHECK(equals(two.packets[i], datagram(i, kHeader)));
    CHECK(two.packets[i].datagram_bytes() == kHeader + kPayload);
  }
  CHECK(two.reap_long().empty());  // the receiver may still read them
  CHECK(two.pool.in_use() == 3);
  two.give_back();
  CHECK(reap_all(*two.a) == std::vector<std::uint64_t>{0, 1, 2});
  CHECK(two.pool.in_use() == 0);
}

TEST_CASE("lent payloads: only to who asks, of some length, and where there is no checksum") {
  SECTION("who doesn't ask") {
    SimplePool pool(16);
    const auto fabric = std::make_shared<MemoryFabric>();
    MemoryNic nic(fabric, {}, pool);
    Burst burst(pool);
    burst.add({.id = 7, .payload_bytes = kPayload, .remote = open(nic, nic)});
    REQUIRE(burst.send(nic) == 1);
    CHECK(reap_all(nic).size() == 1);
    CHECK(receive_all(nic).front() == datagram(7, kHeader + kPayload));
  }
  SECTION("a short one") {
    Lending two;
    Burst burst(two.pool);
    two.send(burst, 7, 1, MemoryNic::kLentBytes - 1);
    CHECK(reap_all(*two.a).size() == 1);
    CHECK(receive_all(*two.b).front() == datagram(7, kHeader + MemoryNic::kLentBytes - 1));
  }
  SECTION("one whose end nobody hears of, such as a probe's padding") {
    Lending two;
    Burst burst(two.pool);
    burst.add({.id = 7, .payload_bytes = kPayload, .remote = two.to_b, .with_cookie = false});
    REQUIRE(burst.send(*two.a) == 1);
    CHECK(reap_all(*two.a).empty());
    CHECK(two.pool.in_use() == 0);
    CHECK(receive_all(*two.b).front() == datagram(7, kHeader + kPayload));
  }
  SECTION("a checksum is of the datagram in one piece") {
    Lending two({.needs_checksum = true}, {.needs_checksum = true});
    Burst burst(two.pool);
    two.send(burst, 7, 1);
    CHECK(reap_all(*two.a).size() == 1);
    CHECK(receive_all(*two.b).front() == datagram(7, kHeader + kPayload));
  }
}

TEST_CASE("lent payloads: a receiver that doesn't look gets copies in the end") {
  Lending two;
  Burst burst(two.pool);
  two.send(burst, 0, 100);
  for (std::uint32_t i = 0; i < MemoryNic::kPatience; ++i) REQUIRE(reap_all(*two.a).empty());
  CHECK(two.reap_long().size() == 100);
  CHECK(two.pool.in_use() == 0);
  burst.scribble();
  const auto arrived = receive_all(*two.b);
  REQUIRE(arrived.size() == 100);
  for (std::uint64_t id = 0; id < 100; ++id) CHECK(arrived[id] == datagram(id, kHeader + kPayload));
}

TEST_CASE("lent payloads: they don't keep a sender's ring full") {
  Lending two({.send_slots = 8});
  Burst burst(two.pool);
  two.send(burst, 0, 8);
  CHECK(reap_all(*two.a).size() == 8);
  two.send(burst, 8, 8);
  CHECK(reap_all(*two.a).size() == 8);
  burst.scribble();
  const auto arrived = receive_all(*two.b);
  REQUIRE(arrived.size() == 16);
  for (std::uint64_t id = 0; id < 16; ++id) CHECK(arrived[id] == datagram(id, kHeader + kPayload));
}

TEST_CASE("lent payloads: a receiver that goes, or moves, gives all of them back") {
  Lending two;
  Burst burst(two.pool);
  two.send(burst, 0, 3);
  REQUIRE(two.b->rx_burst(Queue::data, std::span(two.packets).first(1)) == 1);  // one of three
  CHECK(reap_all(*two.a).empty());
  SECTION("it goes") { two.b.reset(); }
  SECTION("it moves") {
    two.b->move();
    two.to_b = open(*two.a, *two.b);
    CHECK(reap_all(*two.a).size() == 3);
    two.send(burst, 3, 1);
    REQUIRE(two.pop() == 1);
    CHECK(is_view_of(two.packets[0], burst.packets()[3]));
    two.give_back();
    CHECK(reap_all(*two.a).size() == 1);
    return;
  }
  SECTION("it goes after its remote was closed") {
    two.a->close_remote(two.to_b);
    two.b.reset();
  }
  CHECK(reap_all(*two.a).size() == 3);
  CHECK(two.pool.in_use() == 0);
}

TEST_CASE("lent payloads: of a remote that is closed, what is under way arrives") {
  Lending two;
  Burst burst(two.pool);
  two.send(burst, 0, 3);
  two.a->close_remote(two.to_b);
  two.to_b = open(*two.a, *two.b);
  two.send(burst, 3, 1);
  two.a->close_remote(two.to_b);
  REQUIRE(two.pop() == 4);
  CHECK(is_view_of(two.packets[3], burst.packets()[3]));
  two.give_back();
  CHECK(reap_all(*two.a).size() == 4);
}

TEST_CASE("lent payloads: of a sender that goes, what is under way arrives") {
  Lending two;
  {
    Burst burst(two.pool);
    two.send(burst, 0, 5);
    two.a.reset();
    CHECK(two.pool.in_use() == 0);
    burst.scribble();
  }
  const auto arrived = receive_all(*two.b);
  REQUIRE(arrived.size() == 5);
  for (std::uint64_t id = 0; id < 5; ++id) CHECK(arrived[id] == datagram(id, kHeader + kPayload));
}

TEST_CASE("lent payloads: a fault NIC passes them on, or holds copies") {
  FaultPair pair({.memory = {}});
  pair.b->take_views();
  Burst burst(pair.pool);
  std::array<RxPacket, 4> packets;
  const bool held = GENERATE(false, true);
  if (held) pair.apply(*pair.b, "rx.delay=50us");
  burst.add({.id = 4, .payload_bytes = kPayload, .remote = pair.to_b});
  REQUIRE(burst.send(*pair.a) == 1);
  if (held) {
    CHECK(pair.b->rx_burst(Queue::data, packets) == 0);
    burst.scribble();
    pair.pass(proto::microseconds(60));
  }
  REQUIRE(pair.b->rx_burst(Queue::data, packets) == 1);
  CHECK(packets[0].datagram_bytes() == kHeader + kPayload);
  if (held) {
    CHECK(equals(packets[0], datagram(4, kHeader + kPayload)));
  } else {
    CHECK(is_view_of(packets[0], burst.packets()[0]));
  }
  CHECK(pair.b->rx_burst(Queue::data, {}) == 0);
  CHECK(reap_all(*pair.a).size() == 1);
}

namespace {

// Each payload begins with its id, so that a receiver that only sees a view can check it.
bool is_whole(const RxPacket& packet) {
  std::vector<std::byte> bytes(packet.data, packet.data + packet.bytes);
  bytes.insert(bytes.end(), packet.payload, packet.payload + packet.payload_bytes);
  std::uint64_t id = 0;
  if (bytes.size() != 16 + kPayload) return false;
  std::memcpy(&id, bytes.data(), sizeof id);
  return std::memcmp(bytes.data() + 16, datagram(id, kPayload).data(), kPayload) == 0;
}

// Sends payloads from a few places, and rewrites each place as soon as the sender owns it again.
class Reuser {
 public:
  Reuser(MemoryNic& nic, SimplePool& pool, RemoteHandle to) : nic_(nic), pool_(pool), to_(to) {
    for (std::uint64_t place = 0; place < kPlaces; ++place) free_.push_back(place);
  }
  // `wait` lets the receiver run before each reap, which takes back the payloads it has not seen.
  template <class Wait>
  void send(std::uint64_t id, const Wait& wait) {
    while (free_.empty()) {
      wait();
      for (const std::uint64_t place : reap_all(nic_)) free_.push_back(place);
    }
    TxPacket packet;
    HAWSER_ASSERT(pool_.take({&packet.buffer, 1}) == 1);
    std::memset(packet.buffer->bytes, 0, 16);
    std::memcpy(packet.buffer->bytes, &id, sizeof id);
    packet.header_bytes = 16;
    std::vector<std::byte>& payload = places_[free_.back()] = datagram(id, kPayload);
    packet.payload = payload.data();
    packet.payload_bytes = kPayload;
    packet.remote = to_;
    packet.cookie = free_.back();
    free_.pop_back();
    HAWSER_ASSERT(nic_.tx_burst({&packet, 1}) == 1);
  }

 private:
  static constexpr std::uint64_t kPlaces = 12;
  MemoryNic& nic_;
  SimplePool& pool_;
  RemoteHandle to_;
  std::array<std::vector<std::byte>, kPlaces> places_;
  std::vector<std::uint64_t> free_;
};

}  // namespace

// Every other sender lets the receiver have a whole turn, so that it gets views. The others don't
// wait, and take back what they can.
TEST_CASE("lent payloads: between threads, while senders come and go") {
  constexpr std::uint64_t kVisits = 20;
  constexpr std::uint64_t kEach = 100;
  const auto fabric = std::make_shared<MemoryFabric>();
  SimplePool pool(64);
  MemoryNic steady(fabric, {.data_slots = 16}, pool);
  steady.take_views();
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> turns{0};
  // Waits from the beginning of one turn to the beginning of the next.
  const auto wait_for_turn = [&] {
    for (const std::uint64_t before = turns.load(); turns.load() < before + 2;) {
      std::this_thread::yield();
    }
  };
  std::thread visitor([&] {
    SimplePool own(64);
    for (std::uint64_t visit = 0; visit < kVisits; ++visit) {
      auto nic = std::make_unique<MemoryNic>(fabric, MemoryNicConfig{}, own);
      RemoteHandle to{};
      while (nic->open_remote(steady.address(), to) == Status::again) std::this_thread::yield();
      Reuser reuser(*nic, own, to);
      for (std::uint64_t i = 0; i < kEach; ++i) {
        if (visit % 2 == 0) {
          reuser.send(visit * kEach + i, wait_for_turn);
        } else {
          reuser.send(visit * kEach + i, std::this_thread::yield);
        }
      }
      nic.reset();  // before the memory it sent from
    }
    done = true;
  });
  std::mt19937 random(7);
  std::uint64_t wrong = 0;
  std::uint64_t received = 0;
  std::uint64_t views = 0;
  std::array<RxPacket, 16> packets;  // all that the ring holds
  for (bool last = false;;) {
    turns.fetch_add(1);
    for (std::uint64_t i = random() % 4 == 0 ? random() % 200 : 0; i > 0; --i) {
      std::this_thread::yield();
    }
    const std::size_t count = steady.rx_burst(Queue::data, packets);
    if (random() % 4 == 0) std::this_thread::yield();
    for (std::size_t i = 0; i < count; ++i) {
      wrong += is_whole(packets[i]) ? 0 : 1;
      views += packets[i].payload != nullptr ? 1 : 0;
    }
    received += count;
    if (count > 0) continue;
    if (last) break;
    last = done.load();
  }
  visitor.join();
  CHECK(wrong == 0);
  CHECK(received + steady.overruns() == kVisits * kEach);
  CHECK(views > kVisits * kEach / 4);
}

TEST_CASE("lent payloads: receivers come and go in threads, and nothing stays lent") {
  const auto fabric = std::make_shared<MemoryFabric>();
  SimplePool pool(64);
  MemoryNic nic(fabric, {}, pool);
  std::mutex mutex;  // over the address
  proto::NicAddress address;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> wrong{0};
  std::thread visitor([&] {
    SimplePool own(16);
    std::array<RxPacket, 8> packets;
    for (int visit = 0; visit < 50; ++visit) {
      MemoryNic receiver(fabric, {.data_slots = 16}, own);
      receiver.take_views();
      {
        const std::lock_guard lock(mutex);
        address = receiver.address();
      }
      for (int i = 0; i < 20; ++i) {
        const std::size_t count = receiver.rx_burst(Queue::data, packets);
        for (std::size_t k = 0; k < count; ++k) wrong += is_whole(packets[k]) ? 0 : 1;
        std::this_thread::yield();
      }
    }
    done = true;
  });
  for (std::uint64_t id = 0; !done.load();) {
    proto::NicAddress where;
    {
      const std::lock_guard lock(mutex);
      where = address;
    }
    RemoteHandle to{};
    if (where == proto::NicAddress{} || nic.open_remote(where, to) != Status::ok) continue;
    {
      Reuser reuser(nic, pool, to);
      for (int i = 0; i < 12; ++i) reuser.send(id++, std::this_thread::yield);
      while (pool.in_use() > 0) (void)reap_all(nic);  // before the memory it sent from
    }
    nic.close_remote(to);
  }
  visitor.join();
  CHECK(wrong.load() == 0);
  CHECK(pool.in_use() == 0);
}

}  // namespace hawser::test
