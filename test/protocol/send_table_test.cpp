// SPDX-License-Identifier: Apache-2.0
// The table of a sent message's states in docs/internals/protocol.md §7: each event in each state,
// also where it must change nothing. The test plays the receiver.
#include <catch2/catch.hpp>

#include "test/protocol/message_scene.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;
using proto::wire::MessageStatus;
using proto::wire::PacketWriter;

// Two fragments are unscheduled. The message has four, and two in all_sent.
enum class State { under_way, ungranted, granted, all_sent, stopped, cancelling, refused, done };
constexpr std::array kStates{State::under_way, State::ungranted,  State::granted, State::all_sent,
                             State::stopped,   State::cancelling, State::refused, State::done};
constexpr std::array kNames{"UNDER WAY", "UNGRANTED",  "GRANTED", "ALL SENT",
                            "STOPPED",   "CANCELLING", "REFUSED", "DONE"};
constexpr std::uint32_t kSlot = 5;
constexpr std::uint32_t kGeneration = 6;

class Scene : public MessageScene {
 public:
  Scene(State state, Level level) : state_(state) {
    const std::uint32_t fragments = state == State::all_sent ? 2 : 4;
    operation_ = send(fragments * kFragment, level);
    settle();
    REQUIRE(heard(0) == "data 0, data 1");
    if (state == State::under_way) return;
    acknowledge();
    settle();
    switch (state) {
      case State::granted:
        grant_up_to(3);
        settle();
        REQUIRE(heard(0) == "granted 2");
        acknowledge();
        break;
      case State::stopped: status(0, MessageStatus::no_room); break;
      case State::cancelling: REQUIRE(cancel() == Status::ok); break;
      case State::refused:
        REQUIRE(cancel() == Status::ok);
        settle();
        status(0, MessageStatus::matched);
        break;
      case State::done: status(0, MessageStatus::delivered); break;
      default: break;
    }
    settle();
    REQUIRE(heard(0) == (state == State::cancelling || state == State::refused ? "cancel" : ""));
    REQUIRE(ended() == (state == State::done ? "ok" : ""));
  }

  [[nodiscard]] State state() const { return state_; }
  Status cancel() { return world().cancel(0, operation_); }
  void grant_up_to(std::uint32_t up_to, std::uint32_t from = 0) {
    control([&](PacketWriter& w) { REQUIRE(w.grant(0, kSlot, kGeneration, from, up_to)); });
  }
  void request(std::uint64_t bitmap) {
    control([&](PacketWriter& w) { REQUIRE(w.request(0, 0, std::span(&bitmap, 1))); });
  }

 private:
  State state_;
  OperationId operation_;
};

struct Expected {
  std::string said{};                   // about the message, at once
  std::string ended{};                  // completions, by status
  std::optional<DropReason> dropped{};  // counted once
  bool operator==(const Expected&) const = default;
};

// The expected reaction of each state to an event. States that aren't named must not react.
struct Row {
  Expected under_way, ungranted, granted, all_sent, stopped, cancelling, refused, done;
  [[nodiscard]] const Expected& of(State state) const {
    const std::array rows{&under_way, &ungranted,  &granted, &all_sent,
                          &stopped,   &cancelling, &refused, &done};
    return *rows[static_cast<std::size_t>(state)];
  }
};
Row each(const Expected& expected) {
  return {expected, expected, expected, expected, expected, expected, expected, {}};
}

