// SPDX-License-Identifier: Apache-2.0
// The start ends when the endpoints exist. After it, messages take nothing from the heap.
#include <catch2/catch.hpp>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"
#include "test/support/heap_guard.hpp"

namespace hawser::engine {
namespace {

TEST_CASE("Endpoint__no_heap_after_start") {
  // The guard counts this thread, which also makes the progress if there are no engine threads.
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::vector<std::byte> data = pattern(300'000, 1);
  std::vector<std::byte> buffer(data.size());
  std::vector<std::byte> late(data.size());
  EndpointPair pair(setting, short_close(), 2, "loss=0.01,seed=5");
  OperationId operation = kNoOperation;
  Completion completion;
  std::size_t failed = 0;
  const test::HeapGuard guard;
  for (int i = 0; i < 20; ++i) {
    std::size_t awaited = 4;
    failed += pair.b->receive({.tag = 1, .data = buffer.data(), .bytes = buffer.size()},
                              operation) != Status::ok;
    for (std::uint64_t tag = 1; tag <= 2; ++tag) {
      failed +=
          pair.a->send({.peer = pair.b_of_a, .tag = tag, .data = data.data(), .bytes = data.size()},
                       operation) != Status::ok;
    }
    for (int turn = 0; turn < 100; ++turn) {
      awaited -= pair.a->poll(std::span(&completion, 1)) + pair.b->poll(std::span(&completion, 1));
    }
    failed += pair.b->receive({.tag = 2, .data = late.data(), .bytes = late.size()}, operation) !=
              Status::ok;
    for (const HangLimit limit; awaited > 0 && !limit.is_over();) {
      awaited -= pair.a->wait(std::span(&completion, 1), 100'000) +
                 pair.b->wait(std::span(&completion, 1), 100'000);
    }
    failed += awaited;
  }
  const std::uint64_t allocations = guard.allocations();
  CHECK(failed == 0);
  CHECK(allocations == 0);
  CHECK(buffer == data);
  CHECK(late == data);
}

}  // namespace
}  // namespace hawser::engine
