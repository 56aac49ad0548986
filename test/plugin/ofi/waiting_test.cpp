// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <poll.h>

#include <thread>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

// A thread that polls a node for as long as it lives.
class Turner {
 public:
  explicit Turner(Node& node)
      : thread_([this, &node] {
          while (!done_) (void)fi_cq_read(node.cq.get(), nullptr, 0);
        }) {}
  ~Turner() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("Waiting__in_vain_until_the_time_is_over") {
  Pair pair({.wait_obj = FI_WAIT_UNSPEC});
  fi_cq_tagged_entry entry{};
  const std::int64_t begin = now_ms();
  CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, 50) == -FI_EAGAIN);
  CHECK(now_ms() - begin >= 50);
  CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, 0) == -FI_EAGAIN);
}

TEST_CASE("Waiting__a_queue_without_a_wait_object_can_t_be_waited_for") {
  Pair pair;
  fi_cq_tagged_entry entry{};
  CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, 50) == -FI_ENOSYS);
  fid* fids[] = {&pair.a.cq->fid};
  CHECK(fi_trywait(pair.a.fabric.get(), fids, 1) == -FI_EINVAL);
}

TEST_CASE("Waiting__for_a_message_that_comes_later_blocked_in_the_kernel") {
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD);
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair({.wait_obj = object});
  std::array<std::array<char, 4>, 3> out{};
  std::array<fi_addr_t, 1> source{};
  for (auto& buffer : out) {
    REQUIRE(fi_trecv(pair.b.ep.get(), buffer.data(), 4, nullptr, pair.to_a, 1, 0, &buffer) == 0);
  }
  const Turner turner(pair.a);
  for (auto& buffer : out) {
    std::thread sender([&] {
      fi_cq_tagged_entry none{};
      // Waits on the empty queue of `a`, to give the other thread time to fall asleep.
      (void)fi_cq_sread(pair.a.cq.get(), &none, 1, nullptr, 20);
      REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
    });
    fi_cq_tagged_entry entry{};
    CHECK(fi_cq_sreadfrom(pair.b.cq.get(), &entry, 1, source.data(), nullptr, kHangLimitMs) == 1);
    CHECK(entry.op_context == &buffer);
    CHECK(source[0] == pair.to_a);
    sender.join();
  }
}

TEST_CASE("Waiting__fi_cq_signal_ends_it") {
  Pair pair({.wait_obj = FI_WAIT_UNSPEC});
  std::thread waiter([&] {
    fi_cq_tagged_entry entry{};
    CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, -1) == -FI_EAGAIN);
  });
  REQUIRE(fi_cq_signal(pair.a.cq.get()) == 0);
  waiter.join();
}

TEST_CASE("Waiting__one_thread_s_progress_wakes_another_that_sleeps") {
  Pair pair({.wait_obj = FI_WAIT_UNSPEC, .counts = true});
  std::array<char, 4> out{};
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  std::thread waiter([&] { CHECK(fi_cntr_wait(pair.b.received.get(), 1, kHangLimitMs) == 0); });
  {
    const Turner turn_a(pair.a), turn_b(pair.b);
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
    waiter.join();
  }
  CHECK(fi_cntr_read(pair.b.received.get()) == 1);
}

TEST_CASE("Waiting__a_program_s_own_poll_with_fi_trywait_before_it") {
  Pair pair({.wait_obj = FI_WAIT_FD});
  fi_wait_obj kind = FI_WAIT_NONE;
  REQUIRE(fi_control(&pair.b.cq->fid, FI_GETWAITOBJ, &kind) == 0);
  CHECK(kind == FI_WAIT_FD);
  int descriptor = -1;
  REQUIRE(fi_control(&pair.b.cq->fid, FI_GETWAIT, &descriptor) == 0);
  std::array<std::array<char, 4>, 20> out{};
  for (auto& buffer : out) {
    REQUIRE(fi_trecv(pair.b.ep.get(), buffer.data(), 4, nullptr, pair.to_a, 1, 0, &buffer) == 0);
  }
  const Turner turner(pair.a);
  std::size_t received = 0;
  const HangLimit limit;
  for (std::size_t i = 0; i < out.size(); ++i) {
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
    while (received <= i && !limit.is_over()) {
      fid* fids[] = {&pair.b.cq->fid};
      if (fi_trywait(pair.b.fabric.get(), fids, 1) == 0) {
        pollfd waits{descriptor, POLLIN, 0};
        REQUIRE(::poll(&waits, 1, kHangLimitMs) == 1);
      }
      fi_cq_tagged_entry entry{};
      if (fi_cq_read(pair.b.cq.get(), &entry, 1) == 1) ++received;
    }
  }
  CHECK(received == out.size());
}

TEST_CASE("Waiting__a_poll_set_names_the_queues_and_counters_that_have_news") {
  Pair pair({.counts = true});
  fi_poll_attr attr{};
  fid_poll* opened = nullptr;
  REQUIRE(fi_poll_open(pair.b.domain.get(), &attr, &opened) == 0);
  const Owned<fid_poll> set(opened);
  int queue_name = 0, counter_name = 0;
  pair.b.cq->fid.context = &queue_name;
  pair.b.received->fid.context = &counter_name;
  REQUIRE(fi_poll_add(set.get(), &pair.b.cq->fid, 0) == 0);
  REQUIRE(fi_poll_add(set.get(), &pair.b.received->fid, 0) == 0);
  CHECK(fi_poll_add(set.get(), &pair.b.ep->fid, 0) == -FI_EINVAL);
  std::array<void*, 4> found{};
  CHECK(fi_poll(set.get(), found.data(), 4) == 0);
  std::array<char, 4> out{};
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  REQUIRE(pair.until([&] { return fi_poll(set.get(), found.data(), 4) == 2; }));
  CHECK(found[0] == &queue_name);
  CHECK(found[1] == &counter_name);
  CHECK(fi_poll(set.get(), found.data(), 4) == 1);  // the queue still has its entry
  CHECK(pair.b.look().answer == 1);
  CHECK(fi_poll(set.get(), found.data(), 4) == 0);
  REQUIRE(fi_poll_del(set.get(), &pair.b.cq->fid, 0) == 0);
  CHECK(fi_poll_del(set.get(), &pair.b.cq->fid, 0) == -FI_EINVAL);
}
