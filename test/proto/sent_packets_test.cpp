// SPDX-License-Identifier: Apache-2.0
// The records of packets in flight, compared with a map.
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "proto/base/random.hpp"
#include "proto/path/sent_packets.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::kPathNumbers;
using proto::SentBlockPool;
using proto::SentPacket;
using proto::SentPackets;
using proto::Time;

TEST_CASE("sent_packets__hold_a_window_and_no_more") {
  SentBlockPool pool(128);
  SentPackets sent;
  sent.start(1000);
  CHECK(sent.empty());
  CHECK(sent.reserve(pool, 5000) == kPathNumbers);
  for (std::uint64_t i = 0; i < kPathNumbers; ++i)
    sent.push(pool).fragment = static_cast<std::uint32_t>(i);
  CHECK(sent.room() == 0);
  CHECK(sent.reserve(pool, 1) == 0);
  CHECK(sent.contains(1000));
  CHECK_FALSE(sent.contains(999));
  CHECK_FALSE(sent.contains(sent.next()));
  CHECK(sent.at(pool, 1000 + 77).fragment == 77);
  sent.clear(pool);
  CHECK(pool.available() == 128);
}

TEST_CASE("sent_packets__say_how_many_have_a_place_when_the_pool_is_short") {
  SentBlockPool pool(1);
  SentPackets sent;
  sent.start(SentBlockPool::kRecords - 2);  // two left in the first block
  CHECK(sent.reserve(pool, 10) == 2);
  CHECK(pool.available() == 0);
}

// The window itself names the few blocks of small messages. Bulk takes a directory for as long
// as it lasts. Without a directory the window is short.
TEST_CASE("sent_packets__take_a_directory_for_bulk_alone") {
  SentBlockPool pool(7);
  std::vector<SentPackets> windows(3);
  for (SentPackets& sent : windows) sent.start(0);
  CHECK(windows[0].reserve(pool, 4 * SentBlockPool::kRecords) == 4 * SentBlockPool::kRecords);
  CHECK(pool.directories_in_use() == 0);
  CHECK(windows[0].reserve(pool, 40) == 40);
  CHECK(windows[1].reserve(pool, 40) == 16);
  CHECK(pool.directories_in_use() == 2);
  windows[1].clear(pool);
  CHECK(pool.available() == 2);
  CHECK(windows[1].reserve(pool, 1000) == 16);
  CHECK(pool.directories_in_use() == 2);
  windows[1].clear(pool);
  for (int i = 0; i < 40; ++i) windows[0].push(pool).state = SentPacket::State::acknowledged;
  windows[0].trim(pool, Time{});
  CHECK(windows[0].empty());
  CHECK(pool.directories_in_use() == 0);
  CHECK(pool.available() == 7);
}

// The record of a lost packet stays as long as its acknowledgement may still come.
TEST_CASE("sent_packets__behave_as_a_map_and_give_every_block_back") {
  for_each_seed(5, [](proto::Random& random) {
    SentBlockPool pool(320);
    SentPackets sent;
    const std::uint64_t first = random.below(std::uint64_t{1} << 41);
    sent.start(first);
    std::map<std::uint64_t, SentPacket> model;  // by distance from `first`
    Time now{1};
    for (int step = 0; step < 150; ++step) {
      now = now + Duration{10};
      const std::uint64_t want = random.below(40);
      const std::uint64_t got = sent.reserve(pool, want);
      REQUIRE(got == std::min(want, sent.room()));
      for (std::uint64_t i = 0; i < got; ++i) {
        const std::uint64_t number = sent.next();
        SentPacket& record = sent.push(pool);
        REQUIRE(record.state == SentPacket::State::in_flight);
        record.sent = now;
        record.fragment = static_cast<std::uint32_t>(random.next());
        model[number - first] = record;
      }
      bool same = true;
      for (std::uint64_t n = sent.base(); n != sent.next(); ++n) {
        SentPacket& record = sent.at(pool, n);
        same &= record.fragment == model.at(n - first).fragment;
        if (record.state != SentPacket::State::in_flight || !random.chance(0.3)) continue;
        record.state =
            random.chance(0.8) ? SentPacket::State::acknowledged : SentPacket::State::lost;
        record.departed = now;
        model[n - first] = record;
      }
      REQUIRE(same);
      const Time forget{now.ns - 30};
      sent.trim(pool, forget);
      while (!model.empty()) {
        const SentPacket& oldest = model.begin()->second;
        if (oldest.state == SentPacket::State::in_flight ||
            (oldest.state == SentPacket::State::lost && oldest.departed > forget)) {
          break;
        }
        model.erase(model.begin());
      }
      REQUIRE(sent.next() - sent.base() == model.size());
    }
    sent.clear(pool);
    REQUIRE(pool.available() == 320);
  });
}

}  // namespace
}  // namespace hawser::test
