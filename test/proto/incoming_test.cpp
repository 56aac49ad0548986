// SPDX-License-Identifier: Apache-2.0
#include "proto/message/incoming.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <span>
#include <vector>

#include "proto/peer/peer_lists.hpp"
#include "proto/service/control_routes.hpp"
#include "proto/service/descriptors.hpp"
#include "proto/service/outbox.hpp"
#include "proto/service/reporter.hpp"
#include "test/proto/sending.hpp"

namespace hawser::proto {
namespace {

constexpr std::uint32_t kFragment = 1024;

// The messages of a READY peer that sends fragments of 1,024 bytes. Up to four messages may be here
// without a receive.
struct Arriving : Sending, OneSidedSender {
  MessageTablePool numbers{64};
  Slab<Path> paths{4};
  Slab<OutgoingMessage> outgoing{1};
  Reporter reporter{turn, peers, outgoing};
  TouchedPeers touched{peers};
  ReceivePaths receive_paths{turn, reporter, 4};
  ControlRoutes routes{turn, sender, paths, touched};
  Allowance allowance;
  Regions regions{4};
  Descriptors descriptors{turn, peers, touched, outbox, routes};
  Incoming incoming{{turn, peers, sender, reporter, touched, outbox, routes, descriptors,
                     receive_paths, *this, regions, numbers}};
  Outbox outbox{
      {turn, peers, touched, sender, routes, receive_paths, incoming.all(), allowance, descriptors},
      16};
  std::vector<std::byte> bytes = std::vector<std::byte>(64 * kFragment, std::byte{7});
  std::vector<std::byte> buffer = std::vector<std::byte>(64 * kFragment);
  std::uint64_t operations = 0;

  // ---- OneSidedSender: nothing was fetched, and nothing can be
  OneSidedSend* fetch_named(const Peer&, std::uint64_t) override { return nullptr; }
  void end_fetch(OneSidedSend&, Status) override { FAIL("no fetch was named"); }
  bool may_reply(Peer&) override { return false; }
  OneSidedSend& make_reply(Peer&, std::uint64_t, std::uint64_t) override { std::abort(); }
  void start_reply(Peer&, OneSidedSend&, const std::byte*, SlabId) override {}

  Arriving() : Sending(4) {
    peer.paths.indices.fill(kNoIndex);
    peer.paths.receiving.fill(kNoIndex);
    peer.session.state = SessionState::ready;
    proto::set_session_bytes(peer.session, kFragment);
    peer.identity.remote_unscheduled = 4 * kFragment;
    peer.response = ResponseTime(microseconds(100));
    REQUIRE(peer.receives.table.open(numbers, 0));
  }
  ~Arriving() {
    if (peer.receives.table.is_open()) end_session(Status::endpoint_closed, true);
    incoming.drop_held(peer);
  }
  void end_session(Status status, bool drops_whole) {
    incoming.end_session(peer, status, drops_whole);
    peer.receives.table.close();
  }

  // A fragment of a message arrives.
  void arrive(std::uint32_t message, std::uint32_t fragment, std::uint64_t length,
              std::uint64_t tag = 1) {
    const wire::CommonHeader header{};
    const wire::FragmentPart part{message, fragment};
    wire::EnvelopePart envelope{};
    envelope.tag = tag;
    envelope.set_length(length);
    envelope.eflags = wire::kEnvelopeDelivered;
    wire::PacketView packet;
    packet.type = wire::PacketType::data;
    packet.header = &header;
    packet.fragment = &part;
    packet.envelope = &envelope;
    const std::uint64_t begin = std::uint64_t{fragment} * kFragment;
    packet.payload =
        std::span(bytes).subspan(begin, std::min<std::uint64_t>(kFragment, length - begin));
    incoming.on_data(peer, packet);
  }
  PostedReceive receive(std::uint64_t tag, std::uint64_t room, PeerId from) {
    PostedReceive posted;
    posted.operation = OperationId{operations++};
    posted.peer = from;
    posted.tag = tag;
    posted.data = buffer.data();
    posted.bytes = room;
    turn.operations.begin(posted.operation, OperationKind::receive, kNoIndex, turn.now());
    return posted;
  }
  void post(std::uint64_t tag = 1, std::uint64_t room = 64 * kFragment) {
    incoming.post(receive(tag, room, peers.id_of(peer)));
  }
  std::vector<Completion> completions() {
    std::array<Completion, 8> some;
    const std::size_t count = turn.operations.poll(some);
    return {some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  [[nodiscard]] std::uint64_t dropped(DropReason reason) const {
    return turn.counters.drops[static_cast<std::size_t>(reason)];
  }
};

}  // namespace

TEST_CASE("incoming: a message is received whole, in whatever order its fragments come") {
  Arriving at;
  const bool posted_first = GENERATE(true, false);
  if (posted_first) at.post();
  for (const std::uint32_t fragment : {2u, 0u, 1u}) at.arrive(0, fragment, 2500);
  if (!posted_first) {
    CHECK(at.completions().empty());
    at.post();
  }
  const auto done = at.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().status == Status::ok);
  CHECK(done.front().bytes == 2500);
  CHECK(std::memcmp(at.buffer.data(), at.bytes.data(), 2500) == 0);
  CHECK(at.buffer[2500] == std::byte{0});
  CHECK(at.incoming.all().size() == 0);
  CHECK(at.outbox.is_scheduled(at.peer));  // its sender learns the status
}

TEST_CASE("incoming: a fragment that comes twice counts once") {
  Arriving at;
  at.post();
  at.arrive(0, 0, 2000);
  at.arrive(0, 0, 2000);
  CHECK(at.dropped(DropReason::duplicate_fragment) == 1);
  CHECK(at.completions().empty());
  at.arrive(0, 1, 2000);
  CHECK(at.completions().size() == 1);
  at.arrive(0, 1, 2000);  // the message is finished
  CHECK(at.dropped(DropReason::duplicate_fragment) == 2);
}

TEST_CASE("incoming: messages match in the order of their numbers") {
  Arriving at;
  at.arrive(1, 0, 20);
  at.arrive(2, 0, 30);
  at.post();
  CHECK(at.completions().empty());  // number 0 may match it
  at.arrive(0, 0, 10);
  auto done = at.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().bytes == 10);
  at.post();
  done = at.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().bytes == 20);
}

