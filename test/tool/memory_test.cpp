#include <catch2/catch.hpp>

#include "tool/run/memory.hpp"

namespace hawser::tool {
namespace {

TEST_CASE("memory: what the kernel calls available") {
  CHECK(meminfo_available_bytes("MemTotal:  200 kB\nMemFree: 1 kB\nMemAvailable:   150 kB\n") ==
        150 * 1024);
  CHECK(meminfo_available_bytes("MemTotal:  200 kB\n") == 0);
  CHECK(meminfo_available_bytes("NotMemAvailable: 7 kB\nMemAvailable: 8 kB") == 8 * 1024);
  CHECK(meminfo_available_bytes("MemAvailable:") == 0);
}

TEST_CASE("memory: this host has some, this process took some of it") {
  CHECK(available_memory_bytes() > 0);
  CHECK(peak_memory_bytes() > 100'000);
  CHECK(peak_memory_bytes() < available_memory_bytes());
}

}  // namespace
}  // namespace hawser::tool
