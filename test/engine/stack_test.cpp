// SPDX-License-Identifier: Apache-2.0
// How much stack the calls take, so that fibres, and threads with small stacks, can make them.
// docs/api.md has the table. Sanitizers and unoptimized builds have other frame sizes.
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "hawser/hawser.h"
#include "test/engine/cancelled_calls.hpp"

#ifdef __OPTIMIZE__
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAWSER_FRAMES_ARE_THOSE_OF_A_RELEASE
#endif
#endif

namespace hawser::engine {
namespace {

constexpr std::size_t kStack = 4096 * 1024;  // a sanitizer takes a megabyte for itself
constexpr std::size_t kGuard = 64 * 1024;
constexpr std::uint8_t kPaint = 0xa5;

// A thread whose stack is filled with a pattern before it begins.
class PaintedStack {
 public:
  PaintedStack() {
    void* const all = ::mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(all != MAP_FAILED);
    REQUIRE(::mprotect(all, kGuard, PROT_NONE) == 0);
    memory_ = static_cast<std::uint8_t*>(all) + kGuard;
  }
  ~PaintedStack() { (void)::munmap(memory_ - kGuard, kGuard + kStack); }
  PaintedStack(const PaintedStack&) = delete;
  PaintedStack& operator=(const PaintedStack&) = delete;

  // Returns how many bytes below its own frame `run` uses.
  [[nodiscard]] std::size_t depth_of(std::function<void()> run) {
    std::fill_n(memory_, kStack, kPaint);
    run_ = std::move(run);
    pthread_attr_t attributes;
    REQUIRE(::pthread_attr_init(&attributes) == 0);
    REQUIRE(::pthread_attr_setstack(&attributes, memory_, kStack) == 0);
    pthread_t thread{};
    REQUIRE(::pthread_create(&thread, &attributes, begin, this) == 0);
    REQUIRE(::pthread_join(thread, nullptr) == 0);
    REQUIRE(::pthread_attr_destroy(&attributes) == 0);
    const std::uint8_t* lowest = memory_;
    while (*lowest == kPaint) ++lowest;
    return static_cast<std::size_t>(top_ - lowest);
  }

 private:
  static void* begin(void* self) {
    auto& mine = *static_cast<PaintedStack*>(self);
    mine.top_ = static_cast<const std::uint8_t*>(__builtin_frame_address(0));
    mine.run_();
    return nullptr;
  }

