// SPDX-License-Identifier: Apache-2.0
// pthread_cancel: the calls that wait end their thread and leave the objects as they were. No other
// call is a cancellation point.
#include <catch2/catch.hpp>

#include <pthread.h>

#include "test/plugin/ofi/scene.hpp"
#include "test/support/cancellable.hpp"

using namespace hawser::test;

namespace {

void pass_a_message(Pair& pair) {
  std::array<char, 4> in{};
  REQUIRE(fi_trecv(pair.b.ep.get(), in.data(), 4, nullptr, pair.to_a, 1, 0, nullptr) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  CHECK(pair.next_b().answer == 1);
  CHECK(std::string(in.data()) == "abc");
}

Owned<fid_eq> open_eq(Node& node) {
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  fid_eq* queue = nullptr;
  REQUIRE(fi_eq_open(node.fabric.get(), &attr, &queue, nullptr) == 0);
  return Owned<fid_eq>(queue);
}

}  // namespace

TEST_CASE("Cancellation__ends_a_thread_that_waits_for_a_completion") {
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD);
  const std::string threads = GENERATE("0", "1");
  CAPTURE(object, threads);
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair({.wait_obj = object});
  pass_a_message(pair);
  fi_cq_tagged_entry none{};
  Cancellable waiter([&] {
    for (;;) (void)fi_cq_sread(pair.b.cq.get(), &none, 1, nullptr, -1);
  });
  if (object != FI_WAIT_YIELD) CHECK(waiter.blocks_in_kernel());
  waiter.cancel();
  CHECK(waiter.was_cancelled());
  pass_a_message(pair);
}

TEST_CASE("Cancellation__ends_a_thread_that_waits_for_a_counter_or_an_event") {
  Pair pair({.wait_obj = FI_WAIT_UNSPEC, .counts = true});
  const Owned<fid_eq> events = open_eq(pair.a);
  std::array<std::byte, 64> event{};
  std::uint32_t kind = 0;
  Cancellable counts([&] {
    for (;;) (void)fi_cntr_wait(pair.b.received.get(), 1000, -1);
  });
  Cancellable reads(
      [&] { (void)fi_eq_sread(events.get(), &kind, event.data(), event.size(), -1, 0); });
  CHECK(reads.blocks_in_kernel());
  for (Cancellable* waiter : {&counts, &reads}) {
    waiter->cancel();
    CHECK(waiter->was_cancelled());
  }
  pass_a_message(pair);
  CHECK(fi_eq_write(events.get(), FI_NOTIFY, event.data(), 8, 0) == 8);
  CHECK(fi_eq_sread(events.get(), &kind, event.data(), event.size(), kHangLimitMs, 0) == 8);
}

TEST_CASE("Cancellation__of_a_thread_in_any_other_call_is_held_off") {
  const std::string threads = GENERATE("0", "1");
  CAPTURE(threads);
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  bool made_all_calls = false;
  Cancellable caller([&] {
    // Create the objects first: libfabric itself may be cancelled while it loads libraries.
    Pair pair({.wait_obj = FI_WAIT_FD});
    (void)::pthread_cancel(::pthread_self());
    pass_a_message(pair);
    (void)fi_cq_signal(pair.a.cq.get());
    int descriptor = -1;
    CHECK(fi_control(&pair.a.cq->fid, FI_GETWAIT, &descriptor) == 0);
    for (Node* node : {&pair.a, &pair.b}) {
      node->ep.reset();
      node->cq.reset();
      node->av.reset();
      node->domain.reset();
    }
    made_all_calls = true;
    ::pthread_testcancel();
  });
  CHECK(caller.was_cancelled());
  CHECK(made_all_calls);
}
