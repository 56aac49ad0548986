// SPDX-License-Identifier: Apache-2.0
// pthread_cancel ends a thread where it blocks in `wait`, and leaves the endpoint as it was. No
// other call is a cancellation point.
#include <poll.h>
#include <pthread.h>

#include <catch2/catch.hpp>

#include "engine/cancellation.hpp"
#include "engine/log.hpp"
#include "hawser/nics.hpp"
#include "test/engine/cancelled_calls.hpp"
#include "test/support/cancellable.hpp"

namespace hawser::engine {
namespace {

using test::Cancellable;

TEST_CASE("Cancellation__ends_a_thread_that_waits_and_others_go_on_with_its_endpoint") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  check_that_messages_pass(pair);
  Completion none;
  Cancellable waiter([&] { (void)pair.b->wait(std::span(&none, 1), kHangLimitNs); });
  CHECK(waiter.blocks_in_kernel());
  waiter.cancel();
  CHECK(waiter.was_cancelled());
  check_that_messages_pass(pair);
}

// The cancelled thread had armed and disarmed the descriptor's sources on its own account.
TEST_CASE("Cancellation__leaves_the_descriptor_of_the_endpoint_right") {
  const unsigned threads = GENERATE(0u, 1u);
  CAPTURE(threads);
  EndpointPair pair({"udp", threads});
  check_that_messages_pass(pair);
  std::array<pollfd, 2> fds{{{pair.a->fd(), POLLIN, 0}, {pair.b->fd(), POLLIN, 0}}};
  Completion completion;
  Cancellable waiter([&] { (void)pair.b->wait(std::span(&completion, 1), kHangLimitNs); });
  CHECK(waiter.blocks_in_kernel());
  waiter.cancel();
  CHECK(waiter.was_cancelled());
  std::vector<std::byte> received(100);
  const std::vector<std::byte> sent = pattern(100, 4);
  post_receive(*pair.b, pair.a_of_b, 1, received);
  post_send(*pair.a, pair.b_of_a, 1, sent);
  for (std::size_t received_some = 0; received_some == 0;) {
    REQUIRE(::poll(fds.data(), fds.size(), kHangLimitMs) > 0);
    if (fds[0].revents != 0) (void)pair.a->poll({});
    if (fds[1].revents != 0) received_some = pair.b->poll(std::span(&completion, 1));
  }
  CHECK(received == sent);
  poll_until(pair, 1);  // the send's
}

TEST_CASE("Cancellation__ends_a_thread_that_waits_again_and_again_without_blocking") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  Cancellable waiter([&] {
    (void)::pthread_cancel(::pthread_self());
    (void)pair.a->wait({}, 0);
  });
  CHECK(waiter.was_cancelled());
  check_that_messages_pass(pair);
}

TEST_CASE("Cancellation__of_a_thread_in_any_other_call_is_held_off") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables tunables = short_close();
  // The engine threads always sleep, so every ring of their doorbell is a system call.
  tunables.spin_us = 0;
  tunables.yield_us = 0;
  bool made_all_calls = false;
  Cancellable caller([&] {
    (void)::pthread_cancel(::pthread_self());
    EndpointPair pair(setting, tunables, 2, "seed=1");
    make_all_calls(pair);
    CHECK(pair.engine_a.inject_fault(9, "loss=0") == Status::invalid_argument);
    CHECK_FALSE(host_nics().empty());
    log_warning("A message of the library, which a cancelled thread writes");
    pair.a.reset();
    pair.b.reset();
    made_all_calls = true;
    ::pthread_testcancel();
  });
  CHECK(caller.was_cancelled());
  CHECK(made_all_calls);
}

TEST_CASE("CancellationHold__they_nest") {
  int before = -1;
  {
    const CancellationHold outer;
    { const CancellationHold inner; }
    REQUIRE(::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
    CHECK(before == PTHREAD_CANCEL_DISABLE);
  }
  REQUIRE(::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before) == 0);
  CHECK(before == PTHREAD_CANCEL_ENABLE);
}

}  // namespace
}  // namespace hawser::engine
