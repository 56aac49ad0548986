// SPDX-License-Identifier: Apache-2.0
// Injected sends: their bytes are copied, and only failures complete.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {

TEST_CASE("Endpoint__injected_messages_arrive_and_have_no_completion") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables tunables = short_close();
  tunables.max_operations = 16;
  EndpointPair pair(setting, tunables);
  std::vector<std::byte> received(256);
  // Far more than there are operations: each gets its name back without a completion.
  for (std::uint64_t tag = 1; tag <= 200; ++tag) {
    const std::size_t bytes = tag % 257;
    std::vector<std::byte> data = pattern(bytes, tag);
    const std::vector<std::byte> sent = data;
    const SendRequest request{.peer = pair.b_of_a,
                              .tag = tag,
                              .data = data.data(),
                              .bytes = bytes,
                              .immediate = tag + 1,
                              .user_data = 5};
    Status status = Status::again;
    REQUIRE(pair.turn_until([&] {
      status = pair.a->inject(request);
      return status != Status::again;
    }));
    REQUIRE(status == Status::ok);
    std::fill(data.begin(), data.end(), std::byte{0xee});  // the bytes are the caller's again
    post_receive(*pair.b, pair.a_of_b, tag, received);
    const Completion completion = pair.next(*pair.b);
    REQUIRE(completion.status == Status::ok);
    REQUIRE(completion.bytes == bytes);
    REQUIRE(completion.immediate == tag + 1);
    REQUIRE(std::equal(sent.begin(), sent.end(), received.begin()));
  }
  REQUIRE(pair.turn_until([&] { return pair.a->stats().operations_pending == 0; }));
  // A send beside them completes as ever, and is not taken for one of them.
  std::vector<std::byte> data = pattern(100, 1);
  const OperationId send = post_send(*pair.a, pair.b_of_a, 300, data);
  REQUIRE(pair.a->inject({.peer = pair.b_of_a, .tag = 300, .data = data.data(), .bytes = 8}) ==
          Status::ok);
  const Completion completion = pair.next(*pair.a);
  CHECK(completion.operation == send);
  CHECK(completion.status == Status::ok);
}

TEST_CASE("Endpoint__injected_messages_need_no_room_for_completions") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables tunables = short_close();
  tunables.max_operations = 16;
  EndpointPair pair(setting, tunables);
  // Two other completions wait before those of the injected messages, and stay in their order.
  std::vector<std::byte> received(8);
  const std::vector<std::byte> data = pattern(8, 1);
  std::vector<OperationId> sends;
  std::size_t arrived = 0;
  const auto run = [&](const auto& condition) {
    for (const HangLimit limit; !condition();) {
      if (limit.is_over()) return false;
      pair.a->poll({});
      Completion at_b;
      arrived += pair.b->poll(std::span(&at_b, 1));
    }
    return true;
  };
  for (std::uint64_t tag = 1; tag <= 2; ++tag) {
    post_receive(*pair.b, pair.a_of_b, tag, received);
    sends.push_back(post_send(*pair.a, pair.b_of_a, tag, data));
    REQUIRE(run([&] { return pair.a->stats().operations_pending == 0; }));
  }
  for (std::uint64_t tag = 3; tag <= 200; ++tag) {
    Status status = Status::again;
    const SendRequest request{
        .peer = pair.b_of_a, .tag = tag, .data = data.data(), .bytes = data.size()};
    post_receive(*pair.b, pair.a_of_b, tag, received);
    REQUIRE(run([&] {
      status = pair.a->inject(request);
      return status != Status::again;
    }));
    REQUIRE(status == Status::ok);
    REQUIRE(run([&] { return arrived == tag; }));
  }
  REQUIRE(run([&] { return pair.a->stats().operations_pending == 0; }));
  for (const OperationId send : sends) {
    Completion completion;
    REQUIRE(pair.a->wait(std::span(&completion, 1), kHangLimitNs) == 1);
    CHECK(completion.operation == send);
    CHECK(completion.status == Status::ok);
  }
  Completion none;
  CHECK(pair.a->poll(std::span(&none, 1)) == 0);
}

TEST_CASE("Endpoint__an_injected_message_that_fails_says_so_without_a_name") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::string faults = GENERATE("", "late-reap=20ms");
  CAPTURE(faults);
  Tunables tunables = short_close();
  tunables.max_operations = 16;
  EndpointPair pair(setting, tunables, 2, faults);
  const std::vector<std::byte> data = pattern(100, 1);
  for (std::uint64_t round = 0; round < 40; ++round) {
    // At level `delivered` it waits for a receive that never comes.
    REQUIRE(pair.a->connect(pair.b->address(), pair.b_of_a) == Status::ok);
    REQUIRE(pair.a->inject({.peer = pair.b_of_a,
                            .tag = 1,
                            .data = data.data(),
                            .bytes = data.size(),
                            .level = Level::delivered,
                            .user_data = 70 + round}) == Status::ok);
    REQUIRE(pair.a->disconnect(pair.b_of_a) == Status::ok);
    const Completion completion = pair.next(*pair.a);
    CHECK(completion.operation == kNoOperation);
    CHECK(completion.user_data == 70 + round);
    CHECK(completion.kind == OperationKind::send);
    CHECK(completion.status == Status::endpoint_closed);
    CHECK(completion.released);
  }
  CHECK(pair.a->stats().operations_pending == 0);
}

}  // namespace hawser::engine
