// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

TEST_CASE("Completion__delivered_and_matched_wait_for_a_receive_transmitted_does_not") {
  const std::uint64_t level =
      GENERATE(0ull, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE);
  Pair pair({.send_flags = level});
  std::array<char, 4> in{"abc"}, out{};
  REQUIRE(fi_tsend(pair.a.ep.get(), in.data(), 4, nullptr, pair.to_b, 1, &in) == 0);
  if (level == 0 || level == FI_TRANSMIT_COMPLETE) {
    CHECK(pair.next_a().answer == 1);
    return;
  }
  CHECK(pair.a.next(&pair.b, 100).answer == -FI_EAGAIN);
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  CHECK(pair.next_a().entry.op_context == &in);
}

TEST_CASE("Completion__gives_a_short_buffer_back_at_once_unless_it_is_to_tell_of_the_peer") {
  const std::uint64_t level = GENERATE(0ull, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE);
  const std::size_t bytes = GENERATE(0u, 16384u, 16385u);
  const bool is_met = GENERATE(false, true);
  Pair pair;
  if (is_met) {
    char got = 0;
    REQUIRE(fi_trecv(pair.b.ep.get(), &got, 1, nullptr, pair.to_a, 2, 0, &got) == 0);
    REQUIRE(fi_tsend(pair.a.ep.get(), "a", 1, nullptr, pair.to_b, 2, nullptr) == 0);
    REQUIRE(pair.next_b().answer == 1);
    REQUIRE(pair.next_a().answer == 1);
  }
  const bool is_early = bytes <= 16384 && (level == FI_INJECT_COMPLETE || (level == 0 && is_met));
  auto data = pattern(bytes, 1);
  const auto sent = data;
  std::vector<std::uint8_t> out(bytes);
  iovec iov{data.data(), bytes};
  const fi_msg_tagged message{&iov, nullptr, 1, pair.to_b, 1, 0, &data, 0};
  REQUIRE(fi_tsendmsg(pair.a.ep.get(), &message, level) == 0);
  const Entry early = pair.a.look();
  CHECK(early.answer == (is_early ? 1 : -FI_EAGAIN));
  if (early.answer != 1) {
    REQUIRE(pair.next_a().answer == 1);
  } else {
    CHECK(early.entry.op_context == &data);
  }
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), bytes, nullptr, pair.to_a, 1, 0, &out) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(out == sent);
  CHECK(pair.a.next(&pair.b, 20).answer == -FI_EAGAIN);  // one entry, not two
}

TEST_CASE("Completion__selective_what_doesn_t_ask_for_an_entry_has_none") {
  const bool by_default = GENERATE(false, true);
  Pair pair({.send_flags = by_default ? FI_COMPLETION : 0, .bind_flags = FI_SELECTIVE_COMPLETION});
  std::array<char, 4> in{"abc"}, out{};
  iovec to{out.data(), 4};
  const fi_msg_tagged receive{&to, nullptr, 1, pair.to_a, 1, 0, &out, 0};
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, nullptr) == 0);
  REQUIRE(fi_trecvmsg(pair.b.ep.get(), &receive, FI_COMPLETION) == 0);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(fi_tsend(pair.a.ep.get(), in.data(), 4, nullptr, pair.to_b, 1, &in) == 0);
  }
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &out);
  CHECK(pair.b.next(&pair.a, 20).answer == -FI_EAGAIN);
  for (int i = 0; i < 2; ++i) {
    CHECK(pair.a.next(&pair.b, by_default ? kHangLimitMs : 20).answer ==
          (by_default ? 1 : -FI_EAGAIN));
  }
  iovec from{in.data(), 4};
  const fi_msg_tagged send{&from, nullptr, 1, pair.to_b, 1, 0, &in, 0};
  REQUIRE(fi_tsendmsg(pair.a.ep.get(), &send, FI_COMPLETION) == 0);
  CHECK(pair.next_a().answer == 1);
  // An error always gives an entry.
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 1, nullptr, pair.to_a, 1, 0, nullptr) == 0);
  CHECK(pair.next_b().error.err == FI_ETRUNC);
}

