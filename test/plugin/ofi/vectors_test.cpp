// SPDX-License-Identifier: Apache-2.0
// Messages in several places: fi_sendv, fi_recvv and the calls with a fi_msg.
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

constexpr std::size_t kMost = 8;

// Memory in as many places as there are sizes, each of its own.
struct Places {
  explicit Places(const std::vector<std::size_t>& sizes) {
    places.reserve(sizes.size());
    for (const std::size_t size : sizes) {
      auto& place = places.emplace_back(size);
      vectors.push_back({place.data(), size});
    }
  }
  Places(const std::vector<std::size_t>& sizes, const std::vector<std::uint8_t>& from)
      : Places(sizes) {
    auto at = from.begin();
    for (auto& place : places) {
      std::copy_n(at, place.size(), place.begin());
      at += static_cast<std::ptrdiff_t>(place.size());
    }
  }
  [[nodiscard]] std::vector<std::uint8_t> all() const {
    std::vector<std::uint8_t> bytes;
    for (const auto& place : places) bytes.insert(bytes.end(), place.begin(), place.end());
    return bytes;
  }
  std::vector<std::vector<std::uint8_t>> places;
  std::vector<iovec> vectors;
};

std::vector<std::size_t> cut(std::size_t bytes, std::size_t places) {
  std::vector<std::size_t> sizes(places, bytes / (places + 1));
  sizes.back() = bytes - (places - 1) * (bytes / (places + 1));
  return sizes;
}

}  // namespace

TEST_CASE("Vectors__all_calls_and_sizes") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair;
  fid_ep* const a = pair.a.ep.get();
  fid_ep* const b = pair.b.ep.get();
  CHECK(pair.a.info->tx_attr->iov_limit == kMost);
  CHECK(pair.a.info->rx_attr->iov_limit == kMost);
  for (const std::size_t bytes : {0, 7, 100, 600, 4097, 70'000, 500'000}) {
    for (const std::size_t places : {std::size_t{2}, std::size_t{5}, kMost}) {
      INFO(bytes << " bytes in " << places);
      const auto data = pattern(bytes, static_cast<std::uint8_t>(places));
      Places from(cut(bytes, places), data);
      Places untagged(cut(bytes, kMost + 2 - places)), tagged(cut(bytes, 3));
      Places by_message(cut(bytes, places)), tagged_by_message(cut(bytes, 2));
      const std::size_t count = untagged.vectors.size();
      REQUIRE(fi_recvv(b, untagged.vectors.data(), nullptr, count, pair.to_a, &untagged) == 0);
      REQUIRE(fi_trecvv(b, tagged.vectors.data(), nullptr, 3, pair.to_a, 1, 0, &tagged) == 0);
      const fi_msg into{by_message.vectors.data(), nullptr, places, FI_ADDR_UNSPEC, &by_message, 0};
      REQUIRE(fi_recvmsg(b, &into, FI_COMPLETION) == 0);
      const fi_msg_tagged tagged_into{tagged_by_message.vectors.data(),
                                      nullptr,
                                      2,
                                      FI_ADDR_UNSPEC,
                                      2,
                                      0,
                                      &tagged_by_message,
                                      0};
      REQUIRE(fi_trecvmsg(b, &tagged_into, FI_COMPLETION) == 0);

      const iovec* const vectors = from.vectors.data();
      REQUIRE(fi_sendv(a, vectors, nullptr, places, pair.to_b, &from) == 0);
      REQUIRE(fi_tsendv(a, vectors, nullptr, places, pair.to_b, 1, &from) == 0);
      const fi_msg message{vectors, nullptr, places, pair.to_b, &from, 0};
      REQUIRE(fi_sendmsg(a, &message, FI_COMPLETION) == 0);
      const fi_msg_tagged tagged_message{vectors, nullptr, places, pair.to_b, 2, 0, &from, 0};
      REQUIRE(fi_tsendmsg(a, &tagged_message, FI_COMPLETION | FI_DELIVERY_COMPLETE) == 0);
      for (int i = 0; i < 4; ++i) {
        const Entry sent = pair.next_a();
        CHECK((sent.answer == 1 && sent.entry.op_context == &from));
        const Entry received = pair.next_b();
        CHECK((received.answer == 1 && received.entry.len == bytes));
      }
      for (const Places* to : {&untagged, &tagged, &by_message, &tagged_by_message})
        CHECK(to->all() == data);
    }
  }
}