// Applies the event in each state. Then `after` may check the scene.
template <class Event, class After>
void check(const Row& row, Level level, Event&& event, After&& after) {
  for (const State state : kStates) {
    INFO(kNames[static_cast<std::size_t>(state)]);
    Scene scene(state, level);
    const std::uint64_t drops = scene.drops();
    const Expected& expected = row.of(state);
    const std::uint64_t counted = expected.dropped ? scene.drops(*expected.dropped) : 0;
    event(scene);
    scene.settle();
    CHECK(scene.heard(0) == expected.said);
    const std::string before = state == State::done ? "ok" : "";
    CHECK(scene.ended() == before + expected.ended);
    CHECK(scene.drops() - drops == (expected.dropped ? 1 : 0));
    if (expected.dropped) CHECK(scene.drops(*expected.dropped) == counted + 1);
    after(scene);
  }
}
template <class Event>
void check(const Row& row, Level level, Event&& event) {
  check(row, level, event, [](Scene&) {});
}
// For events that change nothing: a later grant has the same effect as without them.
const Row kGrantOfAll{.under_way = {.said = "granted 2, granted 3"},
                      .ungranted = {.said = "granted 2, granted 3"},
                      .granted = {.said = "granted 3"},
                      .all_sent = {},
                      .stopped = {.said = "granted 0, granted 1, granted 2, granted 3"},
                      .cancelling = {},
                      .refused = {.said = "granted 2, granted 3"},
                      .done = {}};
void grant_all(Scene& scene) { scene.grant_up_to(scene.state() == State::all_sent ? 2 : 4); }
void goes_on_as(const Row& row, Scene& scene) {
  grant_all(scene);
  scene.settle();
  CHECK(scene.heard(0) == row.of(scene.state()).said);
}

TEST_CASE("send_table__delivered", "[M30][B13][M2]") {
  for (const Level level : {Level::accepted, Level::delivered}) {
    check(
        each({.ended = "ok"}), level, [](Scene& s) { s.status(0, MessageStatus::delivered); },
        [](Scene& s) { goes_on_as({}, s); });
  }
}

TEST_CASE("send_table__truncated", "[M30][B13][M2]") {
  const auto truncated = [](Scene& s) { s.status(0, MessageStatus::truncated); };
  check(each({.ended = "ok"}), Level::accepted, truncated);
  check(each({.ended = "truncated"}), Level::delivered, truncated);
}

TEST_CASE("send_table__accepted", "[M30][B13][M2]") {
  const auto accepted = [](Scene& s) { s.status(0, MessageStatus::accepted); };
  check(each({.ended = "ok"}), Level::accepted, accepted);
  check({}, Level::delivered, accepted, [](Scene& s) { goes_on_as(kGrantOfAll, s); });
}

TEST_CASE("send_table__pending", "[M30][B13]") {
  check(
      {}, Level::accepted, [](Scene& s) { s.status(0, MessageStatus::pending); },
      [](Scene& s) { goes_on_as(kGrantOfAll, s); });
}

// The receiver did not keep the earlier fragments, so they are sent again with the grant, unless
// the grant was first.
TEST_CASE("send_table__no_room", "[M30][B13][M3]") {
  Row anew = kGrantOfAll;
  anew.under_way = anew.ungranted = anew.refused = anew.stopped;
  anew.all_sent = {.said = "granted 0, granted 1"};
  check(
      {}, Level::delivered, [](Scene& s) { s.status(0, MessageStatus::no_room); },
      [&](Scene& s) { goes_on_as(anew, s); });
}

TEST_CASE("send_table__cancelled", "[M30][B13][M24]") {
  Row row = each({.dropped = DropReason::bad_field});
  row.cancelling = {.ended = "cancelled"};
  check(
      row, Level::delivered, [](Scene& s) { s.status(0, MessageStatus::cancelled); },
      [](Scene& s) {
        if (s.state() != State::cancelling) goes_on_as(kGrantOfAll, s);
      });
}

TEST_CASE("send_table__matched", "[M30][B13][M21]") {
  Row row = kGrantOfAll;
  row.cancelling = row.ungranted;
  check(
      {}, Level::delivered, [](Scene& s) { s.status(0, MessageStatus::matched); },
      [&](Scene& s) {
        goes_on_as(row, s);
        // The status comes too late only for a send that has asked to be cancelled.
        const bool too_late = s.state() == State::cancelling || s.state() == State::refused;
        if (s.state() != State::done)
          CHECK(s.cancel() == (too_late ? Status::too_late : Status::ok));
      });
}

