// SPDX-License-Identifier: Apache-2.0
// Votes over endpoints that refuse, delay and die: all that live agree, and nothing is left behind.
#include "coll/shrinking.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "coll/route.hpp"
#include "test/support/loopback_endpoints.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Rank;

constexpr std::uint32_t kId = 3 + (2u << coll::kChannelIdBits);

// A rank that has begun to shrink.
class Voter final : public coll::Route {
 public:
  Voter(LoopbackNetwork& network, Rank rank, Rank ranks, std::span<const Rank> without)
      : router_(network.endpoint(rank)) {
    for (Rank other = 0; other < ranks; ++other) peers_.push_back(network.peer(rank, other));
    channel_ = std::make_unique<coll::Channel>(
        coll::Channel{.router = router_, .peers = peers_, .id = kId, .rank = rank, .route = 0});
    channel_->route = router_.add(*this);
    shrinking = std::make_unique<coll::Shrinking>(*channel_, 100 + rank, without);
  }

  void on_completion(const Completion& completion) override {
    shrinking->on_completion(*channel_, coll::Mark::unpack(completion.user_data), completion);
  }
  void advance() override { shrinking->advance(*channel_); }
  void look() override {}
  [[nodiscard]] bool busy() const noexcept override { return false; }
  [[nodiscard]] bool held_back() const noexcept override { return shrinking->held_back(); }
  [[nodiscard]] std::uint64_t in_flight() const noexcept override { return shrinking->in_flight(); }
  void retire() override { shrinking->retire(); }

  void progress() { router_.progress(); }

  std::unique_ptr<coll::Shrinking> shrinking;

 private:
  std::vector<PeerId> peers_;
  std::unique_ptr<coll::Channel> channel_;
  coll::Router router_;  // the last member: its destructor uses the others
};

struct Voters {
  Voters(Rank ranks, const LoopbackOptions& options, std::span<const Rank> without = {})
      : network(ranks, options), alive(ranks, true) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      voters.push_back(std::make_unique<Voter>(network, rank, ranks, without));
    }
  }

  void turn(proto::Random& random) {
    const std::uint64_t rank = random.below(voters.size());
    if (alive[rank]) voters[rank]->progress();
  }
  [[nodiscard]] bool run_until(proto::Random& random, auto&& done) {
    const std::uint64_t limit = 100'000 * voters.size();
    for (std::uint64_t i = 0; i < limit; ++i) {
      if (i % voters.size() == 0 && done()) return true;
      turn(random);
    }
    return done();
  }
  [[nodiscard]] bool all_living(auto&& is_so) const {
    for (Rank rank = 0; rank < voters.size(); ++rank) {
      if (alive[rank] && !is_so(*voters[rank])) return false;
    }
    return true;
  }
  [[nodiscard]] bool any_living(auto&& is_so) const {
    return !all_living([&](const Voter& one) { return !is_so(one); });
  }
  void kill(Rank rank) {
    alive[rank] = false;
    network.kill(rank);
  }

  LoopbackNetwork network;
  std::vector<std::unique_ptr<Voter>> voters;
  std::vector<bool> alive;
};

bool has_ended(const Voter& one) { return one.shrinking->status() != Status::again; }

