// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

TEST_CASE("Message__untagged_messages_don_t_meet_tagged_ones") {
  Pair pair;
  std::array<char, 8> tagged{}, untagged{};
  REQUIRE(fi_trecv(pair.b.ep.get(), tagged.data(), 8, nullptr, pair.to_a, 0, ~0ull, &tagged) == 0);
  REQUIRE(fi_recv(pair.b.ep.get(), untagged.data(), 8, nullptr, pair.to_a, &untagged) == 0);
  REQUIRE(fi_inject(pair.a.ep.get(), "without", 8, pair.to_b) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "withtag", 8, pair.to_b, 0) == 0);
  for (int i = 0; i < 2; ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    const bool is_tagged = entry.entry.op_context == &tagged;
    CHECK(entry.entry.flags == (FI_RECV | (is_tagged ? FI_TAGGED : FI_MSG)));
  }
  CHECK(std::string(untagged.data()) == "without");
  CHECK(std::string(tagged.data()) == "withtag");
}

TEST_CASE("Message__every_call_that_sends_and_receives") {
  Pair pair;
  std::array<std::array<char, 8>, 5> out{};
  std::array<char, 8> in{"abcdefg"};
  iovec from{in.data(), 8};
  fid_ep* const a = pair.a.ep.get();
  fid_ep* const b = pair.b.ep.get();
  fi_msg send{&from, nullptr, 1, pair.to_b, &in, 3};
  REQUIRE(fi_recv(b, out[0].data(), 8, nullptr, pair.to_a, &out[0]) == 0);
  iovec one{out[1].data(), 8}, two{out[2].data(), 8};
  REQUIRE(fi_recvv(b, &one, nullptr, 1, pair.to_a, &out[1]) == 0);
  fi_msg receive{&two, nullptr, 1, FI_ADDR_UNSPEC, &out[2], 0};
  REQUIRE(fi_recvmsg(b, &receive, FI_COMPLETION) == 0);
  REQUIRE(fi_recv(b, out[3].data(), 8, nullptr, FI_ADDR_UNSPEC, &out[3]) == 0);
  REQUIRE(fi_recv(b, out[4].data(), 8, nullptr, FI_ADDR_UNSPEC, &out[4]) == 0);
  REQUIRE(fi_send(a, in.data(), 8, nullptr, pair.to_b, nullptr) == 0);
  REQUIRE(fi_sendv(a, &from, nullptr, 1, pair.to_b, nullptr) == 0);
  REQUIRE(fi_sendmsg(a, &send, FI_REMOTE_CQ_DATA) == 0);
  REQUIRE(fi_senddata(a, in.data(), 8, nullptr, 4, pair.to_b, nullptr) == 0);
  REQUIRE(fi_injectdata(a, in.data(), 8, 5, pair.to_b) == 0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    const bool has_data = entry.entry.op_context != &out[0] && entry.entry.op_context != &out[1];
    CHECK(((entry.entry.flags & FI_REMOTE_CQ_DATA) != 0) == has_data);
  }
  for (const auto& buffer : out) CHECK(std::string(buffer.data()) == "abcdefg");
  for (int i = 0; i < 4; ++i) CHECK(pair.next_a().answer == 1);
  const std::array<iovec, 9> many{};
  CHECK(fi_sendv(a, many.data(), nullptr, 9, pair.to_b, nullptr) == -FI_EINVAL);
  CHECK(fi_recvmsg(b, &receive, FI_PEEK) == -FI_EINVAL);
}

TEST_CASE("Message__what_is_too_long_to_be_injected_is_refused") {
  Pair pair;
  const std::size_t limit = pair.a.info->tx_attr->inject_size;
  const auto data = pattern(limit + 1, 1);
  std::vector<std::uint8_t> out(limit);
  CHECK(fi_inject(pair.a.ep.get(), data.data(), limit + 1, pair.to_b) == -FI_EMSGSIZE);
  CHECK(fi_tinject(pair.a.ep.get(), data.data(), limit + 1, pair.to_b, 1) == -FI_EMSGSIZE);
  REQUIRE(fi_inject(pair.a.ep.get(), data.data(), limit, pair.to_b) == 0);
  REQUIRE(fi_recv(pair.b.ep.get(), out.data(), limit, nullptr, pair.to_a, nullptr) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(std::equal(out.begin(), out.end(), data.begin()));
  CHECK(fi_send(pair.a.ep.get(), data.data(), ~std::size_t{0}, nullptr, pair.to_b, nullptr) ==
        -FI_EMSGSIZE);
}
