// SPDX-License-Identifier: Apache-2.0
// The table of a received message's states in docs/internals/protocol.md §7: each event in each
// state, also where it must change nothing. The test plays the sender.
#include <catch2/catch.hpp>

#include "test/protocol/message_scene.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

// Fragment 0 of two has arrived, if any, or both. GRANTED is a message of three, whose third
// fragment waits for a grant.
enum class State {
  unknown,
  behind,
  unmatched,
  no_room,
  whole,
  claimed,
  matched,
  granted,
  finished,
  cancelled,
  passed
};
constexpr std::array kStates{State::unknown,  State::behind,    State::unmatched, State::no_room,
                             State::whole,    State::claimed,   State::matched,   State::granted,
                             State::finished, State::cancelled, State::passed};
constexpr std::array kNames{"UNKNOWN", "BEHIND",  "UNMATCHED", "NO ROOM",   "WHOLE", "CLAIMED",
                            "MATCHED", "GRANTED", "FINISHED",  "CANCELLED", "PASSED"};

class Scene : public MessageScene {
 public:
  // `delivered`: the level of the send.
  Scene(State state, bool delivered) : state_(state), delivered_(delivered) {
    if (state == State::behind) number_ = 1;
    if (state == State::no_room) fill_the_store();
    if (state == State::granted) size_ = 3 * kFragment - 100;
    if (state == State::matched || state == State::granted) post();
    REQUIRE(come_to_be() == wanted());
    if (state == State::claimed) {
      Envelope envelope;
      REQUIRE(world().endpoint(0).claim(kAnyPeer, 0, number_, ~std::uint64_t{0}, envelope,
                                        claim_) == Status::ok);
    }
    if (state == State::passed) {
      peer.floor = number_ + 1;
      control([](proto::wire::PacketWriter&) {});
      settle();
    }
  }

  [[nodiscard]] State state() const { return state_; }
  void fragment(std::uint32_t index) { data(number_, index, size_, delivered_); }
  void ask(bool cancel = false) { MessageScene::ask(number_, size_, delivered_, cancel); }
  void granted_fragment(std::uint32_t index, std::uint32_t generation) {
    granted(number_, index, size_, grant().rx_slot, generation);
  }
  void post() { (void)receive(id, number_, size_); }
  void post_for_any() { (void)receive(kAnyPeer, number_, size_); }
  std::string said() { return heard(number_); }
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] MessageId claim() const { return claim_; }

 private:
  void fill_the_store() {
    for (; number_ < 4; ++number_) data(number_, 0, kFragment);
    settle();
    (void)heard(number_);
  }
  std::string come_to_be() {
    switch (state_) {
      case State::unknown: break;
      case State::finished: post(); [[fallthrough]];
      case State::whole:
      case State::passed:
      case State::granted:
        fragment(0);
        settle();
        fragment(1);
        break;
      case State::cancelled: ask(true); break;
      default: fragment(0); break;
    }
    settle();
    return said();
  }
  [[nodiscard]] std::string wanted() const {
    switch (state_) {
      case State::no_room: return "NO_ROOM";
      case State::whole:
      case State::passed: return "ACCEPTED";
      case State::granted: return "grant 1-3, grant 2-3";  // the last grant is sent twice
      case State::finished: return "DELIVERED";
      case State::cancelled: return "CANCELLED";
      default: return "";
    }
  }

  State state_;
  bool delivered_;
  std::uint32_t number_ = 0;
  std::uint64_t size_ = 2 * kFragment - 100;
  MessageId claim_ = kNoMessage;
};

struct Expected {
  std::string said{};   // about the message, at once
  std::string ended{};  // completions, by status, without those from before the event
  std::optional<DropReason> dropped{};  // counted once
};
using Row = std::array<Expected, kStates.size()>;
Expected& at(Row& row, State state) { return row[static_cast<std::size_t>(state)]; }