TEST_CASE("shrinking: all that live agree, whoever dies meanwhile, over endpoints that refuse") {
  for_each_seed(200, [](proto::Random& random) {
    const auto ranks = static_cast<Rank>(1 + random.below(20));
    Voters voters(ranks, {.seed = random.next(),
                          .again = 0.2 * static_cast<double>(random.below(4)),
                          .max_delay = static_cast<std::uint32_t>(random.below(40)),
                          .max_operations = random.below(2) == 0 ? 8192u : 140u,
                          .unexpected_bytes = random.below(2) * 5000,
                          .peer_timeout = 300});
    // Rank 0 lives.
    std::vector<std::uint64_t> deaths(random.below(ranks));
    for (std::uint64_t& moment : deaths) moment = random.below(100 * ranks);
    std::sort(deaths.begin(), deaths.end());
    std::uint64_t turns = 0;
    std::size_t next = 0;
    REQUIRE(voters.run_until(random, [&] {
      turns += ranks;
      for (; next < deaths.size() && deaths[next] <= turns; ++next) {
        const auto one = static_cast<Rank>(random.below(ranks));
        if (one != 0 && voters.alive[one]) voters.kill(one);
      }
      return next == deaths.size() && voters.all_living(has_ended);
    }));
    const coll::Shrinking& first = *voters.voters[0]->shrinking;
    for (Rank rank = 0; rank < ranks; ++rank) {
      if (!voters.alive[rank]) continue;
      const coll::Shrinking& one = *voters.voters[rank]->shrinking;
      INFO("rank " << rank << " of " << ranks);
      REQUIRE(one.status() == Status::ok);
      CHECK(one.survivors().id() == first.survivors().id());
      for (Rank other = 0; other < ranks; ++other) {
        CHECK(one.survivors().is_left(other) == first.survivors().is_left(other));
        if (voters.alive[other]) CHECK(one.survivors().is_left(other));
      }
    }
    REQUIRE(voters.run_until(random, [&] {
      return voters.all_living([](const Voter& one) { return one.shrinking->untold() == 0; });
    }));
    for (auto& voter : voters.voters) voter->retire();
    REQUIRE(voters.run_until(random, [&] {
      return voters.all_living([](const Voter& one) { return one.in_flight() == 0; });
    }));
    CHECK(voters.network.complaints() == std::vector<std::string>{});
  });
}

TEST_CASE("shrinking: whom a rank counts on has decided the same, whatever sessions end") {
  std::uint32_t left_out = 0;
  for_each_seed(300, [&](proto::Random& random) {
    const auto ranks = static_cast<Rank>(2 + random.below(7));
    Voters voters(ranks, {.seed = random.next(),
                          .again = 0.2 * static_cast<double>(random.below(3)),
                          .max_delay = static_cast<std::uint32_t>(random.below(40)),
                          .unexpected_bytes = random.below(2) * 5000,
                          .peer_timeout = 200});
    std::vector<std::uint64_t> moments(1 + random.below(3));
    for (std::uint64_t& moment : moments) moment = random.below(150 * ranks);
    std::sort(moments.begin(), moments.end());
    std::uint64_t turns = 0;
    std::size_t next = 0;
    REQUIRE(voters.run_until(random, [&] {
      turns += ranks;
      for (; next < moments.size() && moments[next] <= turns; ++next) {
        const auto one = static_cast<Rank>(random.below(ranks));
        const auto other = static_cast<Rank>(random.below(ranks));
        if (random.below(4) == 0 && one != 0) {
          voters.kill(one);
        } else if (one != other && voters.alive[one]) {
          (void)voters.network.endpoint(one).disconnect(voters.network.peer(one, other));
        }
      }
      return next == moments.size() && voters.all_living(has_ended);
    }));
    // The last votes arrive, and then sessions end.
    REQUIRE(voters.run_until(random, [&] {
      return voters.all_living([](const Voter& one) { return one.shrinking->untold() == 0; });
    }));
    for (int i = 0; i < 3000; ++i) voters.turn(random);
    for (Rank a = 0; a < ranks; ++a) {
      const coll::Survivors& one = voters.voters[a]->shrinking->survivors();
      if (!voters.alive[a]) continue;
      REQUIRE(voters.voters[a]->shrinking->status() == Status::ok);
      left_out += one.is_left(a) ? 0 : 1;
      for (Rank b = 0; b < ranks; ++b) {
        const bool counts_on_it = a != b && voters.alive[b] && one.is_left(a) && one.is_left(b);
        if (!counts_on_it || voters.network.session_end(a, b) != Status::ok) continue;
        const coll::Survivors& other = voters.voters[b]->shrinking->survivors();
        INFO("ranks " << a << " and " << b << " of " << ranks);
        REQUIRE(one.id() == other.id());
        for (Rank c = 0; c < ranks; ++c) REQUIRE(one.is_left(c) == other.is_left(c));
      }
    }
    CHECK(voters.network.complaints() == std::vector<std::string>{});
  });
  CHECK(left_out > 0);
}

TEST_CASE("shrinking: a broken session costs one rank, and the others end theirs with it") {
  proto::Random random(7);
  Voters voters(5, {.max_delay = 5});
  REQUIRE(voters.network.endpoint(0).disconnect(voters.network.peer(0, 3)) == Status::ok);
  REQUIRE(voters.run_until(random, [&] { return voters.all_living(has_ended); }));
  for (const auto& voter : voters.voters) {
    for (Rank rank = 0; rank < 5; ++rank) {
      CHECK(voter->shrinking->survivors().is_left(rank) == (rank != 3));
    }
  }
  for (int i = 0; i < 2000; ++i) voters.turn(random);
  for (const Rank rank : {1, 2, 4}) {
    CHECK(voters.network.session_end(rank, 3) == Status::endpoint_closed);
    CHECK(voters.network.session_end(rank, 0) == Status::ok);
  }
}

