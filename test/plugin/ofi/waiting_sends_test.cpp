// SPDX-License-Identifier: Apache-2.0
// Sends that Hawser has no room for: the provider keeps them.
#include <algorithm>
#include <catch2/catch.hpp>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

constexpr int kMany = 200;

// Each send waits for its receive, so that a peer is full after a few.
NodeOptions delivered(bool counts = false) {
  NodeOptions options;
  options.send_flags = FI_DELIVERY_COMPLETE;
  options.counts = counts;
  return options;
}

std::vector<int> numbers() {
  std::vector<int> all(kMany);
  for (int i = 0; i < kMany; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

}  // namespace

TEST_CASE("WaitingSends__more_than_a_peer_or_Hawser_takes_are_no_matter_and_stay_in_order") {
  const std::string limit = GENERATE("FI_HAWSER_MAX_MESSAGES_PER_PEER", "FI_HAWSER_MAX_OPERATIONS");
  const std::string threads = GENERATE("0", "1");
  const bool to_itself = GENERATE(false, true);
  const bool is_few = limit == "FI_HAWSER_MAX_OPERATIONS";
  const Variables more({{limit, is_few ? "16" : "4"}, {"FI_HAWSER_THREADS", threads}});
  Pair pair(delivered(true));
  fid_ep* const from = pair.a.ep.get();
  const fi_addr_t to = to_itself ? pair.a.insert(pair.a.name()) : pair.to_b;
  Node& receiver = to_itself ? pair.a : pair.b;
  auto sent = numbers();
  std::vector<int> got(kMany, -1);
  for (int& number : sent) REQUIRE(fi_tsend(from, &number, 4, nullptr, to, 1, &number) == 0);
  CHECK(pair.a.next(&pair.b, 20).answer == -FI_EAGAIN);
  int ended = 0;
  for (int i = 0; i < kMany; ++i) {
    int& place = got[static_cast<std::size_t>(i)];
    REQUIRE(pair.until([&] {
      return fi_trecv(receiver.ep.get(), &place, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &place) == 0;
    }));
    // Receive one after the other, as receives count among the operations.
    REQUIRE(pair.until([&] {
      while (pair.a.look().answer == 1) ++ended;
      return fi_cntr_read(receiver.received.get()) == static_cast<std::uint64_t>(i + 1);
    }));
  }
  REQUIRE(pair.until([&] {
    while (pair.a.look().answer == 1) ++ended;
    return ended >= (to_itself ? 2 : 1) * kMany;
  }));
  CHECK(got == sent);
  CHECK(fi_cntr_read(pair.a.sent.get()) == kMany);
}

TEST_CASE("WaitingSends__a_full_peer_holds_up_nobody_else") {
  const Variables more({{"FI_HAWSER_MAX_MESSAGES_PER_PEER", "4"}});
  Pair pair(delivered());
  Node c(delivered());
  const fi_addr_t to_c = pair.a.insert(c.name());
  auto sent = numbers();
  for (int& number : sent) {
    REQUIRE(fi_tsend(pair.a.ep.get(), &number, 4, nullptr, to_c, 1, &number) == 0);
  }
  int got = 0;
  REQUIRE(fi_trecv(pair.b.ep.get(), &got, 4, nullptr, pair.to_a, 1, 0, &got) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), &sent[7], 4, nullptr, pair.to_b, 1, &got) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(pair.next_a().entry.op_context == &got);
  CHECK(got == 7);
}

TEST_CASE("WaitingSends__who_injects_has_his_bytes_back_and_FI_INJECT_COMPLETE_its_entry") {
  const Variables more({{"FI_HAWSER_MAX_MESSAGES_PER_PEER", "4"}});
  const bool is_early = GENERATE(false, true);
  Pair pair;
  int number = 0;
  iovec iov{&number, 4};
  const fi_msg_tagged message{&iov, nullptr, 1, pair.to_b, 1, 0, &number, 0};
  for (number = 0; number < kMany; ++number) {
    REQUIRE((is_early ? fi_tsendmsg(pair.a.ep.get(), &message, FI_INJECT_COMPLETE)
                      : fi_tinject(pair.a.ep.get(), &number, 4, pair.to_b, 1)) == 0);
    if (is_early) CHECK(pair.a.look().answer == 1);
  }
  for (int i = 0; i < kMany; ++i) {
    int got = -1;
    REQUIRE(fi_trecv(pair.b.ep.get(), &got, 4, nullptr, pair.to_a, 1, 0, &got) == 0);
    REQUIRE(pair.next_b().answer == 1);
    REQUIRE(got == i);
  }
  CHECK(pair.a.next(&pair.b, 20).answer == -FI_EAGAIN);
}