TEST_CASE("Vectors__injected_ones_are_the_programs_again_at_once") {
  Pair pair;
  const std::size_t limit = pair.a.info->tx_attr->inject_size;
  const auto data = pattern(limit, 3);
  Places from(cut(limit, 4), data), to(cut(limit, 3));
  const fi_msg_tagged message{from.vectors.data(), nullptr, 4, pair.to_b, 1, 0, &from, 0};
  REQUIRE(fi_tsendmsg(pair.a.ep.get(), &message, FI_INJECT | FI_COMPLETION) == 0);
  for (auto& place : from.places) std::ranges::fill(place, std::uint8_t{0xee});
  REQUIRE(fi_trecvv(pair.b.ep.get(), to.vectors.data(), nullptr, 3, pair.to_a, 1, 0, &to) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(to.all() == data);
  Places longer(cut(limit + 1, 4), pattern(limit + 1, 3));
  const fi_msg_tagged refused{longer.vectors.data(), nullptr, 4, pair.to_b, 1, 0, &longer, 0};
  CHECK(fi_tsendmsg(pair.a.ep.get(), &refused, FI_INJECT) == -FI_EMSGSIZE);
}

// The program's lists are gone when Hawser gets to the operations.
TEST_CASE("Vectors__sends_and_receives_that_wait_keep_their_lists") {
  const Variables more({{"FI_HAWSER_MAX_OPERATIONS", "16"}});
  Pair pair({.send_flags = FI_DELIVERY_COMPLETE});
  constexpr std::size_t kCount = 100;
  constexpr std::size_t kBytes = 5000;
  std::vector<Places> from, to;
  from.reserve(kCount);
  to.reserve(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto data = pattern(kBytes, static_cast<std::uint8_t>(i));
    Places& places = from.emplace_back(cut(kBytes, 2 + i % 7), data);
    auto list = places.vectors;
    REQUIRE(fi_tsendv(pair.a.ep.get(), list.data(), nullptr, list.size(), pair.to_b, i, &places) ==
            0);
    std::ranges::fill(list, iovec{});
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    Places& places = to.emplace_back(cut(kBytes, 2 + i % 5));
    auto list = places.vectors;
    REQUIRE(fi_trecvv(pair.b.ep.get(), list.data(), nullptr, list.size(), pair.to_a, i, 0,
                      &places) == 0);
    std::ranges::fill(list, iovec{});
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(pair.next_b().answer == 1);
    CHECK(pair.next_a().answer == 1);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    INFO(i);
    CHECK(to[i].all() == pattern(kBytes, static_cast<std::uint8_t>(i)));
  }
}

TEST_CASE("Vectors__a_claimed_message_goes_into_several_places_and_is_cut_to_them") {
  Pair pair;
  const auto data = pattern(3000, 9);
  Places from(cut(3000, 3), data);
  REQUIRE(fi_tsendv(pair.a.ep.get(), from.vectors.data(), nullptr, 3, pair.to_b, 5, &from) == 0);
  int context = 0;
  const fi_msg_tagged look{nullptr, nullptr, 0, FI_ADDR_UNSPEC, 5, 0, &context, 0};
  Entry found;
  REQUIRE(pair.until([&] {
    if (fi_trecvmsg(pair.b.ep.get(), &look, FI_PEEK | FI_CLAIM) != 0) return false;
    found = pair.next_b();
    return found.answer == 1;
  }));
  CHECK(found.entry.len == 3000);
  Places to({1000, 500});
  const fi_msg_tagged take{to.vectors.data(), nullptr, 2, FI_ADDR_UNSPEC, 5, 0, &context, 0};
  REQUIRE(fi_trecvmsg(pair.b.ep.get(), &take, FI_CLAIM) == 0);
  const Entry cut_short = pair.next_b();
  CHECK(cut_short.answer == -FI_EAVAIL);
  CHECK(cut_short.error.err == FI_ETRUNC);
  CHECK(cut_short.error.olen == 1500);
  CHECK(to.all() == std::vector<std::uint8_t>(data.begin(), data.begin() + 1500));
}

TEST_CASE("Vectors__lists_that_are_too_long_or_missing_are_refused") {
  Pair pair;
  std::vector<iovec> many(kMost + 1, iovec{});
  fid_ep* const a = pair.a.ep.get();
  CHECK(fi_sendv(a, many.data(), nullptr, many.size(), pair.to_b, nullptr) == -FI_EINVAL);
  CHECK(fi_tsendv(a, many.data(), nullptr, many.size(), pair.to_b, 1, nullptr) == -FI_EINVAL);
  CHECK(fi_recvv(a, many.data(), nullptr, many.size(), pair.to_b, nullptr) == -FI_EINVAL);
  CHECK(fi_trecvv(a, many.data(), nullptr, many.size(), pair.to_b, 1, 0, nullptr) == -FI_EINVAL);
  CHECK(fi_sendv(a, nullptr, nullptr, 2, pair.to_b, nullptr) == -FI_EINVAL);
  const iovec endless[] = {{nullptr, SIZE_MAX}, {nullptr, SIZE_MAX}};
  CHECK(fi_sendv(a, endless, nullptr, 2, pair.to_b, nullptr) == -FI_EMSGSIZE);
  Places places({100, 100});
  const fi_msg multi{places.vectors.data(), nullptr, 2, FI_ADDR_UNSPEC, &places, 0};
  CHECK(fi_recvmsg(a, &multi, FI_MULTI_RECV) == -FI_EINVAL);
}
