// SPDX-License-Identifier: Apache-2.0
// The judge's rule about messages that wait behind one that a full store turned away.
#include <catch2/catch.hpp>
#include <string>

#include "sim/storm/oracle.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::milliseconds;

constexpr std::uint64_t kStore = 16;
constexpr std::uint64_t kNobodyWants = 7;
constexpr Duration kCancelled = milliseconds(500);

// Host 0 sends empty messages to host 1, of which only the last has a receive. There are no faults,
// so a message must not take half a second.
sim::Plan plan_of(std::uint64_t messages) {
  sim::Plan plan;
  plan.tunables = sim::small_world();
  plan.tunables.max_receive_messages = kStore;
  plan.hosts.resize(3);
  for (sim::HostPlan& host : plan.hosts) host.nics.resize(1);
  plan.messages.resize(messages, {.from = 0, .to = 1, .tag = kNobodyWants});
  plan.messages.back().tag = 0;
  plan.heals_at = milliseconds(2000);
  return plan;
}

class Scene {
 public:
  explicit Scene(const sim::Plan& plan)
      : plan_(plan), oracle_(plan_), last_(static_cast<std::uint32_t>(plan.messages.size()) - 1) {
    for (std::uint32_t host = 0; host < plan.hosts.size(); ++host) {
      for (std::uint32_t other = 0; other < plan.hosts.size(); ++other) {
        if (host != other) oracle_.on_established(host, other, milliseconds(1));
      }
    }
    for (std::uint32_t i = 0; i <= last_; ++i) post(i);
    post_receive(0);
  }

  // Posts a receive that matches any host's message with this tag.
  void post_receive(std::uint64_t tag) {
    sim::ReceiveRecord& receive = oracle_.receives().emplace_back();
    receive.plan.host = 1;
    receive.plan.tag = tag;
    receive.posted = true;
    receive.order = oracle_.receives().size();
    receive.buffer.make(0, std::byte{0xa5});
    receive.at = milliseconds(1);
  }
  void ask_to_cancel(std::uint32_t message) { oracle_.send(message).cancel_asked = true; }
  void cancel(std::uint32_t message, Duration at) {
    ask_to_cancel(message);
    Completion completion = completion_of(message);
    completion.kind = OperationKind::send;
    completion.status = Status::cancelled;
    oracle_.on_send_completed(message, completion, false, false, at);
  }
  // The judge's verdict when the receive gets the last message at this time.
  std::string verdict_when_received(Duration at) {
    oracle_.receives()[0].done = at;
    Completion completion = completion_of(last_);
    completion.kind = OperationKind::receive;
    completion.peer = PeerId{0};
    oracle_.on_receive_completed(0, completion, 0, {});
    return oracle_.verdict();
  }
  [[nodiscard]] sim::Oracle& oracle() { return oracle_; }

 private:
  void post(std::uint32_t message) {
    sim::SendRecord& send = oracle_.send(message);
    send.posted = true;
    send.order = message;
    send.at = milliseconds(2);
  }
  [[nodiscard]] Completion completion_of(std::uint32_t message) const {
    Completion completion;
    completion.released = true;
    completion.tag = plan_.messages[message].tag;
    completion.immediate = message;
    return completion;
  }

  sim::Plan plan_;
  sim::Oracle oracle_;
  std::uint32_t last_;
};

// kStore messages fill the store, one more takes the reserve of its sender, and the next one is
// turned away.
constexpr std::uint64_t kTurnedAway = kStore + 2;

TEST_CASE("oracle_store__what_waits_behind_one_that_was_turned_away_may_come_late") {
  Scene s(plan_of(kTurnedAway + 1));
  s.cancel(kTurnedAway - 1, kCancelled);
  CHECK(s.verdict_when_received(kCancelled + milliseconds(1)) == "");
}

// The wait starts again with the cancel, which excuses no delay after that.
TEST_CASE("oracle_store__once_there_is_room_it_comes_in_time") {
  Scene s(plan_of(kTurnedAway + 1));
  s.cancel(kTurnedAway - 1, kCancelled);
  CHECK_THAT(s.verdict_when_received(kCancelled * 2), Catch::Contains("took"));
}