TEST_CASE("incoming: a receive that is too short gets what fits") {
  Arriving at;
  at.post(1, 100);
  at.arrive(0, 0, 200);
  const auto done = at.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().status == Status::truncated);
  CHECK(done.front().bytes == 100);
  CHECK(done.front().message_bytes == 200);
  CHECK(at.buffer[100] == std::byte{0});
}

TEST_CASE("incoming: beyond the descriptors messages are dropped, but not the lowest one") {
  Arriving at;
  for (std::uint32_t number = 1; number < 5; ++number) at.arrive(number, 0, 2000);
  at.arrive(5, 0, 2000);
  CHECK(at.dropped(DropReason::no_descriptor) == 1);
  at.arrive(0, 0, 2000);  // it has the peer's reserve
  CHECK(at.dropped(DropReason::no_descriptor) == 1);
  CHECK(at.incoming.all().size() == 5);
}

TEST_CASE("incoming: missing fragments are requested when they are late") {
  Arriving at;
  at.post();
  at.arrive(0, 0, 2000);
  REQUIRE(at.incoming.next_timer() < kNever);
  (void)at.turn.begin(at.incoming.next_timer());
  at.incoming.expire(8);
  CHECK(at.outbox.is_scheduled(at.peer));
  CHECK(at.incoming.next_timer() > at.turn.now());
  at.arrive(0, 1, 2000);
  CHECK(at.completions().size() == 1);
  CHECK(at.incoming.next_timer() == kNever);
}

TEST_CASE("incoming: a long message is granted what was not sent unasked") {
  Arriving at;
  at.post();
  for (std::uint32_t fragment = 0; fragment < 4; ++fragment) {
    at.arrive(0, fragment, 8 * kFragment);
  }
  at.incoming.give_grants();
  const IncomingMessage& message = at.incoming.at(0);
  CHECK(message.granted > 4);
  CHECK(at.incoming.pace_ends(at.peer.receives) < kNever);
}

TEST_CASE("incoming: a claimed message waits for its own receive") {
  Arriving at;
  at.arrive(0, 0, 10);
  const UnexpectedEntry* found = at.incoming.probe(kAnyPeer, 0, 1, ~std::uint64_t{0});
  REQUIRE(found != nullptr);
  const MessageId name = at.incoming.claim(*found);
  CHECK(at.incoming.claims() == 1);
  CHECK(at.incoming.probe(kAnyPeer, 0, 1, ~std::uint64_t{0}) == nullptr);
  IncomingMessage* const claimed = at.incoming.claimed(name);
  REQUIRE(claimed != nullptr);
  const bool puts_back = GENERATE(true, false);
  if (puts_back) {
    at.incoming.put_back(*claimed);
    CHECK(at.incoming.probe(kAnyPeer, 0, 1, ~std::uint64_t{0}) != nullptr);
  } else {
    at.incoming.receive_claimed(*claimed, at.receive(1, 100, kAnyPeer));
    CHECK(at.completions().size() == 1);
  }
  CHECK(at.incoming.claims() == 0);
  CHECK(at.incoming.claimed(name) == nullptr);
}

TEST_CASE("incoming: an ended session ends its receives, and leaves whole messages") {
  Arriving at;
  at.post(5);
  at.arrive(0, 0, 10);
  at.arrive(1, 0, 2000);  // half of it
  const bool drops = GENERATE(true, false);
  at.end_session(Status::peer_timeout, drops);
  const auto done = at.completions();
  REQUIRE(done.size() == 1);
  CHECK(done.front().status == Status::peer_timeout);
  CHECK(at.incoming.all().size() == 1);  // the matching still holds it
  at.incoming.post(at.receive(1, 100, kAnyPeer));
  CHECK(at.completions().size() == 1);
}

TEST_CASE("incoming: a floor above an unfinished message is refused, again and again") {
  Arriving at;
  at.arrive(0, 0, 2000);
  at.arrive(1, 0, 10);
  for (int i = 0; i < 3; ++i) at.incoming.on_floor(at.peer, 2);
  CHECK(at.dropped(DropReason::bad_field) == 3);
  CHECK(at.peer.receives.remote_floor == 0);
  at.post();
  at.arrive(0, 1, 2000);
  at.incoming.on_floor(at.peer, 2);
  CHECK(at.peer.receives.remote_floor == 2);
}

}  // namespace hawser::proto
