#include "engine/eal.hpp"

#include <pthread.h>
#include <rte_config.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <sched.h>

#include <array>
#include <mutex>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

// "0-3,8": the set in the words of --lcores. DPDK numbers CPUs below RTE_MAX_LCORE only.
std::string list_of(const cpu_set_t& set) {
  std::string list;
  for (int first = 0; first < RTE_MAX_LCORE; ++first) {
    if (!CPU_ISSET(first, &set)) continue;
    int last = first;
    while (last + 1 < RTE_MAX_LCORE && CPU_ISSET(last + 1, &set)) ++last;
    if (!list.empty()) list += ',';
    list += std::to_string(first);
    if (last != first) list += '-' + std::to_string(last);
    first = last;
  }
  return list;
}

std::string describe_failure() {
  return std::string("DPDK's memory layer (EAL) could not start: ") + rte_strerror(rte_errno) +
         "; it needs 64 MiB of address space and the right to create a thread";
}

// An empty string, or what went wrong.
std::string initialise() {
  // An application that initialised EAL has an lcore, its main thread.
  if (rte_lcore_count() != 0) return {};

  cpu_set_t own;
  CPU_ZERO(&own);
  if (pthread_getaffinity_np(pthread_self(), sizeof own, &own) != 0) {
    return "The CPU affinity of this thread can't be read: it has more than 1024 CPUs";
  }
  // EAL pins the calling thread to the CPUs of its lcore: make that all the thread may use now.
  const std::string cpus = list_of(own);
  static std::string lcores = "--lcores=0@(" + (cpus.empty() ? "0" : cpus) + ")";
  static std::array<std::string, 8> words = {
      "hawser", "--no-huge",           "--no-pci", "--no-shconf", "--no-telemetry",
      "-m64",   "--log-level=*:error", lcores};
  static std::array<char*, words.size() + 1> arguments{};  // EAL keeps pointers to them
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();

  const bool started = rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0;
  // Exact also where the set reaches beyond what EAL can name, and after a failure half way.
  const bool restored = pthread_setaffinity_np(pthread_self(), sizeof own, &own) == 0;
  if (!started) return describe_failure();
  if (!restored) return "DPDK's memory layer (EAL) changed this thread's CPU affinity for good";
  return {};
}

}  // namespace

void ensure_eal() {
  static std::mutex mutex;
  static bool tried = false;
  static std::string failure;
  const std::lock_guard lock(mutex);
  if (!tried) {
    failure = initialise();
    tried = true;
  }
  if (!failure.empty()) throw Error(failure);
}

}  // namespace hawser::engine
