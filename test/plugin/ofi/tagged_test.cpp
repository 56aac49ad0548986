// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

constexpr std::uint64_t kTag = 0x123456789abcdef0;

}  // namespace

TEST_CASE("Tagged__a_message_of_any_size_arrives_whichever_of_both_comes_first") {
  Pair pair;
  const std::size_t bytes = GENERATE(0u, 1u, 4096u, 65537u, 3000001u);
  const bool receive_first = GENERATE(true, false);
  const auto data = pattern(bytes, 3);
  std::vector<std::uint8_t> out(bytes + 1, 0xee);
  int sent = 0, received = 0;
  const auto receive = [&] {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), bytes, nullptr, pair.to_a, kTag, 0, &received) ==
            0);
  };
  if (receive_first) receive();
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), bytes, nullptr, pair.to_b, kTag, &sent) == 0);
  // Without a posted receive the peer stores as much as a sender may send unasked.
  if (!receive_first && bytes <= 65536) REQUIRE(pair.next_a().answer == 1);
  if (!receive_first) receive();
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &received);
  CHECK(entry.entry.flags == (FI_RECV | FI_TAGGED));
  CHECK(entry.entry.len == bytes);
  CHECK(entry.entry.tag == kTag);
  CHECK(entry.source == pair.to_a);
  CHECK(std::equal(data.begin(), data.end(), out.begin()));
  CHECK(out.back() == 0xee);
  if (receive_first || bytes > 65536) {
    const Entry end = pair.next_a();
    REQUIRE(end.answer == 1);
    CHECK(end.entry.op_context == &sent);
    CHECK(end.entry.flags == (FI_SEND | FI_TAGGED));
  }
}

TEST_CASE("Tagged__ignored_bits_match_anything_others_don_t") {
  Pair pair;
  std::array<char, 8> one{}, two{};
  REQUIRE(fi_trecv(pair.b.ep.get(), one.data(), 8, nullptr, FI_ADDR_UNSPEC, 0x10, 0x0f, &one) == 0);
  REQUIRE(fi_trecv(pair.b.ep.get(), two.data(), 8, nullptr, FI_ADDR_UNSPEC, 0, ~0ull, &two) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "2222222", 8, pair.to_b, 0x20) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "1111111", 8, pair.to_b, 0x1a) == 0);
  for (int i = 0; i < 2; ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    CHECK(entry.entry.tag == (entry.entry.op_context == &one ? 0x1a : 0x20));
  }
  CHECK(std::string(one.data()) == "1111111");
  CHECK(std::string(two.data()) == "2222222");
}

TEST_CASE("Tagged__a_directed_receive_waits_for_its_peer_a_wildcard_says_who_it_was") {
  Pair pair;
  Node c;
  const fi_addr_t c_to_b = c.insert(pair.b.name());
  const fi_addr_t b_to_c = pair.b.insert(c.name());
  std::array<char, 4> from_c{}, from_any{};
  REQUIRE(fi_trecv(pair.b.ep.get(), from_c.data(), 4, nullptr, b_to_c, 1, 0, &from_c) == 0);
  REQUIRE(fi_trecv(pair.b.ep.get(), from_any.data(), 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &from_any) ==
          0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "aaa", 4, pair.to_b, 1) == 0);
  const Entry any = pair.next_b();
  REQUIRE(any.answer == 1);
  CHECK(any.entry.op_context == &from_any);
  CHECK(any.source == pair.to_a);
  REQUIRE(fi_tinject(c.ep.get(), "ccc", 4, c_to_b, 1) == 0);
  const Entry directed = pair.b.next(&c);
  REQUIRE(directed.answer == 1);
  CHECK(directed.entry.op_context == &from_c);
  CHECK(directed.source == b_to_c);
}

TEST_CASE("Tagged__remote_data_is_told_where_there_is_any_and_only_there") {
  Pair pair;
  const std::uint64_t data = GENERATE(0u, 0xffffffffu);
  std::array<char, 4> one{}, two{}, three{};
  for (auto* buffer : {&one, &two, &three}) {
    REQUIRE(fi_trecv(pair.b.ep.get(), buffer->data(), 4, nullptr, pair.to_a, 1, 0, buffer) == 0);
  }
  REQUIRE(fi_tsenddata(pair.a.ep.get(), "abc", 4, nullptr, data, pair.to_b, 1, nullptr) == 0);
  REQUIRE(fi_tinjectdata(pair.a.ep.get(), "def", 4, data, pair.to_b, 1) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "ghi", 4, pair.to_b, 1) == 0);
  for (int i = 0; i < 3; ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    const bool has_data = entry.entry.op_context != &three;
    CHECK(((entry.entry.flags & FI_REMOTE_CQ_DATA) != 0) == has_data);
    if (has_data) CHECK(entry.entry.data == data);
  }
}

TEST_CASE("Tagged__fi_tsendmsg_and_fi_trecvmsg_one_iovec_or_none") {
  Pair pair;
  std::array<char, 8> in{"message"}, out{};
  iovec from{in.data(), 8}, to{out.data(), 8};
  fi_msg_tagged send{&from, nullptr, 1, pair.to_b, 9, 0, &in, 77};
  fi_msg_tagged receive{&to, nullptr, 1, pair.to_a, 9, 0, &out, 0};
  REQUIRE(fi_trecvmsg(pair.b.ep.get(), &receive, 0) == 0);
  REQUIRE(fi_tsendmsg(pair.a.ep.get(), &send, FI_REMOTE_CQ_DATA | FI_INJECT) == 0);
  in.fill('x');  // after an inject the buffer is free
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.data == 77);
  CHECK(std::string(out.data()) == "message");
  CHECK(pair.next_a().entry.op_context == &in);
  send.iov_count = 9;  // beyond iov_limit
  CHECK(fi_tsendmsg(pair.a.ep.get(), &send, 0) == -FI_EINVAL);
  receive.iov_count = 9;
  CHECK(fi_trecvmsg(pair.b.ep.get(), &receive, 0) == -FI_EINVAL);
  send.iov_count = receive.iov_count = 0;
  REQUIRE(fi_trecvmsg(pair.b.ep.get(), &receive, 0) == 0);
  REQUIRE(fi_tsendmsg(pair.a.ep.get(), &send, 0) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(fi_tsendmsg(pair.a.ep.get(), &send, FI_FENCE) == -FI_EINVAL);
}

