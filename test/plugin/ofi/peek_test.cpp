// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

ssize_t peek(Pair& pair, std::uint64_t tag, std::uint64_t flags, void* context,
             iovec* iov = nullptr) {
  fi_msg_tagged message{iov, nullptr, iov == nullptr ? 0u : 1u, pair.to_a, tag, 0, context, 0};
  return fi_trecvmsg(pair.b.ep.get(), &message, flags);
}

// Peeks until the message is there.
Entry found(Pair& pair, std::uint64_t tag, std::uint64_t flags, void* context) {
  for (const HangLimit limit;;) {
    REQUIRE(peek(pair, tag, FI_PEEK | flags, context) == 0);
    const Entry entry = pair.next_b();
    if (entry.answer == 1 || limit.is_over()) return entry;
    REQUIRE(entry.answer == -FI_EAVAIL);
    REQUIRE(entry.error.err == FI_ENOMSG);
    REQUIRE(entry.error.op_context == context);
    (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
  }
}

}  // namespace

TEST_CASE("Peek__what_is_not_there_is_an_error_entry_what_is_stays_there") {
  Pair pair;
  fi_context context{};
  std::array<char, 8> out{};
  REQUIRE(peek(pair, 1, FI_PEEK, &context) == 0);
  const Entry none = pair.next_b();
  REQUIRE(none.answer == -FI_EAVAIL);
  CHECK(none.error.err == FI_ENOMSG);
  CHECK(none.error.op_context == &context);
  CHECK(none.text.find("no matching message") != std::string::npos);
  REQUIRE(fi_tinjectdata(pair.a.ep.get(), "abcdefg", 8, 5, pair.to_b, 1) == 0);
  for (int i = 0; i < 2; ++i) {
    const Entry entry = found(pair, 1, 0, &context);
    REQUIRE(entry.answer == 1);
    CHECK(entry.entry.len == 8);
    CHECK(entry.entry.tag == 1);
    CHECK(entry.entry.data == 5);
    CHECK((entry.entry.flags & FI_REMOTE_CQ_DATA) != 0);
    CHECK(entry.source == pair.to_a);
  }
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 8, nullptr, pair.to_a, 1, 0, &out) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(std::string(out.data()) == "abcdefg");
}

TEST_CASE("Peek__a_claimed_message_is_for_who_claimed_it") {
  Pair pair;
  fi_context first{}, second{};
  const std::size_t bytes = GENERATE(8u, 200000u);
  const auto data = pattern(bytes, 4), later = pattern(bytes, 5);
  std::vector<std::uint8_t> out(bytes), other(bytes);
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), bytes, nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), later.data(), bytes, nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(found(pair, 1, FI_CLAIM, &first).answer == 1);
  // A matching receive gets the next message.
  REQUIRE(fi_trecv(pair.b.ep.get(), other.data(), bytes, nullptr, pair.to_a, 1, 0, &other) == 0);
  CHECK(pair.next_b().entry.op_context == &other);
  CHECK(other == later);
  iovec iov{out.data(), bytes};
  CHECK(peek(pair, 1, FI_CLAIM, &second, &iov) == -FI_EINVAL);  // this context claimed nothing
  REQUIRE(peek(pair, 1, FI_CLAIM, &first, &iov) == 0);
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &first);
  CHECK(entry.entry.len == bytes);
  CHECK(out == data);
  CHECK(peek(pair, 1, FI_CLAIM, &first, &iov) == -FI_EINVAL);  // it was received already
}

TEST_CASE("Peek__discarding_at_once_or_after_a_claim") {
  Pair pair({.send_flags = FI_DELIVERY_COMPLETE});
  fi_context context{};
  const bool claims = GENERATE(false, true);
  const auto data = pattern(100000, 4);
  std::array<char, 4> out{};
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), "end", 4, nullptr, pair.to_b, 1, nullptr) == 0);
  Entry entry = found(pair, 1, claims ? FI_CLAIM : FI_DISCARD, &context);
  if (claims) {
    REQUIRE(entry.answer == 1);
    REQUIRE(peek(pair, 1, FI_CLAIM | FI_DISCARD, &context) == 0);
    entry = pair.next_b();
  }
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &context);
  CHECK(entry.entry.len == data.size());
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  CHECK(pair.next_b().entry.op_context == &out);
  CHECK(std::string(out.data()) == "end");
  CHECK(pair.next_a().answer == 1);
  CHECK(pair.next_a().answer == 1);
  CHECK(peek(pair, 1, FI_DISCARD, &context) == -FI_EINVAL);  // nothing is claimed
}

TEST_CASE("Peek__a_claim_of_a_message_that_can_never_be_whole_is_used_up") {
  Pair pair;
  fi_context context{};
  std::array<char, 4> never{}, out{};
  const auto data = pattern(16000000, 5);  // more than comes in a turn
  REQUIRE(fi_trecv(pair.b.ep.get(), never.data(), 4, nullptr, pair.to_a, 9, 0, &never) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, 1, nullptr) == 0);
  REQUIRE(found(pair, 1, FI_CLAIM, &context).answer == 1);
  pair.a.ep.reset();
  REQUIRE(pair.b.next().error.op_context == &never);  // the session has ended
  iovec iov{out.data(), 4};
  CHECK(peek(pair, 1, FI_CLAIM, &context, &iov) == -FI_ENOENT);
  CHECK(peek(pair, 1, FI_CLAIM, &context, &iov) == -FI_EINVAL);  // nothing is claimed
  // The next claim with this context is found.
  const fi_addr_t self = pair.b.insert(pair.b.name());
  REQUIRE(fi_tinject(pair.b.ep.get(), "abc", 4, self, 1) == 0);
  const fi_msg_tagged look{nullptr, nullptr, 0, self, 1, 0, &context, 0};
  Entry entry;
  for (const HangLimit limit; entry.answer != 1 && !limit.is_over();) {
    REQUIRE(fi_trecvmsg(pair.b.ep.get(), &look, FI_PEEK | FI_CLAIM) == 0);
    entry = pair.b.next();
  }
  REQUIRE(entry.answer == 1);
  REQUIRE(peek(pair, 1, FI_CLAIM, &context, &iov) == 0);
  CHECK(pair.b.next().answer == 1);
  CHECK(std::string(out.data()) == "abc");
}