template <class Event, class After>
void check(const Row& row, bool delivered, Event&& event, After&& after) {
  for (const State state : kStates) {
    INFO(kNames[static_cast<std::size_t>(state)]);
    Scene scene(state, delivered);
    const std::size_t ended = scene.ended().size();
    const std::uint64_t drops = scene.drops();
    const Expected& expected = row[static_cast<std::size_t>(state)];
    const std::uint64_t counted = expected.dropped ? scene.drops(*expected.dropped) : 0;
    event(scene);
    scene.settle();
    CHECK(scene.said() == expected.said);
    CHECK(scene.ended().substr(ended) == expected.ended);
    CHECK(scene.drops() - drops == (expected.dropped ? 1 : 0));
    if (expected.dropped) CHECK(scene.drops(*expected.dropped) == counted + 1);
    after(scene);
  }
}
template <class Event>
void check(const Row& row, bool delivered, Event&& event) {
  check(row, delivered, event, [](Scene&) {});
}

// The receive that was posted last has the sender's bytes.
void check_bytes(const Scene& scene) {
  CHECK((scene.bytes() == std::string(scene.size(), static_cast<char>(scene.number()))));
}

TEST_CASE("receive_table__the_other_fragment", "[M31][T4][M7][M15][M18][M23]") {
  Row row;
  at(row, State::unmatched).said = at(row, State::claimed).said = "ACCEPTED";
  at(row, State::behind).said = "ACCEPTED";
  at(row, State::no_room) = {.said = "NO_ROOM", .dropped = DropReason::no_room};
  at(row, State::matched) = {.said = "DELIVERED", .ended = "ok"};
  at(row, State::whole).dropped = at(row, State::granted).dropped = DropReason::duplicate_fragment;
  at(row, State::finished) = {.said = "DELIVERED", .dropped = DropReason::duplicate_fragment};
  at(row, State::cancelled) = {.said = "CANCELLED", .dropped = DropReason::duplicate_fragment};
  at(row, State::passed).dropped = DropReason::below_floor;
  check(
      row, true, [](Scene& s) { s.fragment(1); },
      [](Scene& s) {
        if (s.state() == State::matched) check_bytes(s);
      });
}

TEST_CASE("receive_table__the_fragment_that_is_here", "[M31][I1][M15]") {
  Row row;
  for (const State state : kStates) at(row, state).dropped = DropReason::duplicate_fragment;
  at(row, State::unknown).dropped = std::nullopt;  // no drop in this state
  at(row, State::no_room) = {.said = "NO_ROOM", .dropped = DropReason::no_room};
  at(row, State::finished).said = "DELIVERED";
  at(row, State::cancelled).said = "CANCELLED";
  at(row, State::passed).dropped = DropReason::below_floor;
  check(row, true, [](Scene& s) { s.fragment(0); });
}

TEST_CASE("receive_table__a_fragment_of_another_length", "[M31][T9]") {
  Row row;
  for (const State state : kStates) at(row, state).dropped = DropReason::bad_field;
  at(row, State::finished) = {.said = "DELIVERED", .dropped = DropReason::duplicate_fragment};
  at(row, State::cancelled) = {.said = "CANCELLED", .dropped = DropReason::duplicate_fragment};
  at(row, State::passed).dropped = DropReason::below_floor;
  check(
      row, true,
      [](Scene& s) {
        s.peer.put(proto::wire::PacketType::data, std::vector<std::byte>(100),
                   [&](proto::wire::PacketWriter& w) {
                     w.part(proto::wire::FragmentPart{s.number(), 1});
                     proto::wire::EnvelopePart envelope{};
                     envelope.tag = s.number();
                     envelope.set_length(s.size());
                     w.part(envelope);
                   });
      },
      [](Scene& s) {
        // The fragment is as missing as before.
        if (s.state() != State::matched) return;
        s.fragment(1);
        s.settle();
        CHECK(s.ended() == "ok");
        check_bytes(s);
      });
}

