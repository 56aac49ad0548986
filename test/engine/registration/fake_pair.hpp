// SPDX-License-Identifier: Apache-2.0
// Two endpoints over the double of libibverbs, and private memory for them to send from.
#pragma once

#include <poll.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/registration/userfault.hpp"
#include "hawser/engine.hpp"
#include "test/engine/driver/conformance/fake_rigs.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {

inline constexpr std::size_t kNics = 2;  // of each endpoint

// A mapping that nothing else uses, not even the allocator.
class OwnMemory {
 public:
  explicit OwnMemory(std::size_t bytes) : bytes_(bytes), data_(map(nullptr, 0)) {}
  ~OwnMemory() { unmap(); }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, bytes_}; }
  void fill(std::uint64_t seed) {
    const std::vector<std::byte> pattern_bytes = pattern(bytes_, seed);
    std::memcpy(data_, pattern_bytes.data(), bytes_);
  }
  // Puts another mapping in the same place.
  void replace() { REQUIRE(map(data_, MAP_FIXED) == data_); }
  void unmap() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    data_ = nullptr;
  }

 private:
  std::byte* map(void* where, int flags) const {
    void* const data =
        ::mmap(where, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    REQUIRE(data != MAP_FAILED);
    return static_cast<std::byte*>(data);
  }

  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

inline Tunables few_peers() {
  Tunables tunables = short_close();
  tunables.max_peers = 4;
  return tunables;
}

inline Tunables without_cache() {
  Tunables tunables = few_peers();
  tunables.registration_cache_bytes = 0;
  return tunables;
}

// The base class outlives the endpoints.
class FakePair : public test::Cables {
 public:
  explicit FakePair(unsigned threads, const Tunables& tunables = few_peers())
      : Cables(test::RoceV6{}, IBV_MTU_4096),
        engine_a({{"verbs:rxe_a0", "verbs:rxe_a1"}, threads, tunables, ""}),
        engine_b({{"verbs:rxe_b0", "verbs:rxe_b1"}, threads, tunables, ""}),
        has_threads(threads > 0) {
    open();
  }
  // Makes the endpoints anew, for tests that change something first.
  void open() {
    a = engine_a.create_endpoint({});
    b = engine_b.create_endpoint({});
    REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
    REQUIRE(b->connect(a->address(), a_of_b) == Status::ok);
    own = fabric.registrations();
  }

  // Sends a message from a, receives and compares it.
  void exchange(std::span<const std::byte> sent) { exchange(sent, sent); }
  void exchange(std::span<const std::byte> sent, std::span<const std::byte> contents) {
    std::vector<std::byte> received(sent.size());
    post_receive(*b, kAnyPeer, ++tag_, received);
    post_send(*a, b_of_a, tag_, sent);
    CHECK(next_of(*b, *a).status == Status::ok);
    CHECK(std::equal(received.begin(), received.end(), contents.begin(), contents.end()));
    const Completion completion = next_of(*a, *b);
    CHECK(completion.status == Status::ok);
    CHECK(completion.released);
  }
  // The bytes that `function` makes `a` send in place, and those it makes it copy.
  template <class Function>
  std::pair<std::uint64_t, std::uint64_t> payload(Function function) {
    const EndpointStats before = a->stats();
    function();
    const EndpointStats after = a->stats();
    return {after.payload_bytes_in_place - before.payload_bytes_in_place,
            after.payload_bytes_copied - before.payload_bytes_copied};
  }
  std::pair<std::uint64_t, std::uint64_t> payload_of(std::span<const std::byte> sent) {
    return payload([&] { exchange(sent); });
  }
  // Gives turns until the condition is true.
  template <class Condition>
  [[nodiscard]] bool becomes(Condition condition) {
    for (const HangLimit limit; !limit.is_over();) {
      if (condition()) return true;
      a->poll({});
      b->poll({});
      // The engine threads need time for their turns.
      if (has_threads) (void)::poll(nullptr, 0, 1);
    }
    return condition();
  }
  // Sends from the memory, and waits until the next send from it would be a hit.
  [[nodiscard]] bool is_cached(std::span<const std::byte> memory) {
    const std::uint64_t made = a->stats().registrations_made;
    exchange(memory);
    return becomes([&] { return a->stats().registrations_made > made; });
  }

  Engine engine_a;
  Engine engine_b;
  bool has_threads;
  std::unique_ptr<Endpoint> a;
  std::unique_ptr<Endpoint> b;
  PeerId b_of_a = kAnyPeer;
  PeerId a_of_b = kAnyPeer;
  std::size_t own = 0;  // registrations that the NICs made themselves

 private:
  std::uint64_t tag_ = 0;
};

// False, with a message that says why, where this kernel gives no userfaultfd.
[[nodiscard]] inline bool cache_works_here() {
  std::string why;
  if (Userfault::shared(why) != nullptr) return true;
  WARN("skipped: " << why);
  return false;
}

}  // namespace hawser::engine
