// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks of a communicator.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/coll/job.hpp"
#include "test/coll/world.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using coll::Communicator;
using coll::Rank;
using coll::Received;
using coll::Request;

// The end of a request, once it has one.
Status end_of(World& world, Rank rank, const Request& request, proto::Random& random,
              Received* received = nullptr) {
  Status status = Status::again;
  CHECK(world.run_until(random, [&] {
    status = world.communicators[rank]->test(request, received);
    return status != Status::again;
  }));
  return status;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(),
                 [](char one) { return static_cast<std::byte>(one); });
  return bytes;
}

TEST_CASE("messages: by rank and tag, in the order of their sends") {
  const auto first = bytes_of("first");
  const auto second = bytes_of("second");
  const auto other = bytes_of("other");
  std::vector<std::byte> a(8);
  std::vector<std::byte> b(8);
  std::vector<std::byte> c(8);
  World world(3, {});
  proto::Random random(1);
  std::array<Request, 3> sends;
  std::array<Request, 3> receives;
  Communicator& sender = *world.communicators[2];
  Communicator& receiver = *world.communicators[0];
  REQUIRE(sender.send(first.data(), first.size(), 0, 7, sends[0]) == Status::ok);
  REQUIRE(sender.send(second.data(), second.size(), 0, 7, sends[1]) == Status::ok);
  REQUIRE(sender.send(other.data(), other.size(), 0, ~0u, sends[2]) == Status::ok);
  REQUIRE(receiver.receive(c.data(), c.size(), 2, ~0u, receives[2]) == Status::ok);
  REQUIRE(receiver.receive(a.data(), a.size(), 2, 7, receives[0]) == Status::ok);
  REQUIRE(receiver.receive(b.data(), b.size(), coll::kAnyRank, 7, receives[1]) == Status::ok);
  Received received;
  CHECK(end_of(world, 0, receives[0], random, &received) == Status::ok);
  CHECK(received.from == 2);
  CHECK(received.bytes == 5);
  CHECK(std::equal(first.begin(), first.end(), a.begin()));
  CHECK(end_of(world, 0, receives[1], random, &received) == Status::ok);
  CHECK(received.from == 2);
  CHECK(received.bytes == 6);
  CHECK(std::equal(second.begin(), second.end(), b.begin()));
  CHECK(end_of(world, 0, receives[2], random) == Status::ok);
  CHECK(std::equal(other.begin(), other.end(), c.begin()));
  for (const Request& send : sends) CHECK(end_of(world, 2, send, random) == Status::ok);
  // A request that has been told once is complete for ever.
  CHECK(receiver.test(receives[0]) == Status::ok);
  CHECK(receiver.released(receives[0]));
  CHECK(world.settle(random));
}

TEST_CASE("messages: one that is too long fails its receive alone") {
  const auto text = bytes_of("too long");
  std::vector<std::byte> room(3);
  World world(2, {});
  proto::Random random(1);
  Request send;
  Request receive;
  REQUIRE(world.communicators[1]->receive(room.data(), room.size(), 0, 0, receive) == Status::ok);
  REQUIRE(world.communicators[0]->send(text.data(), text.size(), 1, 0, send) == Status::ok);
  Received received;
  CHECK(end_of(world, 1, receive, random, &received) == Status::truncated);
  CHECK(received.bytes == 3);
  CHECK(end_of(world, 0, send, random) == Status::ok);
  CHECK(world.communicators[1]->failure() == nullptr);
  Job job({.kind = JobKind::barrier, .ranks = 2}, random);
  for (const auto& communicator : world.communicators) {
    REQUIRE(job.start(*communicator) == Status::ok);
  }
  CHECK(world.settle(random));
}

TEST_CASE("messages: wrong ranks and lengths are refused") {
  World world(2, {});
  std::byte one{};
  Request request{3, 4};
  Communicator& communicator = *world.communicators[0];
  CHECK(communicator.send(&one, 1, 0, 0, request) == Status::invalid_argument);
  CHECK(communicator.send(&one, 1, 2, 0, request) == Status::invalid_argument);
  CHECK(communicator.send(&one, 1, coll::kAnyRank, 0, request) == Status::invalid_argument);
  CHECK(communicator.receive(&one, 1, 0, 0, request) == Status::invalid_argument);
  CHECK(communicator.receive(&one, 1, 2, 0, request) == Status::invalid_argument);
  CHECK(communicator.send(&one, kMaxMessageBytes + 1, 1, 0, request) == Status::invalid_argument);
  CHECK(communicator.receive(&one, kMaxMessageBytes + 1, 1, 0, request) ==
        Status::invalid_argument);
  CHECK(communicator.send(nullptr, 1, 1, 0, request) == Status::invalid_argument);
  CHECK(communicator.receive(nullptr, 1, 1, 0, request) == Status::invalid_argument);
  CHECK((request.slot == 3 && request.generation == 4));
}

