// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "test/plugin/ofi/one_sided_scene.hpp"

using namespace hawser::test;

namespace {

constexpr std::size_t kBytes = 200000;
constexpr int kRounds = 20;

fi_msg_rma message(const iovec& local, const fi_rma_iov& remote, fi_addr_t to) {
  fi_msg_rma msg{};
  msg.msg_iov = &local;
  msg.iov_count = 1;
  msg.addr = to;
  msg.rma_iov = &remote;
  msg.rma_iov_count = 1;
  return msg;
}

}  // namespace

// Without the fence a read of one packet overtakes a write of many, some of which are lost.
TEST_CASE("Fence__a_fenced_read_finds_what_was_written_before") {
  const Variables more({{"FI_HAWSER_FAULTS", "loss=0.05,seed=3"}});
  Pair pair(one_sided());
  Memory memory(pair.b, kBytes);
  std::uint8_t last = 0;
  const iovec local{&last, 1};
  const fi_rma_iov remote{.addr = memory.address(kBytes - 1), .len = 1, .key = memory.key()};
  const fi_msg_rma read = message(local, remote, pair.to_b);
  for (int i = 1; i <= kRounds; ++i) {
    const std::vector<std::uint8_t> data(kBytes, static_cast<std::uint8_t>(i));
    REQUIRE(fi_write(pair.a.ep.get(), data.data(), kBytes, nullptr, pair.to_b, memory.address(),
                     memory.key(), nullptr) == 0);
    REQUIRE(fi_readmsg(pair.a.ep.get(), &read, FI_FENCE) == 0);
    REQUIRE(pair.next_a().answer == 1);
    REQUIRE(pair.next_a().answer == 1);
    CHECK(last == i);
  }
}

TEST_CASE("Fence__a_fenced_message_and_those_after_it_come_after_the_bytes") {
  const Variables more({{"FI_HAWSER_FAULTS", "loss=0.05,seed=4"}});
  Pair pair(one_sided());
  Memory memory(pair.b, kBytes);
  for (int i = 1; i <= kRounds; ++i) {
    const std::vector<std::uint8_t> data(kBytes, static_cast<std::uint8_t>(i));
    std::array<char, 4> out{};
    REQUIRE(fi_write(pair.a.ep.get(), data.data(), kBytes, nullptr, pair.to_b, memory.address(),
                     memory.key(), nullptr) == 0);
    fi_msg_tagged fenced{};
    fenced.addr = pair.to_b;
    fenced.tag = 1;
    REQUIRE(fi_tsendmsg(pair.a.ep.get(), &fenced, FI_FENCE) == 0);
    // This one has no fence of its own.
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 2) == 0);
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 2, 0, &out) == 0);
    REQUIRE(pair.next_b().answer == 1);
    CHECK(memory.bytes == data);
    REQUIRE(fi_trecv(pair.b.ep.get(), nullptr, 0, nullptr, pair.to_a, 1, 0, &out) == 0);
    REQUIRE(pair.next_b().answer == 1);
    for (int entries = 0; entries < 2; ++entries) REQUIRE(pair.next_a().answer == 1);
  }
}

TEST_CASE("Fence__what_waits_behind_a_fence_ends_with_the_peer") {
  Pair pair(one_sided());
  Memory memory(pair.b, kBytes);
  std::vector<std::uint8_t> data(kBytes);
  const iovec local{data.data(), 1};
  const fi_rma_iov remote{.addr = memory.address(), .len = 1, .key = memory.key()};
  fi_msg_rma write = message(local, remote, pair.to_b);
  REQUIRE(fi_write(pair.a.ep.get(), data.data(), 1, nullptr, pair.to_b, memory.address(),
                   memory.key(), nullptr) == 0);
  REQUIRE(pair.next_a().answer == 1);
  std::array<int, 3> contexts{};
  REQUIRE(fi_write(pair.a.ep.get(), data.data(), kBytes, nullptr, pair.to_b, memory.address(),
                   memory.key(), &contexts[0]) == 0);
  write.context = &contexts[1];
  REQUIRE(fi_writemsg(pair.a.ep.get(), &write, FI_FENCE | FI_COMPLETION) == 0);
  REQUIRE(fi_write(pair.a.ep.get(), data.data(), 1, nullptr, pair.to_b, memory.address(),
                   memory.key(), &contexts[2]) == 0);
  CHECK(fi_cancel(&pair.a.ep->fid, &contexts[2]) == 0);
  memory.region.reset();
  pair.b.ep.reset();
  std::array<int, 3> errors{};
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const Entry entry = pair.a.next();
    REQUIRE(entry.answer == -FI_EAVAIL);
    const auto found = std::ranges::find_if(
        contexts, [&](const int& context) { return entry.error.op_context == &context; });
    REQUIRE(found != contexts.end());
    errors[static_cast<std::size_t>(found - contexts.begin())] = entry.error.err;
  }
  CHECK(errors[1] == FI_ESHUTDOWN);
  CHECK(errors[2] == FI_ECANCELED);
}

TEST_CASE("Fence__an_endpoint_that_did_not_ask_for_fences_has_none") {
  Pair pair({.caps = FI_TAGGED | FI_MSG});
  fi_msg_tagged fenced{};
  fenced.addr = pair.to_b;
  CHECK(fi_tsendmsg(pair.a.ep.get(), &fenced, FI_FENCE) == -FI_EINVAL);
}
