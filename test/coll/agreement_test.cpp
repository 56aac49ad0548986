// SPDX-License-Identifier: Apache-2.0
#include "coll/agreement.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "coll/router.hpp"
#include "test/support/endpoint_double.hpp"

namespace hawser::test {
namespace {

using coll::Agreement;
using coll::Control;
using coll::Rank;

constexpr std::uint32_t kId = 5 + (2u << coll::kChannelIdBits);
constexpr std::uint64_t kMine = 111;
constexpr std::uint64_t kOther = 222;

// An endpoint that holds unmatched messages and remembers what was sent.
class Store final : public EndpointDouble {
 public:
  [[nodiscard]] Status send(const SendRequest& request, OperationId& operation) override {
    operation = OperationId{sent.size()};
    sent.push_back(request);
    return Status::ok;
  }
  [[nodiscard]] Status probe(const ProbeRequest& request, Envelope& envelope) override {
    const auto found = std::find_if(unmatched.begin(), unmatched.end(), [&](const Envelope& one) {
      return (request.peer == kAnyPeer || request.peer == one.peer) &&
             request.channel == coll::channel_of(kId) &&
             ((one.tag ^ request.tag) & ~request.ignore) == 0;
    });
    if (found == unmatched.end()) return Status::again;
    envelope = *found;
    return Status::ok;
  }

  std::vector<Envelope> unmatched;
  std::vector<SendRequest> sent;
};

// Rank 0 of 4.
struct Member {
  Store store;
  coll::Router router{store};
  // The own entry is not used, so it may name anyone.
  std::array<PeerId, 4> peers{PeerId{11}, PeerId{11}, PeerId{12}, PeerId{13}};
  coll::Channel channel{.router = router, .peers = peers, .id = kId, .rank = 0, .route = 0};
  Agreement agreement;

  void holds(Rank from, std::uint32_t sequence, std::uint64_t number, std::uint64_t signature) {
    store.unmatched.push_back({.peer = peers[from],
                               .tag = coll::data_tag(kId, sequence, number),
                               .immediate = signature});
  }
  [[nodiscard]] Completion control(Rank from, Control kind, std::uint32_t sequence,
                                   std::uint64_t signature) const {
    return {.kind = OperationKind::receive,
            .peer = peers[from],
            .tag = coll::control_tag(kId, kind, sequence),
            .immediate = signature};
  }
};

TEST_CASE("agreement: a message may be early or of a running collective and nothing else") {
  Member member;
  REQUIRE(member.agreement.start() == 0);
  REQUIRE(member.agreement.start() == 1);
  const std::vector<Agreement::Running> running{{1, kMine, {}}};
  CHECK_FALSE(member.agreement.look(member.channel, running));
  member.holds(2, 1, 3, kMine);
  member.holds(3, 2, 0, kOther);
  for (int i = 0; i < 8; ++i) CHECK_FALSE(member.agreement.look(member.channel, running));
  SECTION("another signature") {
    member.store.unmatched.clear();
    member.holds(1, 1, 0, kOther);
    const auto found = member.agreement.look(member.channel, running);
    REQUIRE(found);
    CHECK(found->rank == 1);
    CHECK(found->sequence == 1);
  }
  SECTION("a complete collective") {
    member.store.unmatched.clear();
    member.holds(3, 0, 0, kMine);
    const auto found = member.agreement.look(member.channel, running);
    REQUIRE(found);
    CHECK(found->rank == 3);
    CHECK(found->sequence == 0);
  }
  SECTION("without a running collective") {
    CHECK(member.agreement.look(member.channel, {}));  // the oldest message is of collective 1
  }
}

TEST_CASE("agreement: a wrong message is found behind early and good ones") {
  for (const bool behind_good : {false, true}) {
    Member member;
    (void)member.agreement.start();
    const std::vector<Agreement::Running> running{{0, kMine, {}}};
    member.holds(2, 1, 0, kOther);
    if (behind_good) member.holds(2, 0, 7, kMine);
    member.holds(3, 0, 0, kOther);
    std::optional<Agreement::Disagreement> found;
    for (int i = 0; i < 8 && !found; ++i) found = member.agreement.look(member.channel, running);
    REQUIRE(found);
    CHECK(found->rank == 3);
  }
}

TEST_CASE("agreement: a rank that is done and still awaited disagrees") {
  Member member;
  (void)member.agreement.start();
  const std::vector<Agreement::Running> running{{0, kMine, 1u}};
  CHECK_FALSE(member.agreement.look(member.channel, running));
  CHECK_FALSE(member.agreement.look(member.channel, running));
  REQUIRE(member.store.sent.size() == 1);  // one query at a time
  const SendRequest& query = member.store.sent[0];
  CHECK(query.peer == member.peers[1]);
  CHECK(query.tag == coll::control_tag(kId, Control::query, 0));
  CHECK(query.immediate == kMine);
  CHECK(member.agreement.in_flight() == 1);
  CHECK_FALSE(member.agreement.on_sent(member.channel, {.user_data = query.user_data}));
  CHECK(member.agreement.in_flight() == 0);

  const Completion done = member.control(1, Control::done, 0, kMine);
  CHECK_FALSE(member.agreement.on_arrival(member.channel, done, running));
  SECTION("its message is still missing") {
    const auto found = member.agreement.look(member.channel, running);
    REQUIRE(found);
    CHECK(found->rank == 1);
  }
  SECTION("its message has come and another is missing") {
    const std::vector<Agreement::Running> later{{0, kMine, 2u}};
    CHECK_FALSE(member.agreement.look(member.channel, later));
    CHECK(member.store.sent.back().peer == member.peers[2]);
  }
  SECTION("its message has come and its next one is missing") {
    const std::vector<Agreement::Running> later{{0, kMine, 1u, 5}};
    CHECK_FALSE(member.agreement.look(member.channel, later));
    CHECK(member.store.sent.size() == 2);
    CHECK_FALSE(member.agreement.on_arrival(member.channel, done, later));
    CHECK(member.agreement.look(member.channel, later));
  }
  SECTION("the next collective awaits it") {
    const std::vector<Agreement::Running> next{{0, kMine, {}}, {1, kMine, 1u}};
    CHECK_FALSE(member.agreement.look(member.channel, next));
    CHECK(member.store.sent.back().tag == coll::control_tag(kId, Control::query, 1));
  }
}

TEST_CASE("agreement: a query is compared with a running collective or answered") {
  Member member;
  (void)member.agreement.start();
  (void)member.agreement.start();
  const std::vector<Agreement::Running> running{{1, kMine, {}}};
  const auto ask = [&](std::uint32_t sequence, std::uint64_t signature) {
    const Completion query = member.control(2, Control::query, sequence, signature);
    return member.agreement.on_arrival(member.channel, query, running);
  };
  CHECK_FALSE(ask(1, kMine));
  CHECK_FALSE(ask(2, kOther));  // not started here
  CHECK(member.store.sent.empty());
  const auto found = ask(1, kOther);
  REQUIRE(found);
  CHECK(found->rank == 2);
  CHECK_FALSE(ask(0, kOther));  // complete here
  REQUIRE(member.store.sent.size() == 1);
  CHECK(member.store.sent[0].peer == member.peers[2]);
  CHECK(member.store.sent[0].tag == coll::control_tag(kId, Control::done, 0));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(ask(0, kOther));
  CHECK(member.agreement.in_flight() < 10);
}

}  // namespace
}  // namespace hawser::test