TEST_CASE("oracle_store__a_cancel_of_a_stored_message_makes_room_too") {
  Scene s(plan_of(kTurnedAway + 1));
  s.cancel(3, kCancelled);
  CHECK(s.verdict_when_received(kCancelled + milliseconds(1)) == "");
}

TEST_CASE("oracle_store__a_cancel_that_its_sender_has_not_heard_of_makes_room_too") {
  Scene s(plan_of(kTurnedAway + 1));
  s.ask_to_cancel(kTurnedAway - 1);
  CHECK(s.verdict_when_received(kCancelled) == "");
}

TEST_CASE("oracle_store__a_session_s_end_makes_room_too") {
  sim::Plan plan = plan_of(kTurnedAway + 1);
  for (std::uint32_t i = 0; i < 4; ++i) plan.messages[i].from = 2;
  plan.closings.push_back({kCancelled, 2, sim::kAnyHost});
  Scene s(plan);
  s.oracle().on_closing(2, sim::kAnyHost, kCancelled);
  s.oracle().on_failure(2, 1, Status::endpoint_closed, Reason::status, kCancelled);
  s.oracle().on_failure(1, 2, Status::peer_closed, Reason::status, kCancelled);
  CHECK(s.verdict_when_received(kCancelled + milliseconds(1)) == "");
}

TEST_CASE("oracle_store__a_receive_for_older_messages_makes_room_too") {
  Scene s(plan_of(kTurnedAway + 1));
  s.oracle().on_receive_posted(1, kCancelled);
  s.post_receive(kNobodyWants);
  CHECK(s.verdict_when_received(kCancelled + milliseconds(1)) == "");
}

TEST_CASE("oracle_store__after_a_receive_for_older_messages_it_comes_in_time") {
  Scene s(plan_of(kTurnedAway + 1));
  s.oracle().on_receive_posted(1, kCancelled);
  s.post_receive(kNobodyWants);
  CHECK_THAT(s.verdict_when_received(kCancelled * 2), Catch::Contains("took"));
}

TEST_CASE("oracle_store__nothing_waits_where_the_store_has_room") {
  Scene s(plan_of(kTurnedAway));  // the last but one takes the reserve
  s.cancel(kTurnedAway - 2, kCancelled);
  CHECK_THAT(s.verdict_when_received(kCancelled + milliseconds(1)), Catch::Contains("took"));
}

TEST_CASE("oracle_store__messages_of_others_hold_up_none_whose_reserve_is_free") {
  sim::Plan plan = plan_of(kTurnedAway + 4);
  for (std::uint32_t i = 0; i + 2 < plan.messages.size(); ++i) plan.messages[i].from = 2;
  Scene s(plan);
  s.cancel(3, kCancelled);
  CHECK_THAT(s.verdict_when_received(kCancelled + milliseconds(1)), Catch::Contains("took"));
}

TEST_CASE("oracle_store__a_message_that_a_receive_waits_for_is_never_turned_away") {
  sim::Plan plan = plan_of(kTurnedAway + 1);
  plan.messages[kTurnedAway - 1].tag = 1;
  SECTION("it holds up nothing itself, and two others of its sender do") {
    Scene s(plan);
    s.post_receive(1);
    s.cancel(3, kCancelled);
    CHECK(s.verdict_when_received(kCancelled + milliseconds(1)) == "");
  }
  SECTION("one other of its sender takes the reserve, and none is turned away") {
    for (std::uint32_t i = 1; i + 2 < plan.messages.size(); ++i) plan.messages[i].from = 2;
    Scene s(plan);
    s.post_receive(1);
    s.cancel(3, kCancelled);
    CHECK_THAT(s.verdict_when_received(kCancelled + milliseconds(1)), Catch::Contains("took"));
  }
}

}  // namespace
}  // namespace hawser::test
