// SPDX-License-Identifier: Apache-2.0
// Collectives take nothing from the heap once their communicator exists.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "hawser/collectives.hpp"
#include "test/support/endpoint_double.hpp"
#include "test/support/heap_guard.hpp"

namespace hawser::test {
namespace {

// An endpoint of rank 0 of 2. Its simulated peer sends at once the same that rank 0 sends.
class Mirror final : public EndpointDouble {
 public:
  [[nodiscard]] Status send(const SendRequest& request, OperationId& operation) override {
    operation = OperationId{++operations_};
    push({.operation = operation, .user_data = request.user_data});
    for (Posted& one : posted_) {
      if (!one.used || one.tag != request.tag) continue;
      one.used = false;
      if (request.bytes > 0) std::memcpy(one.data, request.data, request.bytes);
      push({.operation = one.operation,
            .user_data = one.user_data,
            .kind = OperationKind::receive,
            .bytes = request.bytes,
            .message_bytes = request.bytes,
            .immediate = request.immediate});
      return Status::ok;
    }
    unmatched_ = true;
    return Status::ok;
  }
  [[nodiscard]] Status receive(const ReceiveRequest& request, OperationId& operation) override {
    for (Posted& one : posted_) {
      if (one.used) continue;
      operation = OperationId{++operations_};
      one = {true, request.tag, request.data, request.user_data, operation};
      return Status::ok;
    }
    return Status::again;
  }
  [[nodiscard]] Status cancel(OperationId operation) override {
    for (Posted& one : posted_) {
      if (!one.used || one.operation != operation) continue;
      one.used = false;
      push({.operation = operation,
            .user_data = one.user_data,
            .kind = OperationKind::receive,
            .status = Status::cancelled});
      return Status::ok;
    }
    return Status::unknown_operation;
  }
  std::size_t poll(std::span<Completion> completions) override {
    std::size_t count = 0;
    while (count < completions.size() && first_ < last_) {
      completions[count++] = queue_[first_++ % queue_.size()];
    }
    return count;
  }

  [[nodiscard]] bool unmatched() const { return unmatched_; }

 private:
  struct Posted {
    bool used = false;
    std::uint64_t tag = 0;
    void* data = nullptr;
    std::uint64_t user_data = 0;
    OperationId operation = kNoOperation;
  };
  void push(const Completion& completion) { queue_[last_++ % queue_.size()] = completion; }

  std::array<Posted, 256> posted_{};
  std::array<Completion, 1024> queue_{};
  std::size_t first_ = 0;
  std::size_t last_ = 0;
  std::uint64_t operations_ = 0;
  bool unmatched_ = false;
};

TEST_CASE("no heap: collectives run in what their communicator took at its start") {
  Mirror mirror;
  coll::CompletionRouter router(mirror);
  coll::Communicator communicator(router, {.id = 1, .rank = 0, .peers = {PeerId{0}, PeerId{1}}});
  std::vector<float> in(300'000, 1.5f);
  std::vector<float> out(600'000);
  const HeapGuard guard;
  std::array<coll::Request, 6> requests;
  for (int round = 0; round < 20; ++round) {
    REQUIRE(communicator.all_reduce(in.data(), out.data(), 300'000, coll::DataType::f32,
                                    coll::ReduceOp::sum, requests[0]) == Status::ok);
    REQUIRE(communicator.all_reduce(in.data(), out.data() + 300'000, 10, coll::DataType::f32,
                                    coll::ReduceOp::sum, requests[1]) == Status::ok);
    for (std::size_t i = 0; i < 2; ++i) REQUIRE(communicator.wait(requests[i]) == Status::ok);
    REQUIRE(communicator.barrier(requests[2]) == Status::ok);
    REQUIRE(communicator.all_gather(in.data(), out.data(), 1'000'000, requests[3]) == Status::ok);
    REQUIRE(communicator.wait(requests[2]) == Status::ok);
    REQUIRE(communicator.wait(requests[3]) == Status::ok);
    REQUIRE(communicator.receive(out.data(), 1000, 1, 5, requests[5]) == Status::ok);
    REQUIRE(communicator.send(in.data(), 1000, 1, 5, requests[4]) == Status::ok);
    REQUIRE(communicator.wait(requests[4]) == Status::ok);
    REQUIRE(communicator.wait(requests[5]) == Status::ok);
  }
  const std::uint64_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK_FALSE(mirror.unmatched());
}

}  // namespace
}  // namespace hawser::test
