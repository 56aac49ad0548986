// SPDX-License-Identifier: Apache-2.0
// fi_enable ends the start. After it, and after a peer's first message, nothing comes from the
// heap.
#include <catch2/catch.hpp>

#include "test/plugin/ofi/one_sided_scene.hpp"
#include "test/support/heap_guard.hpp"

using namespace hawser::test;

namespace {

constexpr int kRounds = 50;
constexpr int kAtOnce = 20;

// Starts one operation of each kind. Returns how many errors occurred.
int round(Pair& pair, Memory& memory, std::vector<std::uint8_t>& in,
          std::vector<std::uint8_t>& out) {
  fid_ep* const a = pair.a.ep.get();
  fid_ep* const b = pair.b.ep.get();
  int wrong = 0;
  iovec iov{out.data(), 1000};
  const fi_msg multi{&iov, nullptr, 1, FI_ADDR_UNSPEC, &out, 0};
  wrong += fi_trecv(b, out.data(), out.size(), nullptr, pair.to_a, 1, 0, &out) != 0;
  wrong += fi_tsend(a, in.data(), in.size(), nullptr, pair.to_b, 1, &in) != 0;
  wrong += fi_tinject(a, in.data(), 64, pair.to_b, 2) != 0;
  wrong += fi_trecv(b, out.data(), 64, nullptr, FI_ADDR_UNSPEC, 2, 0, &out) != 0;
  wrong += fi_recvmsg(b, &multi, FI_MULTI_RECV) != 0;
  wrong += fi_send(a, in.data(), 950, nullptr, pair.to_b, &in) != 0;
  wrong += fi_write(a, in.data(), in.size(), nullptr, pair.to_b, 0, memory.key(), &in) != 0;
  wrong += fi_writedata(a, in.data(), 64, nullptr, 1, pair.to_b, 0, memory.key(), &in) != 0;
  wrong += fi_read(a, in.data(), in.size(), nullptr, pair.to_b, 0, memory.key(), &in) != 0;
  wrong += fi_fetch_atomic(a, in.data(), 3, nullptr, in.data(), nullptr, pair.to_b, 0, memory.key(),
                           FI_UINT64, FI_SUM, &in) != 0;
  // Some of these messages wait for room.
  for (int i = 0; i < kAtOnce; ++i) {
    wrong += fi_trecv(b, out.data(), 64, nullptr, pair.to_a, 3, 0, &out) != 0;
    wrong += fi_tsend(a, in.data(), 64, nullptr, pair.to_b, 3, &in) != 0;
  }
  // Two sends, three receives, four one-sided operations, one of which tells b, and those of the
  // loop.
  int left = 5 + 5 + 2 * kAtOnce;
  for (const HangLimit limit; left > 0 && !limit.is_over();) {
    fi_cq_tagged_entry entry{};
    for (Node* node : {&pair.a, &pair.b}) {
      if (fi_cq_read(node->cq.get(), &entry, 1) == 1) --left;
    }
  }
  return wrong + left;
}

}  // namespace

TEST_CASE("NoHeap__after_start_messages_take_nothing_from_the_heap") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}, {"FI_HAWSER_MAX_MESSAGES_PER_PEER", "4"}});
  NodeOptions options = one_sided({.least_multi_bytes = 100});
  options.caps |= FI_MULTI_RECV;
  Pair pair(options);
  auto in = pattern(300000, 1);
  std::vector<std::uint8_t> out(in.size());
  Memory memory(pair.b, in.size());
  (void)round(pair, memory, in, out);
  const HeapGuard guard;
  int wrong = 0;
  for (int i = 0; i < kRounds; ++i) wrong += round(pair, memory, in, out);
  const std::uint64_t allocations = guard.allocations();
  CHECK(wrong == 0);
  CHECK(allocations == 0);
}