TEST_CASE("receive_table__granted_to_its_slot_and_to_another", "[M31][M14][M29]") {
  Scene scene(State::granted, true);
  // The slot is right, but the message is another one.
  scene.granted(7, 2, scene.size(), scene.grant().rx_slot, scene.grant().rx_generation);
  scene.settle();
  CHECK(scene.said().empty());
  CHECK(scene.drops(DropReason::bad_slot) == 1);
  scene.granted_fragment(2, scene.grant().rx_generation);
  scene.settle();
  CHECK(scene.said() == "DELIVERED");
  CHECK(scene.ended() == "ok");
  check_bytes(scene);
  // No grant named this generation.
  Row row;
  for (const State state : kStates) at(row, state).dropped = DropReason::bad_slot;
  at(row, State::finished) = {.said = "DELIVERED", .dropped = DropReason::duplicate_fragment};
  at(row, State::cancelled) = {.said = "CANCELLED", .dropped = DropReason::duplicate_fragment};
  at(row, State::passed).dropped = DropReason::below_floor;
  check(row, true, [](Scene& s) { s.granted_fragment(1, 77); });
}

TEST_CASE("receive_table__an_envelope_asks", "[M31][M4][M7]") {
  Row row;
  at(row, State::unknown).said = "request 0 1";
  at(row, State::behind).said = at(row, State::unmatched).said = "request 1";
  at(row, State::claimed).said = at(row, State::matched).said = "request 1";
  at(row, State::no_room).said = "NO_ROOM";
  at(row, State::whole).said = "ACCEPTED";
  at(row, State::granted).said = "grant 2-3, request 2";
  at(row, State::finished).said = "DELIVERED";
  at(row, State::cancelled).said = "CANCELLED";
  at(row, State::passed).dropped = DropReason::below_floor;
  check(row, true, [](Scene& s) { s.ask(); });
}

// Until it gets a grant the message has no new status to report.
TEST_CASE("receive_table__an_envelope_asks_where_all_that_may_come_has_come", "[M31][M4][B13]") {
  MessageScene scene;
  constexpr std::uint64_t kBytes = 3 * MessageScene::kFragment;
  scene.data(0, 0, kBytes);
  scene.data(0, 1, kBytes);
  scene.settle();
  CHECK(scene.heard(0).empty());
  scene.ask(0, kBytes);
  scene.settle();
  CHECK(scene.heard(0) == "PENDING");
}

// The sender starts from the beginning with the grant. A fragment before that is of no use,
// whatever room there is.
TEST_CASE("receive_table__what_had_no_room_waits_for_its_grant", "[M31][M3][M13]") {
  Scene scene(State::no_room, true);
  (void)scene.receive(scene.id, 0, Scene::kFragment);  // receives what filled the store
  scene.settle();
  REQUIRE(scene.ended() == "ok");
  scene.fragment(1);
  scene.settle();
  CHECK(scene.said() == "NO_ROOM");
  scene.post();
  scene.settle();
  CHECK(scene.said() == "grant 0-2");
}

TEST_CASE("receive_table__cancel", "[M31][T6][T7][M21][M22]") {
  for (const bool delivered : {false, true}) {
    Row row;
    for (const State state : kStates) at(row, state).said = "CANCELLED";
    for (const State state : {State::claimed, State::matched, State::granted}) {
      at(row, state).said = "MATCHED";
    }
    if (!delivered) at(row, State::whole).said = "ACCEPTED";
    at(row, State::finished).said = "DELIVERED";
    at(row, State::passed) = {.dropped = DropReason::below_floor};
    check(
        row, delivered, [](Scene& s) { s.ask(true); },
        [&](Scene& s) {
          // A cancelled message matches nothing, now or later. A message that goes on is still
          // incomplete.
          const std::string before = s.ended();
          const bool was_posted = s.state() == State::matched || s.state() == State::granted;
          if (!was_posted) s.post();
          s.settle();
          const bool matches = s.state() == State::whole && !delivered;
          // The floor passed a message that still waits for its receive.
          const bool passed = s.state() == State::passed;
          CHECK(s.ended() == (matches || passed ? "ok" : before));
        });
  }
}

