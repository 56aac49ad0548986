// SPDX-License-Identifier: Apache-2.0
// Ranks that agree on who is left, over links that end at any time, at each end at another moment.
// A rank must have decided the same as those that it counts on and has a link with.
#include "coll/survivors.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Rank;
using coll::Survivors;

// One direction of a link: what the receiver is still to be told.
struct Link {
  struct Event {
    bool is_end = false;
    std::vector<std::byte> vote{};
  };
  std::deque<Event> events;
  bool sends = true;     // the sender has not been told that it has ended
  bool delivers = true;  // later votes arrive
};

class Members {
 public:
  Members(Rank ranks, proto::Random& random) : random_(random), links_(ranks * ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      members_.push_back(std::make_unique<Survivors>(
          ranks, rank, static_cast<std::uint32_t>(random.below(1000)), std::span<const Rank>()));
    }
  }

  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(members_.size()); }
  [[nodiscard]] const Survivors& member(Rank rank) const { return *members_[rank]; }
  [[nodiscard]] bool is_linked(Rank a, Rank b) { return !cut_.contains({a, b}); }

  void cut(Rank a, Rank b) {
    if (a == b || !cut_.insert({a, b}).second) return;
    cut_.insert({b, a});
    for (auto [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      Link& link = links_[from * ranks() + to];
      // Any event that is under way may be lost, and the rest arrives.
      std::erase_if(link.events, [this](const Link::Event&) { return random_.below(2) == 0; });
      link.delivers = false;
      link.events.push_back({.is_end = true});
    }
  }
  void kill(Rank rank) {
    dead_.insert(rank);
    for (Rank other = 0; other < ranks(); ++other) cut(rank, other);
  }
  [[nodiscard]] bool is_dead(Rank rank) const { return dead_.contains(rank); }

  // One step of a random rank. A step may come to nothing.
  void step() {
    const auto to = static_cast<Rank>(random_.below(ranks()));
    const auto from = static_cast<Rank>(random_.below(ranks()));
    if (dead_.contains(to)) return;
    Survivors& own = *members_[to];
    if (!voted_.contains(to)) return vote(to);
    Link& link = links_[from * ranks() + to];
    if (from != to && !link.events.empty()) {
      // A vote waits until it is awaited, as its receive is posted then.
      const Link::Event& next = link.events.front();
      if (next.is_end) {
        own.on_loss(from);
        links_[to * ranks() + from].sends = false;
        link.events.pop_front();
      } else if (own.awaits(from)) {
        REQUIRE(own.on_vote(from, next.vote));
        link.events.pop_front();
      } else if (own.decided()) {
        link.events.pop_front();
      }
    }
    if (own.end_round()) vote(to);
    if (own.decided() && ended_.insert(to).second) end_sessions(to);
  }

 private:
  void vote(Rank from) {
    voted_.insert(from);
    const std::vector<std::byte> vote = members_[from]->vote();
    for (Rank to = 0; to < ranks(); ++to) {
      Link& link = links_[from * ranks() + to];
      if (to == from || !link.sends || !link.delivers) continue;
      link.events.push_back({.vote = vote});
      // The sender may die, or a link end, between two sends.
      if (random_.below(400) == 0) return kill(from);
      if (random_.below(400) == 0) cut(from, static_cast<Rank>(random_.below(ranks())));
    }
  }

  // Behind the last votes.
  void end_sessions(Rank from) {
    for (Rank to = 0; to < ranks(); ++to) {
      const bool is_up = to != from && members_[from]->was_given_up(to);
      if (is_up && cut_.insert({from, to}).second) {
        cut_.insert({to, from});
        links_[from * ranks() + to].events.push_back({.is_end = true});
        links_[to * ranks() + from].events.push_back({.is_end = true});
        links_[to * ranks() + from].delivers = false;
      }
    }
  }

  proto::Random& random_;
  std::vector<std::unique_ptr<Survivors>> members_;
  std::vector<Link> links_;  // [from * ranks + to]
  std::set<std::pair<Rank, Rank>> cut_;
  std::set<Rank> dead_;
  std::set<Rank> voted_;
  std::set<Rank> ended_;  // have ended their sessions with those that are given up
};