TEST_CASE("Tagged__a_message_that_is_too_long_is_truncated_and_says_by_how_much") {
  Pair pair;
  const auto data = pattern(1000, 1);
  std::vector<std::uint8_t> out(1000, 0xee);
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 300, nullptr, pair.to_a, 5, 0, &out) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), 1000, nullptr, pair.to_b, 5, nullptr) == 0);
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ETRUNC);
  CHECK(entry.error.op_context == &out);
  CHECK(entry.error.len == 300);
  CHECK(entry.error.olen == 700);
  CHECK(entry.text == "truncated");
  CHECK(std::equal(out.begin(), out.begin() + 300, data.begin()));
  CHECK(out[300] == 0xee);
  CHECK(pair.next_a().answer == 1);  // it was sent
}

TEST_CASE("Tagged__a_receive_is_cancelled_by_its_context_what_is_not_there_is_not") {
  Pair pair;
  std::array<char, 4> out{};
  int nobody = 0;
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 5, 0, &out) == 0);
  CHECK(fi_cancel(&pair.b.ep->fid, &nobody) == -FI_ENOENT);
  REQUIRE(fi_cancel(&pair.b.ep->fid, &out) == 0);
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ECANCELED);
  CHECK(entry.error.op_context == &out);
  CHECK(fi_cancel(&pair.b.ep->fid, &out) == -FI_ENOENT);
  // The message goes to the next receive.
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 5) == 0);
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 5, 0, &out) == 0);
  CHECK(pair.next_b().answer == 1);
}

TEST_CASE("Tagged__a_send_nobody_wants_can_be_cancelled") {
  Pair pair({.send_flags = FI_DELIVERY_COMPLETE});
  std::array<char, 4> in{"abc"}, out{};
  REQUIRE(fi_tsend(pair.a.ep.get(), in.data(), 4, nullptr, pair.to_b, 5, &in) == 0);
  CHECK(pair.a.next(&pair.b, 50).answer == -FI_EAGAIN);
  REQUIRE(fi_cancel(&pair.a.ep->fid, &in) == 0);
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ECANCELED);
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 5, 0, &out) == 0);
  CHECK(pair.b.next(&pair.a, 50).answer == -FI_EAGAIN);
}

TEST_CASE("Tagged__messages_of_one_sender_match_in_the_order_of_sending") {
  Pair pair;
  std::array<std::uint32_t, 500> out{};
  for (std::uint32_t& value : out) {
    REQUIRE(fi_trecv(pair.b.ep.get(), &value, 4, nullptr, FI_ADDR_UNSPEC, 1, 0, &value) == 0);
  }
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    ssize_t answer = -FI_EAGAIN;
    REQUIRE(pair.until([&] {
      answer = fi_tinject(pair.a.ep.get(), &i, 4, pair.to_b, 1);
      return answer != -FI_EAGAIN;
    }));
    REQUIRE(answer == 0);
  }
  for (std::size_t i = 0; i < out.size(); ++i) REQUIRE(pair.next_b().answer == 1);
  for (std::uint32_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == i);
}

TEST_CASE("Tagged__an_endpoint_sends_to_itself_in_order_with_the_others") {
  Pair pair;
  const fi_addr_t self = pair.a.insert(pair.a.name());
  const std::size_t bytes = GENERATE(4u, 300000u);
  const auto data = pattern(bytes, 9);
  std::vector<std::uint8_t> out(bytes), directed(bytes);
  REQUIRE(fi_trecv(pair.a.ep.get(), directed.data(), bytes, nullptr, self, 1, 0, &directed) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), bytes, nullptr, self, 1, nullptr) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), bytes, nullptr, self, 2, nullptr) == 0);
  REQUIRE(fi_trecv(pair.a.ep.get(), out.data(), bytes, nullptr, FI_ADDR_UNSPEC, 2, 0, &out) == 0);
  for (int i = 0; i < 4; ++i) {
    const Entry entry = pair.next_a();
    REQUIRE(entry.answer == 1);
    if ((entry.entry.flags & FI_RECV) != 0) CHECK(entry.source == self);
  }
  CHECK(out == data);
  CHECK(directed == data);
}

TEST_CASE("Tagged__a_full_pool_of_operations_is_again_and_passes") {
  Pair pair({.send_count = 64});
  std::array<char, 4> in{"abc"};
  ssize_t answer = 0;
  int taken = 0;
  while (answer == 0) {
    answer = fi_tsend(pair.a.ep.get(), in.data(), 4, nullptr, pair.to_b, 1, &in);
    if (answer == 0) ++taken;
  }
  CHECK(answer == -FI_EAGAIN);
  CHECK(taken == 64);
  for (int i = 0; i < taken; ++i) REQUIRE(pair.next_a().answer == 1);
  CHECK(fi_tsend(pair.a.ep.get(), in.data(), 4, nullptr, pair.to_b, 1, &in) == 0);
}
