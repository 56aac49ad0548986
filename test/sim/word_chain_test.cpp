// SPDX-License-Identifier: Apache-2.0
// The judge of chained words: what one order explains, and each way in which none does.
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/storm/word_chain.hpp"

namespace hawser::test {
namespace {

using sim::ChainLink;
using sim::judge_chain;

constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();

// Operation n writes the value n.
ChainLink swap(std::uint32_t n, std::uint64_t fetched, std::uint64_t posted = 0,
               std::uint64_t ended = kForEver) {
  return {.index = n,
          .writes = n,
          .fetched = fetched,
          .is_certain = true,
          .posted = posted,
          .ended = ended};
}
ChainLink lost_swap(std::uint32_t n) { return {.index = n, .writes = n}; }
ChainLink store(std::uint32_t n) { return {.index = n, .writes = n, .is_certain = true}; }
ChainLink load(std::uint32_t n, std::uint64_t fetched, std::uint64_t posted = 0,
               std::uint64_t ended = kForEver) {
  return {.index = n, .fetched = fetched, .is_certain = true, .posted = posted, .ended = ended};
}
ChainLink compare(std::uint32_t n, std::uint64_t compares, std::optional<std::uint64_t> fetched) {
  return {.index = n,
          .writes = n,
          .compares = compares,
          .fetched = fetched,
          .is_certain = fetched.has_value()};
}

std::string judge(const std::vector<ChainLink>& links, std::uint64_t last) {
  return judge_chain(links, last);
}

TEST_CASE("word_chain__what_an_order_explains") {
  CHECK(judge({}, 0).empty());
  CHECK(judge({swap(1, 0), swap(2, 1), swap(3, 2)}, 3).empty());
  CHECK(judge({swap(3, 2), swap(1, 0), swap(2, 1)}, 3).empty());
  CHECK(judge({load(9, 0), swap(1, 0), load(8, 1), swap(2, 1), load(7, 2)}, 2).empty());
  // A compare-and-swap that finds another value only reads.
  CHECK(judge({swap(1, 0), compare(2, 0, 1), compare(3, 1, 1), compare(4, 1, 3)}, 3).empty());
  // Stores, and what is not known to have been executed, may have been anywhere, or nowhere.
  CHECK(judge({swap(1, 0), store(2), swap(3, 2)}, 3).empty());
  CHECK(judge({swap(1, 0), store(2)}, 2).empty());
  CHECK(judge({swap(1, 0), lost_swap(2)}, 1).empty());
  CHECK(judge({swap(1, 0), lost_swap(2), swap(3, 2)}, 3).empty());
  CHECK(judge({swap(1, 0), lost_swap(2)}, 2).empty());
  CHECK(judge({swap(1, 0), compare(2, 1, std::nullopt)}, 1).empty());
  CHECK(judge({swap(1, 0), compare(2, 1, std::nullopt), swap(3, 2)}, 3).empty());
  CHECK(judge({compare(1, 0, std::nullopt), compare(2, 1, std::nullopt)}, 2).empty());
}

TEST_CASE("word_chain__values_that_nobody_has_written") {
  CHECK(judge({swap(1, 5)}, 1) == "operation 1 fetched the value 5, which nobody has written");
  CHECK(judge({swap(1, 0)}, 5) == "the word has the value 5, which nobody has written");
  CHECK(judge({swap(1, 0), compare(2, 0, 1)}, 2) ==
        "the word has the value 2, which nobody has written");
  CHECK(judge({compare(2, 7, std::nullopt), load(3, 2)}, 2) ==
        "operation 2 has changed the word, and compared it with the value 7, which nobody has "
        "written");
}

TEST_CASE("word_chain__two_that_came_right_after_one_value") {
  CHECK(judge({swap(1, 0), swap(2, 0)}, 2) ==
        "operation 2 came right after the value 0, as operation 1");
  CHECK(judge({swap(1, 0), compare(2, 1, 1), swap(3, 1)}, 3) ==
        "operation 3 came right after the value 1, as operation 2");
  // One whose result was lost changed the word twice, or another one did in its name.
  CHECK(judge({swap(1, 0), compare(2, 1, std::nullopt), swap(3, 1), swap(4, 2)}, 4) ==
        "operation 3 came right after the value 1, as operation 2");
}

TEST_CASE("word_chain__what_was_executed_and_is_not_there") {
  CHECK(judge({swap(1, 0), swap(2, 1)}, 1) ==
        "operation 2 came right after the value 1, which is the last one");
  CHECK(judge({swap(1, 0)}, 0) ==
        "operation 1 came right after the value 0, which is the last one");
  CHECK(judge({swap(1, 0), store(2)}, 1) ==
        "operation 2 has no place between 0 and the last value");
  CHECK(judge({swap(1, 0), lost_swap(2), load(3, 2)}, 1) ==
        "operation 2 has no place between 0 and the last value");
  CHECK(judge({swap(1, 0), swap(2, 3), swap(3, 2)}, 1) ==
        "operations came after each other in a ring");
}

TEST_CASE("word_chain__an_order_that_time_forbids") {
  CHECK(judge({swap(1, 0, 1, 2), swap(2, 1, 3, 4)}, 2).empty());
  CHECK(judge({swap(1, 0, 1, 3), swap(2, 1, 2, 4)}, 2).empty());
  CHECK(judge({swap(2, 0, 3, 4), swap(1, 2, 1, 2)}, 1) ==
        "operation 1 came after operation 2, which was posted when it had ended");
  // Not only the one right before it.
  CHECK(judge({swap(3, 0, 5, 6), swap(2, 3, 1, 9), swap(1, 2, 3, 4)}, 1) ==
        "operation 1 came after operation 3, which was posted when it had ended");
}

TEST_CASE("word_chain__loads_of_what_is_there_no_more_or_not_yet") {
  CHECK(judge({swap(1, 0, 1, 2), load(2, 0, 1, 3)}, 1).empty());
  CHECK(judge({swap(1, 0, 1, 2), load(2, 0, 3, 4)}, 1) ==
        "operation 2 fetched the value 0, which was there no more");
  CHECK(judge({swap(1, 0, 5, 6), load(2, 1, 3, 4)}, 1) ==
        "operation 2 fetched the value 1, which was not there yet");
}

}  // namespace
}  // namespace hawser::test
