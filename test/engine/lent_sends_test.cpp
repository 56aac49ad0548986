// SPDX-License-Identifier: Apache-2.0
// Sends whose bytes a receiver in the same process reads in place: when they complete, and that the
// caller owns their memory from then on.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

TEST_CASE("lent_sends__are_given_back_in_the_turn_that_reads_them") {
  EndpointPair pair({"memory", 0});
  const std::size_t bytes =
      GENERATE(std::size_t{4096}, std::size_t{100'000}, std::size_t{1'000'000});
  CAPTURE(bytes);
  const std::vector<std::byte> sent = pattern(bytes, 1);
  std::vector<std::byte> received(bytes);
  post_receive(*pair.b, pair.a_of_b, 1, received);
  post_send(*pair.a, pair.b_of_a, 1, sent);
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(received == sent);
  // The receiver takes no more turns. The sender takes fewer than a memory NIC's patience lasts.
  // (If the sender stood still before some turn, it may retransmit in a later one.)
  Completion completion;
  std::size_t count = 0;
  bool given_back = false;
  for (int turn = 0; turn < 20; ++turn) {
    if (count == 0) count = pair.a->poll({&completion, 1});
    (void)pair.a->poll({});
    given_back = given_back || pair.a->stats().buffers_in_use == 0;
  }
  CHECK(given_back);
  if (count == 0) completion = pair.next(*pair.a);  // with its acknowledgement
  CHECK(completion.status == Status::ok);
  CHECK(completion.released);
}

// The test rewrites each buffer as soon as its send has completed, which is long before the
// receiver may have looked at the message.
TEST_CASE("lent_sends__have_their_memory_back_with_the_completion") {
  const Setting setting = GENERATE(Setting{"memory", 0}, Setting{"memory", 1});
  CAPTURE(setting);
  constexpr std::uint64_t kMessages = 100;
  constexpr std::size_t kBytes = 50'000;
  EndpointPair pair(setting);
  std::array<std::vector<std::byte>, 3> buffers;
  std::map<OperationId, std::size_t> users;
  std::vector<std::byte> received(kBytes);
  std::uint64_t posted = 0;
  for (; posted < buffers.size(); ++posted) {
    buffers[posted] = pattern(kBytes, posted);
    users[post_send(*pair.a, pair.b_of_a, posted, buffers[posted])] = posted;
  }
  for (std::uint64_t tag = 0; tag < kMessages; ++tag) {
    post_receive(*pair.b, pair.a_of_b, tag, received);
    REQUIRE(pair.next(*pair.b).status == Status::ok);
    REQUIRE(received == pattern(kBytes, tag));
    const Completion done = pair.next(*pair.a);
    REQUIRE(done.status == Status::ok);
    const std::size_t free = users.at(done.operation);
    std::ranges::fill(buffers[free], std::byte{0xee});
    if (posted == kMessages) continue;
    buffers[free] = pattern(kBytes, posted);
    users[post_send(*pair.a, pair.b_of_a, posted++, buffers[free])] = free;
  }
}

}  // namespace
}  // namespace hawser::engine
