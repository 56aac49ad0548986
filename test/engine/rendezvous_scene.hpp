// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of the rendezvous.
#pragma once

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/bootstrap_wire.hpp"

namespace hawser::engine {

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Runs one thread per rank and rethrows the first failure that any of them throws.
inline void run_ranks(std::uint32_t count, const std::function<void(std::uint32_t rank)>& run) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

// The error that `call` throws. Its text must be one line and not empty.
template <class Call>
BootstrapError error_of(Call&& call) {
  try {
    call();
  } catch (const BootstrapError& error) {
    const std::string text = error.what();
    CHECK(!text.empty());
    CHECK(text.find('\n') == std::string::npos);
    return error;
  }
  FAIL("no error");
  return {BootstrapFailure::unreachable, ""};
}

inline int connect_raw(const std::string& address) {
  const std::vector<bootstrap::Endpoint> endpoints = bootstrap::resolve(address);
  const int fd = ::socket(endpoints[0].storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::connect(fd, endpoints[0].get(), endpoints[0].bytes) == 0);
  return fd;
}

}  // namespace hawser::engine