TEST_CASE("send_table__a_status_of_what_was_never_sent", "[M30][T10]") {
  // A run that begins with this message: none of it is applied, even if this message has ended.
  Row row = each({.dropped = DropReason::bad_field});
  row.done = row.under_way;
  check(
      row, Level::delivered, [](Scene& s) { s.status(0, MessageStatus::delivered, 2); },
      [](Scene& s) { goes_on_as(kGrantOfAll, s); });
}

TEST_CASE("send_table__grant", "[M30][B16][M3]") {
  check(kGrantOfAll, Level::delivered, grant_all);
  // A grant with an older one behind it, and the same grant again: only growth counts.
  check(kGrantOfAll, Level::delivered, [](Scene& s) {
    s.control([&](PacketWriter& w) {
      REQUIRE(w.grant(0, kSlot, kGeneration, 0, s.state() == State::all_sent ? 2 : 4));
      REQUIRE(w.grant(0, kSlot, kGeneration, 0, 1));
    });
  });
  check(kGrantOfAll, Level::delivered, grant_all, [](Scene& s) {
    grant_all(s);
    s.grant_up_to(1);
    s.settle();
    CHECK(s.heard(0).empty());
  });
}

TEST_CASE("send_table__a_grant_that_cannot_be", "[M30][B16]") {
  check(
      each({.dropped = DropReason::bad_field}), Level::delivered,
      [](Scene& s) { s.grant_up_to(5); }, [](Scene& s) { goes_on_as(kGrantOfAll, s); });
  check(
      each({.dropped = DropReason::bad_field}), Level::delivered,
      [](Scene& s) { s.grant_up_to(1, 2); }, [](Scene& s) { goes_on_as(kGrantOfAll, s); });
}

TEST_CASE("send_table__request", "[M30][B14][L7]") {
  // Fragments in flight are not resent. Fragments that are not in flight are resent at once.
  // Fragments that found no room wait for the grant.
  Row row = each({.said = "again 0"});
  row.under_way = row.stopped = {};
  check(row, Level::delivered, [](Scene& s) { s.request(0b01); });
  row = each({.said = "again 0, again 1"});
  row.under_way = row.stopped = {};
  check(row, Level::delivered, [](Scene& s) { s.request(0b11); });
  // A request for a fragment that was never sent: it will be sent anyway.
  check({}, Level::delivered, [](Scene& s) { s.request(0b1000); });
}

TEST_CASE("send_table__cancel", "[M30][M20]") {
  Row row = each({.said = "cancel"});
  row.cancelling = row.refused = {};
  check(row, Level::delivered, [](Scene& s) {
    const Status expected = s.state() == State::refused ? Status::too_late
                            : s.state() == State::done  ? Status::unknown_operation
                                                        : Status::ok;
    CHECK(s.cancel() == expected);
  });
}

TEST_CASE("send_table__time_passes", "[M30][M4][M20][T3]") {
  for (const State state : kStates) {
    INFO(kNames[static_cast<std::size_t>(state)]);
    Scene scene(state, Level::delivered);
    scene.world().run_for(milliseconds(30));
    const std::string said = scene.heard(0);
    switch (state) {
      case State::under_way: CHECK(said.find("ask") == std::string::npos); break;  // §9 is active
      case State::cancelling: CHECK(said == "cancel"); break;
      case State::done: CHECK(said.empty()); break;
      default: CHECK(said == "ask"); break;
    }
  }
}

TEST_CASE("send_table__the_session_ends", "[M30][M26]") {
  check(
      each({.ended = "peer_timeout"}), Level::delivered,
      [](Scene& s) { s.peer.end(proto::wire::PacketType::reset, 0); },
      [](Scene& s) {
        const Completion& last = s.world().completions(0).back();
        CHECK(last.outcome_unknown == (s.state() == State::all_sent));
      });
}

}  // namespace
}  // namespace hawser::test