  std::uint8_t* memory_ = nullptr;
  const std::uint8_t* top_ = nullptr;
  std::function<void()> run_;
};

// Messages of all kinds, and the other calls of a program that polls. No function here has a large
// frame of its own.
struct Calls {
  EndpointPair& pair;
  std::vector<std::byte> sent = pattern(300'000, 1);
  std::vector<std::byte> received = std::vector<std::byte>(300'000);
  std::array<Completion, 4> some{};

  void poll_until(std::size_t completions) {
    for (const HangLimit limit; completions > 0 && !limit.is_over();) {
      for (Endpoint* endpoint : {pair.a.get(), pair.b.get()}) {
        completions -= endpoint->poll(some);
      }
    }
  }
  void pass(std::size_t bytes) {
    OperationId operation = kNoOperation;
    (void)pair.b->receive({.peer = pair.a_of_b, .tag = 1, .data = received.data(), .bytes = bytes},
                          operation);
    (void)pair.a->send({.peer = pair.b_of_a, .tag = 1, .data = sent.data(), .bytes = bytes},
                       operation);
    pair.a->flush();
    poll_until(2);
  }
  void claim() {
    OperationId operation = kNoOperation;
    (void)pair.a->send({.peer = pair.b_of_a, .tag = 2, .data = sent.data(), .bytes = 100},
                       operation);
    Envelope envelope;
    MessageId message = kNoMessage;
    for (const HangLimit limit; !limit.is_over();) {
      if (pair.b->claim({.tag = 2}, envelope, message) == Status::ok) break;
      for (Endpoint* endpoint : {pair.a.get(), pair.b.get()}) (void)endpoint->poll({});
    }
    (void)pair.b->receive_claimed(message, {.data = received.data(), .bytes = 100}, operation);
    poll_until(2);
  }
  void wait() {
    for (Endpoint* endpoint : {pair.a.get(), pair.b.get()}) (void)endpoint->wait(some, 1'000'000);
  }
  void all() {
    for (int i = 0; i < 20; ++i) pass(i % 2 == 0 ? 64 : 300'000);
    claim();
    wait();
    OperationId operation = kNoOperation;
    (void)pair.b->receive({.tag = 9, .data = received.data(), .bytes = 8}, operation);
    (void)pair.b->cancel(operation);
    poll_until(1);
  }
};

// The same calls in C.
struct CCalls {
  hawser_engine* engine = nullptr;
  std::array<hawser_endpoint*, 2> ends{};
  hawser_peer peer = 0;
  std::array<hawser_completion, 4> some{};
  std::array<hawser_event, 4> events{};
  std::array<char, 8> sent{'h', 'a', 'w', 's', 'e', 'r', '!', 0};
  std::array<char, 8> received{};

  CCalls() {
    const std::array<const char*, 1> nic{"udp:127.0.0.1"};
    hawser_engine_config config{};
    config.struct_size = sizeof config;
    config.nics = nic.data();
    config.nic_count = 1;
    REQUIRE(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, nullptr, 0) == HAWSER_OK);
    for (hawser_endpoint*& end : ends) {
      REQUIRE(hawser_endpoint_create(engine, nullptr, &end, nullptr, 0) == HAWSER_OK);
    }
    std::size_t bytes = 0;
    const void* const address = hawser_endpoint_address(ends[1], &bytes);
    REQUIRE(hawser_connect(ends[0], address, bytes, &peer) == HAWSER_OK);
  }
  ~CCalls() {
    (void)hawser_disconnect(ends[0], peer);
    for (hawser_endpoint* end : ends) hawser_endpoint_destroy(end);
    hawser_engine_destroy(engine);
  }
  CCalls(const CCalls&) = delete;
  CCalls& operator=(const CCalls&) = delete;

  void all() {
    hawser_operation operation = 0;
    const hawser_receive_request receive{.struct_size = sizeof receive,
                                         .data = received.data(),
                                         .bytes = received.size(),
                                         .tag = 1,
                                         .ignore = 0,
                                         .user_data = 0,
                                         .hint = {},
                                         .peer = HAWSER_ANY_PEER,
                                         .channel = 0,
                                         .owner = HAWSER_APPLICATION,
                                         .reserved = {},
                                         .pieces = nullptr,
                                         .piece_count = 0};
    const hawser_send_request send{.struct_size = sizeof send,
                                   .data = sent.data(),
                                   .bytes = sent.size(),
                                   .tag = 1,
                                   .immediate = 0,
                                   .user_data = 0,
                                   .hint = {},
                                   .peer = peer,
                                   .channel = 0,
                                   .level = HAWSER_ACCEPTED,
                                   .owner = HAWSER_APPLICATION,
                                   .reserved = {},
                                   .pieces = nullptr,
                                   .piece_count = 0};
    (void)hawser_receive(ends[1], &receive, &operation);
    (void)hawser_send(ends[0], &send, &operation);
    std::size_t done = 0;
    for (const HangLimit limit; done < 2 && !limit.is_over();) {
      for (hawser_endpoint* end : ends) {
        done += hawser_poll(end, some.data(), some.size());
        done += hawser_wait(end, some.data(), some.size(), 1000);
        (void)hawser_poll_events(end, events.data(), events.size());
      }
    }
  }
};

// The limits that docs/api.md states.
#ifdef HAWSER_FRAMES_ARE_THOSE_OF_A_RELEASE
constexpr std::size_t kMostOfATurn = 8 * 1024;
constexpr std::size_t kMostOfAllElse = 32 * 1024;
constexpr std::size_t kLeastStack = 16 * 1024;
constexpr std::size_t kStackOfAllElse = 32 * 1024;
#else
constexpr std::size_t kMostOfATurn = kStack;
constexpr std::size_t kMostOfAllElse = kStack;
constexpr std::size_t kLeastStack = kStack;
constexpr std::size_t kStackOfAllElse = kStack;
#endif

// Runs on a thread whose stack has `bytes`, which the thread's own variables share: glibc puts
// them, and its descriptor of the thread, at the stack's top. A frame beyond the stack's end lies
// in the guard, and ends the process by SIGSEGV.
void run_on_stack_of(std::size_t bytes, std::function<void()> run) {
  pthread_attr_t attributes;
  REQUIRE(::pthread_attr_init(&attributes) == 0);
  REQUIRE(::pthread_attr_setstacksize(&attributes, bytes) == 0);
  REQUIRE(::pthread_attr_setguardsize(&attributes, kGuard) == 0);
  pthread_t thread{};
  const auto begin = [](void* what) -> void* {
    (*static_cast<std::function<void()>*>(what))();
    return nullptr;
  };
  // EINVAL: the variables leave too little of it.
  REQUIRE(::pthread_create(&thread, &attributes, begin, &run) == 0);
  REQUIRE(::pthread_join(thread, nullptr) == 0);
  REQUIRE(::pthread_attr_destroy(&attributes) == 0);
}

}  // namespace

TEST_CASE("Stack__messages_and_progress_take_little_of_it") {
  const unsigned threads = GENERATE(0u, 1u);
  const std::string faults = GENERATE("", "loss=0.05,duplicate=0.05,reorder=0.05,seed=3");
  CAPTURE(threads, faults);
  EndpointPair pair({"udp", threads}, short_close(), 2, faults);
  Calls calls{pair};
  PaintedStack stack;
  const std::size_t depth = stack.depth_of([&] { calls.all(); });
  CAPTURE(depth);
  CHECK(std::ranges::mismatch(calls.received, calls.sent).in1 == calls.received.end());
  CHECK(depth <= kMostOfATurn);
}

TEST_CASE("Stack__the_C_API_takes_little_more") {
  CCalls calls;
  PaintedStack stack;
  const std::size_t depth = stack.depth_of([&] { calls.all(); });
  CAPTURE(depth);
  CHECK(calls.received == calls.sent);
  CHECK(depth <= kMostOfATurn);
}

TEST_CASE("Stack__all_other_calls_fit_into_a_usual_one") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  PaintedStack stack;
  const std::size_t depth = stack.depth_of([&] {
    EndpointPair pair({"udp", threads}, short_close(), 2, "seed=1");
    make_all_calls(pair);
  });
  CAPTURE(depth);
  CHECK(depth <= kMostOfAllElse);
}

TEST_CASE("Stack__the_smallest_possible_one_is_enough_for_messages_and_progress") {
  if (kLeastStack != kStack) REQUIRE(kLeastStack == static_cast<std::size_t>(PTHREAD_STACK_MIN));
  const unsigned threads = GENERATE(0u, 1u);
  const std::string faults = GENERATE("", "loss=0.05,duplicate=0.05,reorder=0.05,seed=3");
  CAPTURE(threads, faults);
  EndpointPair pair({"udp", threads}, short_close(), 2, faults);
  Calls calls{pair};
  run_on_stack_of(kLeastStack, [&] { calls.all(); });
  CHECK(std::ranges::mismatch(calls.received, calls.sent).in1 == calls.received.end());
}

TEST_CASE("Stack__the_smallest_possible_one_is_enough_for_the_C_API") {
  CCalls calls;
  run_on_stack_of(kLeastStack, [&] { calls.all(); });
  CHECK(calls.received == calls.sent);
}

TEST_CASE("Stack__of_32_KiB_is_enough_for_all_calls") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  bool is_done = false;
  run_on_stack_of(kStackOfAllElse, [&] {
    EndpointPair pair({"udp", threads}, short_close(), 2, "seed=1");
    make_all_calls(pair);
    is_done = true;
  });
  CHECK(is_done);
}

}  // namespace hawser::engine