TEST_CASE("shrinking: ranks that slept while the others went on don't go on by themselves") {
  proto::Random random(9);
  Voters voters(7, {.max_delay = 5});
  const std::vector<Rank> sleepers{2, 5};
  for (const Rank one : sleepers) {
    voters.alive[one] = false;  // it does nothing
    for (const Rank other : {0, 1, 3, 4, 6}) voters.network.give_up(other, one);
  }
  REQUIRE(voters.run_until(random, [&] { return voters.all_living(has_ended); }));
  for (const Rank one : sleepers) voters.alive[one] = true;
  REQUIRE(voters.run_until(random, [&] { return voters.all_living(has_ended); }));
  for (Rank rank = 0; rank < 7; ++rank) {
    const bool slept = std::ranges::count(sleepers, rank) != 0;
    REQUIRE(voters.voters[rank]->shrinking->status() == Status::ok);
    const coll::Survivors& survivors = voters.voters[rank]->shrinking->survivors();
    CHECK(survivors.are_given_up() == slept);
    for (Rank other = 0; other < 7; ++other) {
      CHECK(survivors.is_left(other) == ((std::ranges::count(sleepers, other) != 0) == slept));
    }
  }
}

TEST_CASE("shrinking: more ranks than receives at once, and one that never votes is left out") {
  proto::Random random(5);
  constexpr Rank kRanks = 100;
  constexpr Rank kHung = 40;
  const Rank without[] = {kHung};
  Voters voters(kRanks, {.max_delay = 3, .max_operations = 140, .unexpected_bytes = 0}, without);
  voters.alive[kHung] = false;  // it does nothing
  REQUIRE(voters.run_until(random, [&] {
    // None is over before all have decided, so it has their last votes.
    if (voters.any_living(has_ended)) {
      REQUIRE(
          voters.all_living([](const Voter& one) { return one.shrinking->survivors().decided(); }));
    }
    return voters.all_living(has_ended);
  }));
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank == kHung) continue;
    REQUIRE(voters.voters[rank]->shrinking->status() == Status::ok);
    CHECK(voters.voters[rank]->shrinking->survivors().id() == 100 + kRanks - 1);
    for (Rank other = 0; other < kRanks; ++other) {
      CHECK(voters.voters[rank]->shrinking->survivors().is_left(other) == (other != kHung));
    }
  }
  // It finds out when it goes on.
  voters.alive[kHung] = true;
  REQUIRE(voters.run_until(random, [&] { return voters.all_living(has_ended); }));
  CHECK(voters.voters[kHung]->shrinking->status() == Status::ok);
  CHECK_FALSE(voters.voters[kHung]->shrinking->survivors().is_left(kHung));
  CHECK(voters.voters[kHung]->shrinking->survivors().is_left(0));
}

TEST_CASE("shrinking: endpoints with little room, and none for payload") {
  for (const std::uint32_t most : {4u, 16u, 64u}) {
    proto::Random random(most);
    Voters voters(70, {.max_delay = 3, .max_operations = most, .unexpected_bytes = 0});
    INFO(most << " operations");
    REQUIRE(voters.run_until(random, [&] { return voters.all_living(has_ended); }));
    for (const auto& voter : voters.voters) CHECK(voter->shrinking->status() == Status::ok);
  }
}

TEST_CASE("shrinking: a closed endpoint ends it with its status") {
  proto::Random random(5);
  Voters voters(3, {});
  voters.network.endpoint(1).close();
  REQUIRE(voters.run_until(random, [&] { return has_ended(*voters.voters[1]); }));
  CHECK(voters.voters[1]->shrinking->status() == Status::endpoint_closed);
  voters.kill(1);
  REQUIRE(voters.run_until(random, [&] { return voters.all_living(has_ended); }));
  CHECK(voters.voters[0]->shrinking->status() == Status::ok);
  CHECK_FALSE(voters.voters[2]->shrinking->survivors().is_left(1));
}

}  // namespace
}  // namespace hawser::test
