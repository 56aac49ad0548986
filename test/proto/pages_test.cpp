// SPDX-License-Identifier: Apache-2.0
#include "proto/base/pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <limits>
#include <new>
#include <span>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAWSER_WATCHED_PAGES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HAWSER_WATCHED_PAGES
#endif
#ifdef HAWSER_WATCHED_PAGES
#include <sanitizer/asan_interface.h>
#endif

namespace hawser::proto {
namespace {

// Whether the system lets this process read there.
bool is_mapped(const std::byte* address) {
  const int null = ::open("/dev/random", O_WRONLY | O_CLOEXEC);
  REQUIRE(null >= 0);
  const bool written = ::write(null, address, 1) == 1;
  if (!written) CHECK(errno == EFAULT);
  ::close(null);
  return written;
}

TEST_CASE("pages: are zeros up to the last byte, and gone when they are given back") {
  for (const std::size_t bytes : {kLeastPages, kLeastPages + 1, 3 * kLeastPages - 8}) {
    INFO(bytes);
    auto* const pages = static_cast<std::byte*>(take_pages(bytes));
    const std::span all(pages, bytes);
    CHECK(std::ranges::all_of(all, [](std::byte one) { return one == std::byte{0}; }));
    std::ranges::fill(all, std::byte{0xff});
    CHECK(is_mapped(pages));
    give_pages(pages, bytes);
    CHECK_FALSE(is_mapped(pages));
  }
}

TEST_CASE("pages: more than there is throws") {
  for (const std::size_t less : {0, 100, 4096, 3 * 4096}) {
    CHECK_THROWS_AS(take_pages(std::numeric_limits<std::size_t>::max() - less), std::bad_alloc);
  }
}

#ifdef HAWSER_WATCHED_PAGES
TEST_CASE("pages: the address sanitizer watches the bytes before and behind") {
  for (const std::size_t bytes : {kLeastPages, kLeastPages + 1, kLeastPages + 4095}) {
    INFO(bytes);
    auto* const pages = static_cast<std::byte*>(take_pages(bytes));
    CHECK(__asan_address_is_poisoned(pages - 1) != 0);
    CHECK(__asan_region_is_poisoned(pages, bytes) == nullptr);
    CHECK(__asan_address_is_poisoned(pages + bytes) != 0);
    give_pages(pages, bytes);
  }
}

TEST_CASE("pages: the next blocks get other addresses, so that a late access is found") {
  void* const first = take_pages(kLeastPages);
  give_pages(first, kLeastPages);
  for (int i = 0; i < 600; ++i) {
    const std::size_t bytes = kLeastPages + 4096 * (i % 7);
    void* const later = take_pages(bytes);
    REQUIRE((i >= 100 || later != first));
    // Addresses come back in the end, without the marks of their former owners.
    REQUIRE(__asan_region_is_poisoned(later, bytes) == nullptr);
    give_pages(later, bytes);
  }
}
#endif

}  // namespace
}  // namespace hawser::proto
