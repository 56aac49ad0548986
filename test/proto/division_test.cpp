// SPDX-License-Identifier: Apache-2.0
// A division gives each path what choices one after the other would give it.
#include "proto/path/division.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "proto/base/random.hpp"
#include "proto/path/path_chooser.hpp"
#include "test/support/seeded.hpp"

namespace hawser::proto {
namespace {

constexpr std::uint64_t kPacket = 4096;

struct Lane {
  std::uint64_t window = 0;
  std::uint32_t burst = 1;
};

// One choice after the other, as a sender of single bursts makes them.
class OneByOne {
 public:
  OneByOne(std::vector<Path> paths, std::vector<Lane> lanes, std::uint64_t want)
      : paths_(std::move(paths)), lanes_(std::move(lanes)), want_(want) {}

  // The path of the next packet of so many bytes; none has room: the number of paths.
  std::size_t next(std::uint64_t bytes) {
    if (left_ == 0) choose();
    if (left_ == 0) return paths_.size();
    --left_;
    paths_[chosen_].bytes_in_flight += bytes;
    paths_[chosen_].traffic.balance_bytes += bytes;
    return chosen_;
  }

 private:
  void choose() {
    LeastFilled policy;
    for (std::size_t k = 0; k < paths_.size(); ++k) {
      const std::size_t i = (turn_ + k) % paths_.size();
      Path& path = paths_[i];
      const std::uint64_t window = lanes_[i].window;
      const std::uint64_t least = std::min(want_, std::max(kPacket, window / 2));
      const bool has_room = path.bytes_in_flight == 0 || path.bytes_in_flight + least <= window;
      (void)policy.offer(
          {&path, std::max(window, kPacket), path.bytes_in_flight + want_, has_room});
    }
    if (policy.best() == nullptr) return;
    chosen_ = static_cast<std::size_t>(policy.best() - paths_.data());
    const std::uint64_t window = lanes_[chosen_].window;
    const std::uint64_t room = window - std::min(window, paths_[chosen_].bytes_in_flight);
    left_ = std::clamp<std::uint64_t>(room / kPacket, 1, lanes_[chosen_].burst);
    turn_ = (chosen_ + 1) % paths_.size();
  }

  std::vector<Path> paths_;
  std::vector<Lane> lanes_;
  std::uint64_t want_;
  std::size_t chosen_ = 0;
  std::size_t turn_ = 0;
  std::uint64_t left_ = 0;
};

TEST_CASE("Division__gives_the_shares_of_one_choice_after_the_other", "[P9]") {
  test::for_each_seed(300, [](Random& random) {
    const std::size_t count = 1 + random.below(kMaxPaths);
    const bool bursts = random.chance(0.3);
    const bool ties = random.chance(0.5);
    std::vector<Path> paths(count);
    std::vector<Lane> lanes(count);
    std::uint32_t longest = 1;
    for (std::size_t i = 0; i < count; ++i) {
      lanes[i].window = ties ? (8 << random.below(3)) * kPacket : random.below(64 * kPacket);
      if (bursts) lanes[i].burst = 1 + static_cast<std::uint32_t>(random.below(8));
      longest = std::max(longest, lanes[i].burst);
      const std::uint64_t unit = ties ? kPacket : 1;
      const std::uint64_t most = lanes[i].window / unit + 1;
      paths[i].bytes_in_flight = random.chance(0.3) ? 0 : random.below(most) * unit;
      paths[i].traffic.balance_bytes = random.below(ties ? 4 : 1'000'000) * unit;
    }
    OneByOne model(paths, lanes, kPacket * longest);
    Division division;
    division.start(kPacket, kPacket * longest);
    for (std::size_t i = 0; i < count; ++i) {
      division.add(paths[i], lanes[i].window, lanes[i].burst, false);
    }
    for (int packet = 0; packet < 200; ++packet) {
      const std::uint64_t bytes = ties ? kPacket : kPacket / 2 + random.below(kPacket / 2 + 1);
      const std::size_t expected = model.next(bytes);
      Share* const share = division.next();
      if (expected == count) {
        REQUIRE(share == nullptr);
        break;
      }
      REQUIRE(share != nullptr);
      REQUIRE(share->index == expected);
      REQUIRE(share->path == &paths[expected]);
      division.give(bytes);
    }
  });
}

TEST_CASE("Division__equal_paths_take_turns", "[P9]") {
  std::array<Path, 3> paths{};
  Division division;
  division.start(kPacket, kPacket);
  for (Path& path : paths) division.add(path, 8 * kPacket, 1, false);
  for (std::size_t i = 0; i < 3 * 8; ++i) {
    Share* const share = division.next();
    REQUIRE(share != nullptr);
    CHECK(share->index == i % 3);
    division.give(kPacket);
  }
  CHECK(division.next() == nullptr);
  for (const Share& share : division.shares()) CHECK(share.packets == 8);
}

TEST_CASE("Division__a_closed_share_gets_nothing_more") {
  std::array<Path, 3> paths{};
  Division division;
  division.start(kPacket, kPacket);
  for (Path& path : paths) division.add(path, 8 * kPacket, 1, false);
  REQUIRE(division.next() != nullptr);
  division.give(kPacket);
  Division::close(division.shares()[1]);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(division.next() != nullptr);
    CHECK(division.next()->index != 1);
    division.give(kPacket);
  }
  Division::close(division.shares()[0]);
  Division::close(division.shares()[2]);
  CHECK(division.next() == nullptr);
}

TEST_CASE("Division__small_packets_stay_on_one_path_for_a_while", "[P27]") {
  std::array<Path, 2> paths{};
  Division division;
  division.start(kPacket, kPacket);
  for (Path& path : paths) division.add(path, 64 * kPacket, 1, false);
  std::array<std::uint64_t, 2> runs{};
  for (std::uint64_t& run : runs) {
    REQUIRE(division.next() != nullptr);
    const std::size_t first = division.next()->index;
    for (; division.next()->index == first; ++run) division.give(kPacket / 4);
  }
  // The packet with which four full ones are exceeded is the last.
  CHECK(runs == std::array<std::uint64_t, 2>{17, 17});
}

}  // namespace
}  // namespace hawser::proto
