// SPDX-License-Identifier: Apache-2.0
// DPDK's environment abstraction layer (EAL), started as a program does that uses DPDK.
#pragma once

#include <rte_config.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <signal.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace hawser::engine {

// Call it before the engine is made. EAL can't be ended, so pools of the other kind come first.
inline void start_eal() {
  if (rte_lcore_count() != 0) return;
  static std::array<std::string, 8> words = {
      "test", "-l0",         "--no-huge",      "--no-pci",
      "-m64", "--no-shconf", "--no-telemetry", "--log-level=*:error"};
  static std::array<char*, words.size() + 1> arguments{};  // EAL keeps pointers to them
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  // Its threads inherit the mask.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  const int result = rte_eal_init(static_cast<int>(words.size()), arguments.data());
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  REQUIRE(result >= 0);
}

}  // namespace hawser::engine
