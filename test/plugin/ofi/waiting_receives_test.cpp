// SPDX-License-Identifier: Apache-2.0
// Receives beyond those that Hawser has room for.
#include <catch2/catch.hpp>

#include <vector>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

constexpr std::uint64_t kCount = 1000;

struct Receives {
  explicit Receives(std::uint64_t count) : buffers(count) {}
  void post(Node& node, std::uint64_t tag, std::uint64_t ignore) {
    std::uint64_t& buffer = buffers[posted++];
    REQUIRE(fi_trecv(node.ep.get(), &buffer, sizeof buffer, nullptr, FI_ADDR_UNSPEC, tag, ignore,
                     &buffer) == 0);
  }
  std::vector<std::uint64_t> buffers;
  std::uint64_t posted = 0;
};

void inject(Pair& pair, std::uint64_t tag, std::uint64_t value) {
  ssize_t answer = 0;
  REQUIRE(pair.until([&] {
    answer = fi_tinject(pair.a.ep.get(), &value, sizeof value, pair.to_b, tag);
    return answer != -FI_EAGAIN;
  }));
  REQUIRE(answer == 0);
}

}  // namespace

TEST_CASE("WaitingReceives__more_than_there_is_room_for_are_matched_in_the_order_of_posting") {
  const std::string threads = GENERATE("0", "1");
  const bool backwards = GENERATE(false, true);
  const Variables more({{"FI_HAWSER_MAX_OPERATIONS", "64"}, {"FI_HAWSER_THREADS", threads}});
  Pair pair;
  Receives receives(2 * kCount);
  // The first kCount receives match one message each, and the others match any message.
  for (std::uint64_t i = 0; i < kCount; ++i) receives.post(pair.b, i, 0);
  for (std::uint64_t i = 0; i < kCount; ++i) receives.post(pair.b, 0, ~std::uint64_t{0});
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::uint64_t tag = backwards ? kCount - 1 - i : i;
    inject(pair, tag, tag);
  }
  for (std::uint64_t i = 0; i < kCount; ++i) inject(pair, i, kCount + i);
  for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
  }
  for (std::uint64_t i = 0; i < 2 * kCount; ++i) {
    INFO(i);
    REQUIRE(receives.buffers[i] == i);
  }
}

TEST_CASE("WaitingReceives__are_cancelled_and_take_their_messages_from_no_peek") {
  const Variables more({{"FI_HAWSER_MAX_OPERATIONS", "64"}});
  Pair pair;
  Receives receives(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) receives.post(pair.b, i, 0);
  inject(pair, kCount, 8);
  // Returns whether there is a message. Receives may end meanwhile.
  const auto peek = [&](std::uint64_t tag) {
    const fi_msg_tagged look{nullptr, nullptr, 0, FI_ADDR_UNSPEC, tag, 0, &receives, 0};
    REQUIRE(fi_trecvmsg(pair.b.ep.get(), &look, FI_PEEK) == 0);
    for (;;) {
      const Entry entry = pair.next_b();
      REQUIRE(entry.answer != -FI_EAGAIN);
      if (entry.answer == 1 && entry.entry.op_context != &receives) continue;
      return entry.answer == 1;
    }
  };
  REQUIRE(pair.until([&] { return peek(kCount); }));
  // Cancel a receive while its message is here. If the receive looks into the store just then, it
  // has the message: try another.
  std::uint64_t tag = kCount;
  ssize_t answer = -FI_ENOENT;
  while (answer != 0) {
    REQUIRE(--tag > 64);
    inject(pair, tag, 7);
    inject(pair, kCount + tag, 8);
    REQUIRE(pair.until([&] { return peek(kCount + tag); }));
    CHECK_FALSE(peek(tag));  // the receive gets it
    answer = fi_cancel(&pair.b.ep->fid, &receives.buffers[tag]);
  }
  Entry cancelled = pair.next_b();
  while (cancelled.answer == 1) cancelled = pair.next_b();
  REQUIRE(cancelled.answer == -FI_EAVAIL);
  CHECK(cancelled.error.err == FI_ECANCELED);
  CHECK(cancelled.error.op_context == &receives.buffers[tag]);
  CHECK(peek(tag));
}

// A look into the store costs time, so there is none right after another.
TEST_CASE("WaitingReceives__are_not_forgotten_by_a_thread_that_sleeps") {
  const Variables more({{"FI_HAWSER_MAX_OPERATIONS", "64"}});
  Pair pair({.wait_obj = FI_WAIT_FD});
  Receives first(1), receives(kCount);
  first.post(pair.b, 0, 0);
  inject(pair, 0, 0);
  REQUIRE(pair.next_b().answer == 1);  // the session has begun
  for (std::uint64_t i = 0; i < kCount; ++i) receives.post(pair.b, i, 0);
  for (std::uint64_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    const std::uint64_t tag = kCount - 1 - i;
    (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);  // reads the acknowledgements
    inject(pair, tag, i);
    fi_cq_tagged_entry entry{};
    REQUIRE(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, kHangLimitMs) == 1);
    CHECK(receives.buffers[tag] == i);
  }
}

// A program can say how many receives it will have.
TEST_CASE("WaitingReceives__a_program_that_asks_for_few_gets_so_many") {
  Pair pair({.receive_count = 100});
  std::uint64_t buffer = 0;
  int posted = 0;
  const auto post = [&] {
    return fi_trecv(pair.b.ep.get(), &buffer, sizeof buffer, nullptr, FI_ADDR_UNSPEC, 1, 0,
                    nullptr);
  };
  while (posted < 1000 && post() == 0) ++posted;
  CHECK(posted == 100);
  CHECK(post() == -FI_EAGAIN);
}

// The other end may wait for a message before it sends any.
TEST_CASE("WaitingReceives__leave_room_for_sends") {
  const Variables more({{"FI_HAWSER_MAX_OPERATIONS", "64"}});
  Pair pair;
  Receives receives(kCount), answers(1);
  for (std::uint64_t i = 0; i < kCount; ++i) receives.post(pair.b, i, 0);
  answers.post(pair.a, 1, 0);
  const std::uint64_t value = 9;
  REQUIRE(fi_tinject(pair.b.ep.get(), &value, sizeof value, pair.to_a, 1) == 0);
  REQUIRE(pair.next_a().answer == 1);
  CHECK(answers.buffers[0] == value);
}

// The posted receives match the messages that come last, and the store is full before those come.
TEST_CASE("WaitingReceives__take_what_fills_the_store") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_MAX_OPERATIONS", "64"},
                        {"FI_HAWSER_MAX_RECEIVE_MESSAGES", "32"},
                        {"FI_HAWSER_THREADS", threads}});
  Pair pair;
  Receives receives(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) receives.post(pair.b, kCount - 1 - i, 0);
  for (std::uint64_t i = 0; i < kCount; ++i) inject(pair, i, kCount - 1 - i);
  for (std::uint64_t i = 0; i < kCount; ++i) REQUIRE(pair.next_b().answer == 1);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    INFO(i);
    REQUIRE(receives.buffers[i] == i);
  }
}
