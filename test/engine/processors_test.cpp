// SPDX-License-Identifier: Apache-2.0
#include "engine/host/processors.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/host/host_limits.hpp"

namespace hawser::engine {
namespace {

using Processors = std::vector<std::uint32_t>;

// A kernel that counts `places` processors, in place of this host's while it lives.
class FakeKernel {
 public:
  FakeKernel(std::size_t places, Processors allowed) : places_(places), allowed_(allowed) {
    now_ = this;
  }
  ~FakeKernel() { now_ = nullptr; }
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;

  static FakeKernel* now() { return now_; }

  // As the kernel does it: a set with fewer places than it counts is refused.
  int get(std::size_t bytes, cpu_set_t* set) const {
    if (refusal != 0 || bytes * 8 < places_) {
      errno = refusal != 0 ? refusal : EINVAL;
      return -1;
    }
    std::memset(set, 0, bytes);
    for (const std::uint32_t processor : allowed_) CPU_SET_S(processor, bytes, set);
    return 0;
  }

  // The kernel takes a shorter set, and refuses one without any processor of its own.
  int set(std::size_t bytes, const cpu_set_t* set) {
    Processors wanted;
    for (const std::uint32_t processor : allowed_) {
      if (CPU_ISSET_S(processor, bytes, set)) wanted.push_back(processor);
    }
    if (wanted.empty()) {
      errno = EINVAL;
      return -1;
    }
    bound = wanted;
    return 0;
  }

  int refusal = 0;   // errno of every question
  Processors bound;  // by the last call

 private:
  static FakeKernel* now_;

  std::size_t places_;
  Processors allowed_;
};

FakeKernel* FakeKernel::now_ = nullptr;

Processors range(std::uint32_t first, std::uint32_t count) {
  Processors processors(count);
  std::iota(processors.begin(), processors.end(), first);
  return processors;
}

}  // namespace
}  // namespace hawser::engine

// In place of libc's, for this whole program.
extern "C" int sched_getaffinity(pid_t thread, std::size_t bytes, cpu_set_t* set) noexcept {
  const auto* const fake = hawser::engine::FakeKernel::now();
  if (fake != nullptr) return fake->get(bytes, set);
  const long filled = ::syscall(SYS_sched_getaffinity, thread, bytes, set);
  if (filled < 0) return -1;
  const auto length = static_cast<std::size_t>(filled);
  std::memset(reinterpret_cast<char*>(set) + length, 0, bytes - length);
  return 0;
}

extern "C" int sched_setaffinity(pid_t thread, std::size_t bytes, const cpu_set_t* set) noexcept {
  auto* const fake = hawser::engine::FakeKernel::now();
  if (fake != nullptr) return fake->set(bytes, set);
  return static_cast<int>(::syscall(SYS_sched_setaffinity, thread, bytes, set));
}

namespace hawser::engine {
namespace {

TEST_CASE("allowed_processors__are_those_of_this_host") {
  const Processors allowed = allowed_processors();
  REQUIRE_FALSE(allowed.empty());
  CHECK(std::ranges::is_sorted(allowed));
  CHECK(read_host_limits().cores == allowed.size());
}

TEST_CASE("allowed_processors__of_a_host_with_more_than_a_set_of_libc_has_places_for") {
  for (const std::uint32_t count : {1024u, 1025u, 1536u, 8192u}) {
    CAPTURE(count);
    FakeKernel kernel(count, range(0, count));
    CHECK(allowed_processors() == range(0, count));
    CHECK(read_host_limits().cores == count);
    CHECK(bind_to_processor(count - 1));
    CHECK(kernel.bound == Processors{count - 1});
    CHECK(bind_to_processor(count));
    CHECK(kernel.bound == Processors{0});
  }
}

TEST_CASE("allowed_processors__need_not_begin_with_the_first_ones") {
  for (const std::uint32_t first : {128u, 1030u}) {
    CAPTURE(first);
    FakeKernel kernel(2048, {first, first + 2, first + 70});
    CHECK(allowed_processors() == Processors{first, first + 2, first + 70});
    CHECK(read_host_limits().cores == 3);
    CHECK(bind_to_processor(1));
    CHECK(kernel.bound == Processors{first + 2});
    CHECK(bind_to_processor(5));
    CHECK(kernel.bound == Processors{first + 70});
  }
}

TEST_CASE("bind_to_processors__takes_several_of_any_host") {
  const Processors allowed = range(0, 2048);
  FakeKernel kernel(2048, allowed);
  for (const Processors& some : {Processors{1030, 5, 1023}, Processors{2047}, allowed}) {
    CHECK(bind_to_processors(some));
    std::ranges::sort(kernel.bound);
    Processors sorted = some;
    std::ranges::sort(sorted);
    CHECK(kernel.bound == sorted);
  }
  CHECK_FALSE(bind_to_processors({}));
  CHECK_FALSE(bind_to_processors(Processors{4000}));
  CHECK(kernel.bound == allowed);
}

TEST_CASE("allowed_processors__a_system_that_refuses_to_report_them_binds_nobody") {
  for (const int refusal : {EINVAL, EPERM, ENOSYS}) {
    CAPTURE(refusal);
    FakeKernel kernel(8, range(0, 8));
    kernel.refusal = refusal;
    CHECK(allowed_processors().empty());
    CHECK(read_host_limits().cores >= 1);
    CHECK_FALSE(bind_to_processor(3));
    CHECK(kernel.bound.empty());
  }
}

TEST_CASE("allowed_processors__an_empty_set_binds_nobody") {
  FakeKernel kernel(8, {});
  CHECK_FALSE(bind_to_processor(3));
  CHECK(read_host_limits().cores >= 1);
}

}  // namespace
}  // namespace hawser::engine