TEST_CASE("receive_table__a_receive_is_posted", "[M31][M12][M14][M3]") {
  Row row;
  at(row, State::no_room).said = "grant 0-2";
  at(row, State::whole) = {.said = "DELIVERED", .ended = "ok"};
  at(row, State::passed).ended = "ok";
  check(
      row, true,
      [](Scene& s) {
        if (s.state() != State::matched && s.state() != State::granted) s.post();
      },
      [](Scene& s) {
        if (s.state() == State::whole || s.state() == State::passed) check_bytes(s);
      });
}

// A claimed message goes to its own receive, or, put back, to any other.
TEST_CASE("receive_table__what_is_claimed_is_received_or_put_back", "[M31][M27]") {
  for (const bool put_back : {false, true}) {
    Scene scene(State::claimed, true);
    if (put_back) {
      REQUIRE(scene.world().endpoint(0).put_back(scene.world().now(), scene.claim()) == Status::ok);
      scene.post();
    } else {
      scene.post();
      scene.settle();
      CHECK(scene.ended().empty());
      proto::ReceiveRequest request;
      request.claimed = scene.claim();
      REQUIRE(scene.world().post(0, request) == Status::ok);
    }
    scene.fragment(1);
    scene.settle();
    CHECK(scene.said() == (put_back ? "DELIVERED" : "TRUNCATED"));
    CHECK(scene.ended() == (put_back ? "ok" : "truncated"));
  }
}

TEST_CASE("receive_table__the_floor", "[M31][T10]") {
  Row row;
  for (const State state : kStates) at(row, state).dropped = DropReason::bad_field;
  for (const State state : {State::whole, State::finished, State::cancelled, State::passed}) {
    at(row, state).dropped = std::nullopt;
  }
  check(
      row, true,
      [](Scene& s) {
        s.peer.floor = s.number() + 1;
        s.control([](proto::wire::PacketWriter&) {});
      },
      [&](Scene& s) {
        // The next fragment shows whether the floor has passed the message.
        const bool passed = !at(row, s.state()).dropped.has_value();
        const std::uint64_t below = s.drops(DropReason::below_floor);
        s.peer.floor = 0;
        s.fragment(0);
        s.settle();
        CHECK(s.drops(DropReason::below_floor) == below + (passed ? 1 : 0));
      });
}

// The lower number arrives, and the message behind it gets its turn.
TEST_CASE("receive_table__the_number_before_it", "[M31][M11]") {
  Scene scene(State::behind, true);
  scene.post();
  scene.fragment(1);
  scene.settle();
  CHECK(scene.said() == "ACCEPTED");
  CHECK(scene.ended().empty());
  scene.data(0, 0, 10);
  scene.settle();
  CHECK(scene.said() == "DELIVERED");
  CHECK(scene.ended() == "ok");
  check_bytes(scene);
}

TEST_CASE("receive_table__time_passes", "[M31][L4][M28]") {
  Row row;
  at(row, State::behind).said = at(row, State::unmatched).said = "request 1";
  at(row, State::claimed).said = at(row, State::matched).said = "request 1";
  at(row, State::granted).said = "grant 2-3, request 2";
  check(row, true, [](Scene& s) { s.world().run_for(milliseconds(50)); });
}

TEST_CASE("receive_table__the_session_ends", "[M31][M19]") {
  Row row;
  for (const State state : {State::matched, State::granted}) {
    at(row, state).ended = "peer_timeout";
  }
  check(
      row, true, [](Scene& s) { s.peer.end(proto::wire::PacketType::reset, 0); },
      [](Scene& s) {
        CHECK(s.world().stats(0).messages_claimed == 0);
        CHECK(s.world().stats(0).operations_pending == 0);
        // A complete message still waits for its receive. The others have left nothing.
        const std::string before = s.ended();
        s.post_for_any();
        s.settle();
        const bool waits = s.state() == State::whole || s.state() == State::passed;
        CHECK(s.ended() == (waits ? "ok" : before));
        if (waits) check_bytes(s);
      });
}

}  // namespace
}  // namespace hawser::test