// The acknowledgement of the message can then ride on the program's next call, mostly an answer.
TEST_CASE("Completion__who_reads_until_nothing_is_left_makes_no_turn_by_that") {
  Pair pair;
  std::array<char, 4> out{};
  for (int i = 0; i < 10; ++i) {
    for (int receive = 0; receive < 2; ++receive) {
      REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, nullptr) == 0);
    }
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
    REQUIRE(pair.next_b().answer == 1);
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
    CHECK(pair.b.look().answer == -FI_EAGAIN);
    REQUIRE(pair.next_b().answer == 1);
  }
}

TEST_CASE("Completion__counters_count_everything_entries_or_none_errors_apart") {
  Pair pair({.bind_flags = FI_SELECTIVE_COMPLETION, .counts = true});
  std::array<char, 4> out{};
  for (int i = 0; i < 3; ++i) {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), i == 2 ? 1 : 4, nullptr, pair.to_a, 1, 0,
                     nullptr) == 0);
  }
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), "abc", 4, nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(pair.until([&] { return fi_cntr_read(pair.b.received.get()) == 2; }));
  REQUIRE(pair.until([&] { return fi_cntr_read(pair.a.sent.get()) == 2; }));
  CHECK(fi_cntr_readerr(pair.b.received.get()) == 0);
  CHECK(fi_cntr_wait(pair.a.sent.get(), 2, 0) == 0);
  CHECK(fi_cntr_wait(pair.a.sent.get(), 3, 10) == -FI_ETIMEDOUT);
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  REQUIRE(pair.until([&] { return fi_cntr_readerr(pair.b.received.get()) == 1; }));
  CHECK(fi_cntr_read(pair.b.received.get()) == 2);
  REQUIRE(pair.until([&] { return fi_cntr_read(pair.a.sent.get()) == 3; }));
  REQUIRE(fi_cntr_set(pair.a.sent.get(), 10) == 0);
  REQUIRE(fi_cntr_add(pair.a.sent.get(), 5) == 0);
  CHECK(fi_cntr_read(pair.a.sent.get()) == 15);
  REQUIRE(fi_cntr_seterr(pair.a.sent.get(), 2) == 0);
  REQUIRE(fi_cntr_adderr(pair.a.sent.get(), 1) == 0);
  CHECK(fi_cntr_readerr(pair.a.sent.get()) == 3);
}

TEST_CASE("Completion__an_error_stands_before_what_comes_after_it") {
  Pair pair;
  std::array<char, 4> out{};
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  REQUIRE(fi_cancel(&pair.b.ep->fid, &out) == 0);
  fi_cq_tagged_entry entry{};
  fi_cq_err_entry error{};
  REQUIRE(pair.until([&] { return fi_cq_read(pair.b.cq.get(), &entry, 1) == -FI_EAVAIL; }));
  CHECK(fi_cq_read(pair.b.cq.get(), &entry, 1) == -FI_EAVAIL);
  // A program that expects no data leaves these two fields unset. No data must come.
  auto* const nowhere = reinterpret_cast<void*>(0x1234);
  error.err_data = nowhere;
  error.err_data_size = 1000;
  CHECK(fi_cq_readerr(pair.b.cq.get(), &error, 0) == 1);
  CHECK(error.err_data == nowhere);
  CHECK(error.err_data_size == 0);
  CHECK(fi_cq_readerr(pair.b.cq.get(), &error, 0) == -FI_EAGAIN);
  CHECK(fi_cq_read(pair.b.cq.get(), &entry, 1) == -FI_EAGAIN);
  std::array<char, 64> name{};
  CHECK(std::string(fi_cq_strerror(pair.b.cq.get(), error.prov_errno, nowhere, name.data(), 64)) ==
        "cancelled");
}

