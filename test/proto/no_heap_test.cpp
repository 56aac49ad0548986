// SPDX-License-Identifier: Apache-2.0
// After construction, nothing of proto/ takes memory from the heap.
#include <array>
#include <catch2/catch.hpp>
#include <new>

#include "proto/base/bitmap.hpp"
#include "proto/base/deadline_heap.hpp"
#include "proto/base/list.hpp"
#include "proto/base/random.hpp"
#include "proto/base/ring.hpp"
#include "proto/base/slab.hpp"
#include "proto/message/matching.hpp"
#include "proto/message/message_table.hpp"
#include "test/support/heap_guard.hpp"

namespace {

using namespace hawser::proto;
using hawser::test::HeapGuard;

struct Item {
  std::array<std::uint64_t, 8> payload{};
  ListLink link;
};

// Fills everything to its limit, beyond it, and empties it again.
void use_slab_and_list(Slab<Item>& slab, IndexList<Item, &Item::link>& list) {
  while (Item* item = slab.try_allocate()) list.push_back(slab, slab.index_of(*item));
  while (!list.empty()) slab.free(list.pop_front(slab));
}

void use_ring(Ring<Item>& ring) {
  while (ring.push(Item{})) continue;
  while (!ring.empty()) ring.pop();
}

void use_heap(DeadlineHeap& heap, Random& random) {
  for (std::uint32_t id = 0; id < heap.capacity(); ++id) {
    heap.update(id, Time{static_cast<std::int64_t>(1 + random.below(100))});
  }
  while (!heap.empty()) heap.pop();
}

void use_bitmap(BlockPool& pool) {
  FragmentBitmap bitmap;
  if (!bitmap.start(pool, 5000)) return;
  for (std::uint32_t f = 5000; f-- > 0;) (void)bitmap.claim(f);
  while (!bitmap.complete()) (void)bitmap.claim(bitmap.first_missing());
  bitmap.release();
}

void use_table(MessageTablePool& pool) {
  MessageTable table;
  if (!table.open(pool, 7)) return;
  for (std::uint64_t n = 7; n < 7 + MessageTable::kSpan; ++n) (void)table.set(n, 1);
  table.advance_floor(5000, [](std::uint64_t, std::uint32_t) {});
  table.close();
}

void use_matching(Matching& matching, Random& random) {
  for (std::uint32_t i = 0; i < 64; ++i) {
    PostedReceive receive;
    receive.operation = static_cast<hawser::OperationId>(i);
    receive.tag = random.next();
    receive.mask = ~std::uint64_t{0} << (i % 20);
    receive.peer = i % 3 == 0 ? hawser::kAnyPeer : hawser::PeerId{i % 2};
    (void)matching.post(receive);
    UnexpectedEntry message;
    message.peer = hawser::PeerId{i % 2};
    message.number = i;
    message.rx_message = i;
    message.tag = random.next();
    (void)matching.arrive(message);
  }
  for (std::uint32_t peer = 0; peer < 2; ++peer) {
    matching.drop_peer(
        hawser::PeerId{peer}, [](const PostedReceive&) {}, [](const UnexpectedEntry&) {});
  }
}

}  // namespace

TEST_CASE("no heap: the guard sees each kind of allocation") {
  // Calling the operators by name keeps the compiler from leaving them out.
  const auto count = [](auto&& allocate) {
    const HeapGuard guard;
    allocate();
    return guard.allocations();
  };
  constexpr std::align_val_t kLine{64};
  CHECK(count([] {}) == 0);
  CHECK(count([] { ::operator delete(::operator new(8)); }) == 1);
  CHECK(count([] { ::operator delete[](::operator new[](8)); }) == 1);
  CHECK(count([] { ::operator delete(::operator new(8, std::nothrow), std::nothrow); }) == 1);
  CHECK(count([] { ::operator delete(::operator new(8, kLine), kLine); }) == 1);
  CHECK(count([] { ::operator delete[](::operator new[](8, kLine), kLine); }) == 1);
}

TEST_CASE("no heap: containers and matching, once constructed") {
  Random random(1);
  Slab<Item> slab(10);
  IndexList<Item, &Item::link> list;
  Ring<Item> ring(10);
  DeadlineHeap heap(20);
  BlockPool blocks(5, 1);
  MessageTablePool table_blocks(20);
  Matching matching(64, 64, 2);
  PathWindow window(3);
  std::array<std::uint64_t, PathWindow::kWords> words{};

  const HeapGuard guard;
  use_slab_and_list(slab, list);
  use_ring(ring);
  use_heap(heap, random);
  use_bitmap(blocks);
  use_table(table_blocks);
  use_matching(matching, random);
  for (std::uint64_t n = 3; n < 5000; n += 1 + random.below(3)) (void)window.insert(n);
  (void)window.write_ack(0, words);
  const std::uint64_t allocations = guard.allocations();

  CHECK(allocations == 0);
  CHECK(slab.size() == 0);
  CHECK(blocks.blocks_in_use() == 0);
  CHECK(table_blocks.size() == 0);
  CHECK(matching.unexpected() == 0);
}