TEST_CASE("survivors: whom a rank counts on has decided the same, whatever ends meanwhile") {
  std::uint64_t deciders = 0;
  std::uint64_t smaller = 0;
  for_each_seed(20000, [&](proto::Random& random) {
    const auto ranks = static_cast<Rank>(1 + random.below(9));
    Members members(ranks, random);
    // Whole ranks die, or single links end.
    const std::uint64_t deaths = random.below(ranks);
    const std::uint64_t cuts = random.below(3) == 0 ? random.below(4) : 0;
    std::multiset<std::uint64_t> moments;
    for (std::uint64_t i = 0; i < deaths + cuts; ++i) moments.insert(random.below(60 * ranks));
    std::uint64_t left = deaths;
    const auto done = [&] {
      for (Rank rank = 0; rank < ranks; ++rank) {
        if (!members.is_dead(rank) && !members.member(rank).is_over()) return false;
      }
      return true;
    };
    std::uint64_t step = 0;
    for (; step < 40'000 && !(moments.empty() && done()); ++step) {
      while (!moments.empty() && *moments.begin() <= step) {
        moments.erase(moments.begin());
        const auto one = static_cast<Rank>(random.below(ranks));
        if (left > 0) {
          --left;
          members.kill(one);
        } else {
          members.cut(one, static_cast<Rank>(random.below(ranks)));
        }
      }
      members.step();
    }
    REQUIRE(done());
    for (Rank a = 0; a < ranks; ++a) {
      if (members.is_dead(a)) continue;
      const Survivors& one = members.member(a);
      ++deciders;
      for (Rank b = 0; b < ranks; ++b) {
        smaller += one.is_left(b) ? 0 : 1;
        // It would wait in vain for one that has decided otherwise.
        const bool counts_on_it = a != b && one.is_left(a) && one.is_left(b);
        if (!counts_on_it || members.is_dead(b) || !members.is_linked(a, b)) continue;
        const Survivors& other = members.member(b);
        INFO("ranks " << a << " and " << b << " of " << ranks);
        REQUIRE(one.id() == other.id());
        for (Rank c = 0; c < ranks; ++c) REQUIRE(one.is_left(c) == other.is_left(c));
      }
      // Messages of unlike communicators must not be taken for each other's.
      for (Rank b = 0; b < ranks; ++b) {
        if (members.is_dead(b) || !one.is_left(a) || !members.member(b).is_left(b)) continue;
        bool are_same = true;
        bool share = false;
        for (Rank c = 0; c < ranks; ++c) {
          are_same = are_same && one.is_left(c) == members.member(b).is_left(c);
          share = share || (one.is_left(c) && members.member(b).is_left(c) && !members.is_dead(c));
        }
        INFO("ranks " << a << " and " << b << " of " << ranks);
        if (share && !are_same) CHECK(one.id() != members.member(b).id());
      }
    }
  });
  CHECK(deciders > 1000);
  CHECK(smaller > 1000);
}

// One round of members that all hear each other.
void share_votes(std::vector<Survivors>& members, std::span<const Rank> voters) {
  std::vector<std::vector<std::byte>> votes;
  for (const Survivors& one : members) votes.push_back(one.vote());
  for (const Rank to : voters) {
    for (const Rank from : voters) {
      if (members[to].awaits(from)) REQUIRE(members[to].on_vote(from, votes[from]));
    }
  }
}

TEST_CASE("survivors: without losses the fourth round decides, and the highest id is taken") {
  const Rank all[] = {0, 1};
  std::vector<Survivors> members{{2, 0, 17, {}}, {2, 1, 40, {}}};
  for (int round = 0; round < 4; ++round) {
    for (const Survivors& one : members) CHECK_FALSE(one.decided());
    CHECK_FALSE(members[0].end_round());
    share_votes(members, all);
    for (Survivors& one : members) REQUIRE(one.end_round());
  }
  for (Survivors& one : members) {
    CHECK(one.decided());
    CHECK(one.id() == 40);
    CHECK((one.is_left(0) && one.is_left(1)));
    CHECK_FALSE(one.end_round());
  }
}

TEST_CASE("survivors: a rank that all leave out is not awaited, and learns of it") {
  const Rank without[] = {1};
  std::vector<Survivors> members{{3, 0, 5, without}, {3, 1, 7, {}}, {3, 2, 6, without}};
  const Rank all[] = {0, 1, 2};
  CHECK_FALSE(members[0].awaits(1));
  for (int round = 0; round < 5; ++round) {
    share_votes(members, all);
    for (Survivors& one : members) (void)one.end_round();
  }
  for (const Survivors& one : members) {
    CHECK(one.decided());
    CHECK_FALSE(one.is_left(1));
    CHECK(one.is_left(2));
  }
  CHECK((members[0].id() == 6 && members[2].id() == 6));
  CHECK_FALSE(members[0].was_given_up(1));
  CHECK(members[1].was_given_up(1));
}