TEST_CASE("Completion__entries_of_every_format") {
  const fi_cq_format format = GENERATE(FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA);
  Pair pair;
  fi_cq_attr attr{};
  attr.format = format;
  fid_cq* opened = nullptr;
  REQUIRE(fi_cq_open(pair.b.domain.get(), &attr, &opened, nullptr) == 0);
  Owned<fid_cq> cq(opened);
  fid_ep* opened_ep = nullptr;
  REQUIRE(fi_endpoint(pair.b.domain.get(), pair.b.info.get(), &opened_ep, nullptr) == 0);
  Owned<fid_ep> ep(opened_ep);
  REQUIRE(fi_ep_bind(ep.get(), &pair.b.av->fid, 0) == 0);
  REQUIRE(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
  REQUIRE(fi_enable(ep.get()) == 0);
  std::array<char, 4> in{"abc"}, out{};
  REQUIRE(fi_trecv(pair.a.ep.get(), out.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &out) == 0);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(fi_tsend(ep.get(), in.data(), 4, nullptr, pair.to_a, 1, &in) == 0);
  }
  // Read up to two entries at a time into adjacent places.
  std::array<std::uint64_t, 16> raw{};
  std::size_t found = 0;
  const std::size_t words = format == FI_CQ_FORMAT_CONTEXT ? 1 : format == FI_CQ_FORMAT_MSG ? 3 : 5;
  REQUIRE(pair.until([&] {
    const ssize_t n = fi_cq_read(cq.get(), raw.data() + found * words, 2 - found);
    if (n > 0) found += static_cast<std::size_t>(n);
    return found == 2;
  }));
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(raw[i * words] == reinterpret_cast<std::uintptr_t>(&in));
    if (words > 1) CHECK(raw[i * words + 1] == (FI_SEND | FI_TAGGED));
  }
}

TEST_CASE("Completion__a_sender_does_not_wait_for_what_the_receiver_calls_after_its_own") {
  const std::size_t bytes = GENERATE(8u, 5000u, 500000u);
  const std::uint64_t level = GENERATE(FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE);
  Pair pair({.send_flags = level});
  const auto data = pattern(bytes, 1);
  std::vector<std::uint8_t> out(bytes);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), bytes, nullptr, pair.to_a, 1, 0, &out) == 0);
    REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), bytes, nullptr, pair.to_b, 1, nullptr) == 0);
    // After `b` has its entry it makes no more calls.
    for (const HangLimit limit; pair.b.look().answer != 1 && !limit.is_over();) {
      (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
    }
    REQUIRE(pair.a.next().answer == 1);
  }
}

TEST_CASE("Completion__a_message_leaves_in_its_call_unless_it_is_told_to_wait") {
  const std::string flush = GENERATE("1", "0");
  const Variables more({{"FI_HAWSER_FLUSH", flush}});
  Pair pair;
  std::array<std::array<char, 4>, 3> out{};
  for (auto& buffer : out) {
    REQUIRE(fi_trecv(pair.b.ep.get(), buffer.data(), 4, nullptr, pair.to_a, 1, 0, &buffer) == 0);
  }
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  REQUIRE(pair.next_b().answer == 1);
  // From here on nothing polls `a`.
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  CHECK(pair.b.next(nullptr, flush == "1" ? kHangLimitMs : 30).answer ==
        (flush == "1" ? 1 : -FI_EAGAIN));
  iovec iov{out[0].data(), 4};
  const fi_msg_tagged message{&iov, nullptr, 1, pair.to_b, 1, 0, nullptr, 0};
  REQUIRE(fi_tsendmsg(pair.a.ep.get(), &message, FI_INJECT | FI_MORE) == 0);
  CHECK(pair.b.next(nullptr, 30).answer == -FI_EAGAIN);
  REQUIRE(pair.next_b().answer == 1);
}