// A program can say how many sends it will have. Others get as many as there is memory for, because
// libraries may not be ready for -FI_EAGAIN.
TEST_CASE("WaitingSends__a_program_that_asks_for_few_gets_so_many_and_others_get_more") {
  NodeOptions options = delivered();
  options.send_count = GENERATE(100u, 0u);
  Pair pair(options);
  const int most = options.send_count == 0 ? 70000 : 100;
  const int value = 5;
  const auto send = [&] {
    return fi_tsend(pair.a.ep.get(), &value, sizeof value, nullptr, pair.to_b, 1, nullptr);
  };
  int sent = 0;
  while (sent < most && send() == 0) ++sent;
  REQUIRE(sent == most);
  if (options.send_count == 0) return;
  CHECK(send() == -FI_EAGAIN);
}

TEST_CASE("WaitingSends__one_that_waits_is_cancelled_like_any_other") {
  const Variables more({{"FI_HAWSER_MAX_MESSAGES_PER_PEER", "4"}});
  Pair pair(delivered());
  auto sent = numbers();
  for (int& number : sent) {
    REQUIRE(fi_tsend(pair.a.ep.get(), &number, 4, nullptr, pair.to_b, 1, &number) == 0);
  }
  REQUIRE(fi_cancel(&pair.a.ep->fid, &sent[100]) == 0);
  const Entry entry = pair.a.look();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ECANCELED);
  CHECK(entry.error.op_context == &sent[100]);
  CHECK(entry.error.buf == nullptr);
  CHECK(fi_cancel(&pair.a.ep->fid, &sent[100]) == -FI_ENOENT);
  for (int i = 0; i < kMany; ++i) {
    if (i == 100) continue;
    int got = -1;
    REQUIRE(fi_trecv(pair.b.ep.get(), &got, 4, nullptr, pair.to_a, 1, 0, &got) == 0);
    REQUIRE(pair.next_b().answer == 1);
    REQUIRE(got == i);
    REQUIRE(pair.next_a().answer == 1);
  }
}

TEST_CASE("WaitingSends__a_peer_that_closes_ends_those_that_wait_for_it") {
  const Variables more({{"FI_HAWSER_MAX_MESSAGES_PER_PEER", "4"}});
  Pair pair(delivered(true));
  auto sent = numbers();
  // The first message connects them.
  int got = -1;
  REQUIRE(fi_trecv(pair.b.ep.get(), &got, 4, nullptr, pair.to_a, 0, 0, &got) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), &sent[0], 4, pair.to_b, 0) == 0);
  REQUIRE(pair.next_b().answer == 1);
  for (int& number : sent) {
    REQUIRE(fi_tsend(pair.a.ep.get(), &number, 4, nullptr, pair.to_b, 1, &number) == 0);
  }
  CHECK(pair.a.next(&pair.b, 20).answer == -FI_EAGAIN);
  pair.b.ep.reset();
  for (int i = 0; i < kMany; ++i) {
    const Entry entry = pair.a.next();
    REQUIRE(entry.answer == -FI_EAVAIL);
    REQUIRE(entry.error.err == FI_ESHUTDOWN);
    REQUIRE(entry.error.buf == nullptr);
  }
  CHECK(fi_cntr_readerr(pair.a.sent.get()) == kMany);
}

TEST_CASE("WaitingSends__those_of_an_endpoint_that_closes_are_dropped") {
  // If closing waited for these sends, it would wait for longer than the limit.
  const Variables more(
      {{"FI_HAWSER_MAX_MESSAGES_PER_PEER", "4"}, {"FI_HAWSER_PEER_TIMEOUT_MS", "600000"}});
  Pair pair(delivered());
  auto sent = numbers();
  for (int& number : sent) {
    REQUIRE(fi_tsend(pair.a.ep.get(), &number, 4, nullptr, pair.to_b, 1, &number) == 0);
  }
  const HangLimit limit;
  pair.a.ep.reset();
  CHECK_FALSE(limit.is_over());
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}
