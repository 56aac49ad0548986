// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

// An endpoint that shares the completion queue and the address vector of `pair.a`.
static Owned<fid_ep> second_endpoint(Pair& pair) {
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(pair.a.domain.get(), pair.a.info.get(), &opened, nullptr) == 0);
  Owned<fid_ep> second(opened);
  REQUIRE(fi_ep_bind(second.get(), &pair.a.av->fid, 0) == 0);
  REQUIRE(fi_ep_bind(second.get(), &pair.a.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
  REQUIRE(fi_enable(second.get()) == 0);
  return second;
}

TEST_CASE("Threads__several_send_and_receive_by_one_endpoint_inline_or_with_an_engine_thread") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair;
  constexpr std::uint32_t kThreads = 3;
  constexpr std::uint32_t kMessages = 400;
  std::array<std::array<std::uint32_t, kMessages>, kThreads> out{};
  std::atomic<std::uint32_t> received{0}, sent{0};
  std::atomic<bool> failed{false};
  const auto read = [&](Node& node, std::atomic<std::uint32_t>& count) {
    fi_cq_tagged_entry entry{};
    const ssize_t n = fi_cq_read(node.cq.get(), &entry, 1);
    if (n == 1) ++count;
    if (n < 0 && n != -FI_EAGAIN) failed = true;
  };
  // Each thread has a tag of its own, and the messages of a tag stay in order.
  const auto work = [&](std::uint32_t t) {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      while (fi_trecv(pair.b.ep.get(), &out[t][i], 4, nullptr, pair.to_a, t, 0, nullptr) != 0) {
        read(pair.b, received);
      }
      const std::uint32_t value = t * kMessages + i;
      while (fi_tinject(pair.a.ep.get(), &value, 4, pair.to_b, t) != 0) read(pair.a, sent);
    }
    for (const HangLimit limit; received < kThreads * kMessages && !failed && !limit.is_over();) {
      read(pair.a, sent);
      read(pair.b, received);
    }
  };
  std::vector<std::thread> workers;
  for (std::uint32_t t = 0; t < kThreads; ++t) workers.emplace_back(work, t);
  for (std::thread& worker : workers) worker.join();
  CHECK(!failed);
  CHECK(received == kThreads * kMessages);
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    for (std::uint32_t i = 0; i < kMessages; ++i) REQUIRE(out[t][i] == t * kMessages + i);
  }
}

TEST_CASE("Threads__two_endpoints_share_a_completion_queue") {
  Pair pair;
  Owned<fid_ep> second = second_endpoint(pair);
  std::array<char, 4> out{};
  std::array<int, 2> names{};
  REQUIRE(fi_tsend(pair.a.ep.get(), "abc", 4, nullptr, pair.to_b, 1, &names[0]) == 0);
  REQUIRE(fi_tsend(second.get(), "abc", 4, nullptr, pair.to_b, 1, &names[1]) == 0);
  bool first_came = false, second_came = false;
  for (int i = 0; i < 2; ++i) {
    const Entry entry = pair.next_a();
    REQUIRE(entry.answer == 1);
    (entry.entry.op_context == &names[0] ? first_came : second_came) = true;
  }
  CHECK((first_came && second_came));
  // Each endpoint is a peer of its own. The one whose address was never inserted has no source.
  for (int i = 0; i < 2; ++i) {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &out) == 0);
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    CHECK((entry.source == pair.to_a || entry.source == FI_ADDR_NOTAVAIL));
  }
  // The unread entries of an endpoint go when it closes. Those of the other endpoint stay.
  REQUIRE(fi_tsend(second.get(), "abc", 4, nullptr, pair.to_b, 1, &names[1]) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), "abc", 4, nullptr, pair.to_b, 1, &names[0]) == 0);
  for (int i = 0; i < 2000; ++i) {
    (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
  }
  second.reset();
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &names[0]);
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Threads__with_an_engine_thread_things_go_on_while_nobody_calls") {
  const Variables more({{"FI_HAWSER_THREADS", "1"}});
  Pair pair({.wait_obj = FI_WAIT_UNSPEC});
  CHECK(pair.a.info->domain_attr->data_progress == FI_PROGRESS_AUTO);
  const auto data = pattern(3000000, 5);
  std::vector<std::uint8_t> out(data.size());
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), out.size(), nullptr, pair.to_a, 1, 0, &out) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, 1, nullptr) == 0);
  // Only the sender is polled. The receiver's side makes progress by itself.
  fi_cq_tagged_entry entry{};
  CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, kHangLimitMs) == 1);
  CHECK(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, kHangLimitMs) == 1);
  CHECK(out == data);
}

// The text of an error comes from its endpoint.
TEST_CASE("Threads__one_reads_the_errors_of_an_endpoint_that_another_closes") {
  constexpr int kReceives = 60000;  // reading their errors takes longer than closing
  Pair pair;
  Owned<fid_ep> second = second_endpoint(pair);
  std::array<char, 4> out{};
  for (int i = 0; i < kReceives; ++i) {
    REQUIRE(fi_trecv(second.get(), out.data(), 4, nullptr, pair.to_b, 1, 0, nullptr) == 0);
  }
  REQUIRE(fi_tsend(second.get(), "abc", 4, nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(pair.next_a().answer == 1);
  pair.b.ep.reset();
  // All receives fail when the endpoint learns that its peer has closed.
  REQUIRE(pair.until([&] { return fi_cq_read(pair.a.cq.get(), nullptr, 0) == -FI_EAVAIL; }));
  std::atomic<bool> has_begun{false};
  std::thread reader([&] {
    fi_cq_err_entry error{};
    for (const HangLimit limit; !limit.is_over();) {
      error.err_data_size = 0;
      if (fi_cq_readerr(pair.a.cq.get(), &error, 0) != 1) return;
      has_begun = true;
    }
  });
  while (!has_begun) std::this_thread::yield();
  second.reset();
  reader.join();
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}
