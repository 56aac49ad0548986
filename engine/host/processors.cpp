// SPDX-License-Identifier: Apache-2.0
#include "engine/host/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

namespace hawser::engine {
namespace {

constexpr std::size_t kFirstPlaces = CPU_SETSIZE;
// More than any kernel counts. A system that refuses even this refuses for another reason.
constexpr std::size_t kMostPlaces = std::size_t{1} << 20;

struct Free {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using Set = std::unique_ptr<cpu_set_t, Free>;

// An empty set with at least so many places; null: no memory.
Set make_set(std::size_t places) {
  Set set(CPU_ALLOC(places));
  if (set) CPU_ZERO_S(CPU_ALLOC_SIZE(places), set.get());
  return set;
}

std::vector<std::uint32_t> members(const cpu_set_t& set, std::size_t places) {
  std::vector<std::uint32_t> processors;
  for (std::size_t i = 0; i < places; ++i) {
    if (CPU_ISSET_S(i, CPU_ALLOC_SIZE(places), &set)) {
      processors.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return processors;
}

}  // namespace

std::vector<std::uint32_t> allowed_processors() {
  for (std::size_t places = kFirstPlaces; places <= kMostPlaces; places *= 2) {
    const Set set = make_set(places);
    if (!set) return {};
    if (::sched_getaffinity(0, CPU_ALLOC_SIZE(places), set.get()) == 0) {
      return members(*set, places);
    }
    if (errno != EINVAL) return {};
  }
  return {};
}

bool bind_to_processors(std::span<const std::uint32_t> processors) {
  if (processors.empty()) return false;
  const std::size_t places = std::size_t{*std::ranges::max_element(processors)} + 1;
  const Set set = make_set(places);
  if (!set) return false;
  for (const std::uint32_t processor : processors) {
    CPU_SET_S(processor, CPU_ALLOC_SIZE(places), set.get());
  }
  return ::sched_setaffinity(0, CPU_ALLOC_SIZE(places), set.get()) == 0;
}

bool bind_to_processor(std::uint32_t turn) {
  const std::vector<std::uint32_t> allowed = allowed_processors();
  if (allowed.empty()) return false;
  return bind_to_processors(std::span(allowed).subspan(turn % allowed.size(), 1));
}

}  // namespace hawser::engine
