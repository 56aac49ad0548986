// SPDX-License-Identifier: Apache-2.0
// Host memory that two threads use at once.
#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "proto/region/host_placement.hpp"
#include "proto/region/shared_copy.hpp"

namespace hawser::proto {
namespace {

// Each value is fetched once, so no increment was lost and none was done twice.
TEST_CASE("HostPlacement__two_threads_that_add_lose_nothing") {
  constexpr std::uint64_t kEach = 20000;
  alignas(8) std::uint64_t word = 0;
  std::array<std::vector<std::uint64_t>, 2> fetched;
  const auto add = [&](std::vector<std::uint64_t>& values) {
    HostPlacement placement;
    for (std::uint64_t i = 0; i < kEach; ++i) {
      std::uint64_t before = 0;
      (void)placement.execute(reinterpret_cast<std::byte*>(&word), {AtomicOperation::add, 8, 1, 0},
                              before);
      values.push_back(before);
    }
  };
  {
    std::jthread other([&] { add(fetched[0]); });
    add(fetched[1]);
  }
  CHECK(word == 2 * kEach);
  std::vector<std::uint64_t> all = fetched[0];
  all.insert(all.end(), fetched[1].begin(), fetched[1].end());
  std::ranges::sort(all);
  for (std::uint64_t i = 0; i < 2 * kEach; ++i) REQUIRE(all[i] == i);
}

// All bytes of each word that the other thread writes are equal.
TEST_CASE("copy_shared__reads_an_aligned_word_whole") {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  std::array<std::uint64_t, 3> words{};
  const std::jthread writer([&](const std::stop_token& stop) {
    for (std::uint64_t i = 0; !stop.stop_requested(); ++i) {
      for (std::uint64_t& word : words)
        std::atomic_ref(word).store(i % 256 * kOnes, std::memory_order_relaxed);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    std::array<std::byte, 16> copy{};  // a half, a word, and another half
    copy_shared(copy.data(), reinterpret_cast<const std::byte*>(words.data()) + 4, copy.size());
    std::uint64_t whole = 0;
    std::memcpy(&whole, copy.data() + 4, sizeof whole);
    REQUIRE(whole == whole % 256 * kOnes);
    for (const std::size_t half : {std::size_t{0}, std::size_t{12}}) {
      for (std::size_t at = 1; at < 4; ++at) REQUIRE(copy[half + at] == copy[half]);
    }
  }
}

}  // namespace
}  // namespace hawser::proto