TEST_CASE("messages: a place is free when its request's end has been told") {
  World world(2, {});
  proto::Random random(1);
  std::vector<Request> receives(Communicator::kMaxMessages);
  for (Request& one : receives) {
    REQUIRE(world.communicators[0]->receive(nullptr, 0, 1, 1, one) == Status::ok);
  }
  Request more;
  CHECK(world.communicators[0]->receive(nullptr, 0, 1, 1, more) == Status::again);
  Request send;
  REQUIRE(world.communicators[1]->send(nullptr, 0, 0, 1, send) == Status::ok);
  CHECK(end_of(world, 1, send, random) == Status::ok);
  CHECK(end_of(world, 0, receives[0], random) == Status::ok);
  CHECK(world.communicators[0]->receive(nullptr, 0, 1, 1, more) == Status::ok);
  CHECK(more.slot == receives[0].slot);
  CHECK(more.generation != receives[0].generation);
}

// The end of one that no receive takes must not be mistaken for a collective's.
TEST_CASE("messages: nobody's message disturbs no collective, and goes with the communicator") {
  const auto text = bytes_of("for nobody");
  World world(3, {});
  proto::Random random(4);
  Request send;
  REQUIRE(world.communicators[0]->send(text.data(), text.size(), 1, 0, send) == Status::ok);
  for (int round = 0; round < 20; ++round) {
    Job job(draw_job(random, 3, 2000), random);
    for (const auto& communicator : world.communicators) {
      REQUIRE(job.start(*communicator) == Status::ok);
    }
    REQUIRE(world.run_until(random, [&] {
      return std::all_of(world.communicators.begin(), world.communicators.end(), [&](auto& one) {
        return one->test(job.request(one->rank())) != Status::again;
      });
    }));
    for (Rank rank = 0; rank < 3; ++rank) CHECK(job.wrong(rank) == "");
  }
  // Long enough for looks at what is unmatched.
  for (int i = 0; i < 200'000; ++i) world.step(random);
  for (const auto& communicator : world.communicators) CHECK(communicator->failure() == nullptr);
  world.communicators[1].reset();
  CHECK(end_of(world, 0, send, random) == Status::ok);
}

TEST_CASE("messages: a rank's death ends all that is posted, everywhere") {
  for_each_seed(20, [](proto::Random& random) {
    std::vector<std::byte> memory(3000);
    World world(4, {});
    std::vector<std::pair<Rank, Request>> requests;
    for (Rank rank = 0; rank < 3; ++rank) {
      Request one;
      REQUIRE(world.communicators[rank]->receive(memory.data() + rank * 1000, 100, 3, 5, one) ==
              Status::ok);
      requests.emplace_back(rank, one);
      REQUIRE(world.communicators[rank]->receive(memory.data() + rank * 1000 + 100, 100,
                                                 coll::kAnyRank, 6, one) == Status::ok);
      requests.emplace_back(rank, one);
    }
    world.kill(3);
    REQUIRE(world.run_until(random, [&] {
      return std::all_of(requests.begin(), requests.end(), [&](const auto& one) {
        return world.communicators[one.first]->released(one.second);
      });
    }));
    for (const auto& [rank, request] : requests) {
      CHECK(world.communicators[rank]->test(request) == Status::peer_timeout);
      CHECK(world.communicators[rank]->failure()->rank == 3);
    }
    CHECK(world.network.complaints() == std::vector<std::string>{});
  });
}

TEST_CASE("messages: a receive from any rank ends when a rank dies that nobody else waits for") {
  std::byte room{};
  World world(3, {});
  proto::Random random(1);
  Request request;
  REQUIRE(world.communicators[0]->receive(&room, 1, coll::kAnyRank, 0, request) == Status::ok);
  world.kill(2);
  CHECK(end_of(world, 0, request, random) == Status::peer_timeout);
  CHECK(world.communicators[0]->failure()->rank == 2);
  // The status of a failure stays, however often it is asked for.
  REQUIRE(world.settle(random));
  for (int i = 0; i < 3; ++i) {
    CHECK(world.communicators[0]->test(request) == Status::peer_timeout);
    CHECK(world.communicators[0]->released(request));
  }
}

TEST_CASE("messages: an abort for a reason that is none has the status cancelled") {
  for (const Status reason : {Status::ok, Status::again, Status::truncated}) {
    World world(2, {});
    proto::Random random(1);
    std::byte room{};
    Request request;
    REQUIRE(world.communicators[1]->receive(&room, 1, 0, 0, request) == Status::ok);
    world.communicators[0]->abort(coll::kAnyRank, reason);
    CHECK(end_of(world, 1, request, random) == Status::cancelled);
    CHECK(world.communicators[1]->failure()->rank == 0);
  }
}

TEST_CASE("messages: a communicator may go while messages are posted") {
  std::vector<std::byte> memory(100);
  World world(2, {});
  proto::Random random(1);
  Request request;
  REQUIRE(world.communicators[0]->receive(memory.data(), 100, 1, 0, request) == Status::ok);
  world.communicators[0].reset();
  CHECK(world.run_until(random, [&] { return world.routers[0]->quiet(); }));
  CHECK(world.run_until(random, [&] { return world.communicators[1]->failure() != nullptr; }));
  CHECK(world.communicators[1]->failure()->status == Status::cancelled);
}

}  // namespace
}  // namespace hawser::test
