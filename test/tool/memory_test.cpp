// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tool/run/cgroup_memory.hpp"
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

TEST_CASE("memory: what the limits of a process leave it") {
  const std::string status =
      "Name:\thawser\nVmPeak:\t  900 kB\nVmSize:\t  300 kB\nVmData:\t  100 kB\n";
  CHECK(left_of_limits({}, status) == kUnknownMemory);
  CHECK(left_of_limits({.address_space = 1000 * 1024}, status) == 700 * 1024);
  CHECK(left_of_limits({.data = 1000 * 1024}, status) == 900 * 1024);
  CHECK(left_of_limits({1000 * 1024, 500 * 1024}, status) == 400 * 1024);
  CHECK(left_of_limits({.address_space = 200 * 1024}, status) == 0);
  CHECK(left_of_limits({.address_space = 200 * 1024}, "") == 200 * 1024);  // without /proc
}

// The files that a test provides, by path.
using Files = std::map<std::string, std::string>;

std::optional<std::uint64_t> left_in(const Files& files) {
  return cgroup_available_bytes([&](const std::string& path) {
    const auto found = files.find(path);
    return found == files.end() ? std::string() : found->second;
  });
}

constexpr std::uint64_t kMega = 1'000'000;
const std::string kSecondMount =
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kFirstMounts =
    "22 20 0:5 / /proc rw - proc proc rw\n"
    "33 28 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "34 28 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST_CASE("memory: in version 2 the least that a group from the own one to the root leaves") {
  Files files{{"/proc/self/mountinfo", kSecondMount},
              {"/proc/self/cgroup", "0::/system.slice/job.scope/step_0\n"},
              {"/sys/fs/cgroup/system.slice/job.scope/step_0/memory.max", "max\n"},
              {"/sys/fs/cgroup/system.slice/job.scope/step_0/memory.current", "50000000\n"},
              {"/sys/fs/cgroup/system.slice/job.scope/memory.max", "300000000\n"},
              {"/sys/fs/cgroup/system.slice/job.scope/memory.current", "200000000\n"},
              {"/sys/fs/cgroup/system.slice/job.scope/memory.stat",
               "anon 1\ninactive_file 30000000\nactive_file 20000000\nfile 7\n"},
              {"/sys/fs/cgroup/system.slice/memory.max", "400000000\n"},
              {"/sys/fs/cgroup/system.slice/memory.current", "150000000\n"}};
  CHECK(left_in(files) == 150 * kMega);
  files["/sys/fs/cgroup/system.slice/memory.current"] = "390000000\n";
  CHECK(left_in(files) == 10 * kMega);
  files["/sys/fs/cgroup/system.slice/memory.current"] = "500000000\n";  // over its limit
  CHECK(left_in(files) == 0);
}

TEST_CASE("memory: version 1 is looked at where its controller is mounted") {
  Files files{{"/proc/self/mountinfo", kFirstMounts},
              {"/proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/slurm/job_7\n0::/\n"},
              {"/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "300000000\n"},
              {"/sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "100000000\n"},
              {"/sys/fs/cgroup/memory/slurm/job_7/memory.stat",
               "inactive_file 1\ntotal_inactive_file 40000000\ntotal_active_file 10000000\n"},
              {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
              {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "7000000000\n"}};
  CHECK(left_in(files) == 250 * kMega);
  files.erase("/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes");
  CHECK(left_in(files) == std::nullopt);
}

TEST_CASE("memory: a container's group is where its tree is mounted") {
  Files files{{"/proc/self/mountinfo",
               "34 28 0:30 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"},
              {"/proc/self/cgroup", "4:memory:/docker/ab\n"},
              {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "300000000\n"},
              {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000000\n"}};
  CHECK(left_in(files) == 200 * kMega);
  files["/proc/self/cgroup"] = "4:memory:/docker/ab/inner\n";  // a group without a limit
  CHECK(left_in(files) == 200 * kMega);
  files["/proc/self/cgroup"] = "4:memory:/somewhere/else\n";
  CHECK(left_in(files) == 200 * kMega);
  files["/proc/self/cgroup"] = "4:memory:/../..\n";  // as seen in a cgroup namespace
  files["/proc/self/mountinfo"] = kFirstMounts;
  CHECK(left_in(files) == 200 * kMega);
}

TEST_CASE("memory: without groups, or with files that say nothing, there is no limit") {
  CHECK(left_in({}) == std::nullopt);
  CHECK(left_in({{"/proc/self/mountinfo", kSecondMount}, {"/proc/self/cgroup", "nonsense"}}) ==
        std::nullopt);
  CHECK(left_in({{"/proc/self/mountinfo", "33 - cgroup2\n-\n" + kSecondMount},
                 {"/proc/self/cgroup", "0::/\n"},
                 {"/sys/fs/cgroup/memory.max", "-5"},
                 {"/sys/fs/cgroup/memory.current", "1"}}) == std::nullopt);
}

}  // namespace
}  // namespace hawser::tool