// Five members, of which those of a pair don't hear each other, agree on who is left.
std::string left_without(std::vector<std::pair<Rank, Rank>> pairs) {
  std::vector<Survivors> members;
  for (Rank rank = 0; rank < 5; ++rank) members.emplace_back(5, rank, 1, std::span<const Rank>());
  for (const auto& [a, b] : pairs) {
    members[a].on_loss(b);
    members[b].on_loss(a);
  }
  const Rank all[] = {0, 1, 2, 3, 4};
  for (int round = 0; round < 7; ++round) {
    share_votes(members, all);
    for (Survivors& one : members) (void)one.end_round();
  }
  std::string text;
  for (const Survivors& one : members) {
    CHECK(one.decided());
    std::string own;
    for (Rank rank = 0; rank < 5; ++rank) own += one.is_left(rank) ? '1' : '0';
    CHECK((text.empty() || own == text));
    text = own;
  }
  return text;
}

TEST_CASE("survivors: of ranks that don't hear each other as few as possible are given up") {
  CHECK(left_without({}) == "11111");
  CHECK(left_without({{1, 3}}) == "11101");
  // Rank 0 was asleep, and two of the others have given it up.
  CHECK(left_without({{0, 1}, {0, 2}}) == "01111");
  CHECK(left_without({{0, 4}, {4, 1}, {2, 3}}) == "11100");
}

// Members, of which the second of each pair was given up by the first, decide.
std::vector<Survivors> decide(Rank ranks, std::vector<std::pair<Rank, Rank>> pairs) {
  std::vector<Survivors> members;
  std::vector<Rank> all;
  for (Rank rank = 0; rank < ranks; ++rank) {
    members.emplace_back(ranks, rank, 1, std::span<const Rank>());
    all.push_back(rank);
  }
  for (const auto& [by, other] : pairs) {
    members[by].on_loss(other);
    members[other].on_loss(by, true);
  }
  for (int round = 0; round < 7; ++round) {
    share_votes(members, all);
    for (Survivors& one : members) (void)one.end_round();
  }
  for (const Survivors& one : members) CHECK(one.decided());
  return members;
}

TEST_CASE("survivors: those that as many others have given up must not go on") {
  // Ranks 3 and 4 were asleep.
  const auto sleepers = decide(5, {{0, 3}, {1, 3}, {2, 3}, {0, 4}, {1, 4}, {2, 4}});
  for (Rank rank = 0; rank < 5; ++rank) {
    CHECK(sleepers[rank].are_given_up() == (rank >= 3));
    CHECK(sleepers[rank].is_left(3) == (rank >= 3));
    CHECK(sleepers[rank].is_left(0) == (rank < 3));
  }
  // Rank 3 hasn't been given up by rank 2, and tells it so.
  const auto known = decide(5, {{0, 3}, {1, 3}, {0, 4}, {1, 4}, {2, 4}});
  for (Rank rank = 0; rank < 3; ++rank) CHECK_FALSE(known[rank].are_given_up());
  // One session of healthy ranks.
  for (const Survivors& one : decide(3, {{2, 0}})) CHECK_FALSE(one.are_given_up());
  const auto two = decide(2, {{0, 1}});
  CHECK_FALSE(two[0].are_given_up());
  CHECK(two[1].are_given_up());
}

TEST_CASE("survivors: who has given up a rank that isn't left doesn't count") {
  std::vector<Survivors> members;
  for (Rank rank = 0; rank < 3; ++rank) members.emplace_back(3, rank, 1, std::span<const Rank>());
  members[0].on_loss(2);
  members[2].on_loss(0, true);
  const Rank all[] = {0, 1, 2};
  for (int round = 0; round < 3; ++round) {
    share_votes(members, all);
    for (Survivors& one : members) REQUIRE(one.end_round());
  }
  CHECK_FALSE(members[0].decided());
  members[0].on_loss(1);  // it dies
  for (int round = 0; round < 4 && !members[0].decided(); ++round) REQUIRE(members[0].end_round());
  REQUIRE(members[0].decided());
  CHECK_FALSE((members[0].is_left(1) || members[0].is_left(2)));
  CHECK_FALSE(members[0].are_given_up());
}

TEST_CASE("survivors: what is no vote of the round is refused") {
  Survivors one(70, 0, 5, {});
  const Survivors other(70, 1, 5, {});
  const Survivors larger(71, 1, 5, {});
  std::vector<std::byte> vote = other.vote();
  REQUIRE(vote.size() == one.vote_bytes());
  CHECK_FALSE(one.on_vote(1, std::span(vote).first(vote.size() - 1)));
  CHECK_FALSE(one.on_vote(1, {}));
  CHECK_FALSE(one.on_vote(1, larger.vote()));
  CHECK(one.awaits(1));
  CHECK(one.on_vote(1, other.vote()));
  CHECK_FALSE(one.is_lost(1));
  vote[0] = std::byte{1};  // a later round's: those before it were lost with their session
  CHECK(one.awaits(2));
  CHECK(one.on_vote(2, vote));
  CHECK(one.is_lost(2));
  CHECK_FALSE(one.awaits(2));
}

}  // namespace
}  // namespace hawser::test
