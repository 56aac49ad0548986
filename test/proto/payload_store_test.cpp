// SPDX-License-Identifier: Apache-2.0
#include "proto/message/payload_store.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace hawser::proto {
namespace {

constexpr std::uint32_t kChunk = PayloadStore::kMostChunkBytes;

std::vector<std::byte> payload(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7);
  return all;
}

// The message's bytes put together; unset bytes are 0xff.
std::vector<std::byte> content(const PayloadStore& store, std::uint32_t head, std::size_t bytes) {
  std::vector<std::byte> all(bytes, std::byte{0xff});
  store.for_each(head, [&](std::uint64_t begin, std::span<const std::byte> part) {
    REQUIRE(begin + part.size() <= bytes);
    std::ranges::copy(part, all.begin() + static_cast<std::ptrdiff_t>(begin));
  });
  return all;
}

TEST_CASE("PayloadStore__gives_back_what_was_stored", "[M13]") {
  const std::uint32_t fragment = GENERATE(256u, kChunk, 3 * kChunk + 100);
  PayloadStore store(1 << 20, fragment);
  const std::vector<std::byte> message = payload(2 * fragment + 1);
  std::uint32_t head = kNoIndex;
  for (const std::size_t i : {std::size_t{2}, std::size_t{0}, std::size_t{1}}) {
    const std::size_t begin = i * fragment;
    const std::size_t bytes = std::min<std::size_t>(fragment, message.size() - begin);
    REQUIRE(store.store(head, begin, std::span(message).subspan(begin, bytes)));
  }
  CHECK(store.bytes_held() == message.size());
  CHECK(content(store, head, message.size()) == message);
  store.drop(head);
  CHECK(head == kNoIndex);
  CHECK(store.bytes_held() == 0);
}

TEST_CASE("PayloadStore__without_room_nothing_of_a_fragment_stays", "[M13]") {
  PayloadStore store(4 * kChunk, 3 * kChunk);
  const std::vector<std::byte> fragment = payload(3 * kChunk);
  std::uint32_t one = kNoIndex;
  std::uint32_t other = kNoIndex;
  REQUIRE(store.store(one, 0, fragment));
  CHECK_FALSE(store.store(other, 0, fragment));  // a third of it would fit
  CHECK(other == kNoIndex);
  CHECK(store.bytes_held() == fragment.size());
  CHECK(store.store(other, 0, {}));  // no bytes need no room
  REQUIRE(store.store(other, 0, std::span(fragment).first(kChunk)));
  CHECK_FALSE(store.store(one, 0, std::span(fragment).first(1)));
  store.drop(other);
  CHECK(store.store(one, 0, std::span(fragment).first(1)));
}

TEST_CASE("PayloadStore__an_empty_store_holds_a_fragment_whatever_its_size", "[M13]") {
  const std::uint32_t fragment = GENERATE(16u, kChunk, 10 * kChunk + 1);
  PayloadStore store(0, fragment);
  std::uint32_t head = kNoIndex;
  CHECK(store.store(head, 0, payload(fragment)));
}

TEST_CASE("PayloadStore__drops_the_newest_down_to_one") {
  PayloadStore store(1 << 20, kChunk);
  const std::vector<std::byte> bytes = payload(kChunk);
  std::uint32_t head = kNoIndex;
  REQUIRE(store.store(head, 0, bytes));
  const std::uint32_t first = head;
  REQUIRE(store.store(head, kChunk, bytes));
  store.drop(head, first);
  CHECK(head == first);
  CHECK(store.bytes_held() == kChunk);
}

}  // namespace
}  // namespace hawser::proto
