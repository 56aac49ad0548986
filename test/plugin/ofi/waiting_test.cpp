// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include <poll.h>

#include <thread>

#include "test/plugin/ofi/scene.hpp"
#include "test/support/cancellable.hpp"

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

int descriptor_of(fid& object) {
  int descriptor = -1;
  REQUIRE(fi_control(&object, FI_GETWAIT, &descriptor) == 0);
  return descriptor;
}

bool is_readable(int descriptor, int timeout_ms = 0) {
  pollfd waits{descriptor, POLLIN, 0};
  return ::poll(&waits, 1, timeout_ms) == 1;
}

int try_wait(Node& node, fid& object) {
  fid* fids[] = {&object};
  return fi_trywait(node.fabric.get(), fids, 1);
}

// A program may wait for the descriptor, and nothing is there.
bool comes_to_rest(Node& node, fid& object, int descriptor) {
  return comes_true([&] { return try_wait(node, object) == 0 && !is_readable(descriptor); });
}

// Writes an error entry into the node's queue, since no such message is there.
void peek_in_vain(Node& node) {
  const fi_msg_tagged look{nullptr, nullptr, 0, FI_ADDR_UNSPEC, 77, 0, nullptr, 0};
  REQUIRE(fi_trecvmsg(node.ep.get(), &look, FI_PEEK) == 0);
}

Owned<fid_cntr> open_counter(Node& node, fi_wait_obj object) {
  fi_cntr_attr attr{};
  attr.wait_obj = object;
  fid_cntr* counter = nullptr;
  REQUIRE(fi_cntr_open(node.domain.get(), &attr, &counter, nullptr) == 0);
  return Owned<fid_cntr>(counter);
}

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

// A poll set with the completion queue and the receive counter of `pair.b`, which get the contexts
// `queue` and `counter`.
static Owned<fid_poll> poll_set_of_b(Pair& pair, int& queue, int& counter) {
  fi_poll_attr attr{};
  fid_poll* opened = nullptr;
  REQUIRE(fi_poll_open(pair.b.domain.get(), &attr, &opened) == 0);
  Owned<fid_poll> set(opened);
  pair.b.cq->fid.context = &queue;
  pair.b.received->fid.context = &counter;
  REQUIRE(fi_poll_add(set.get(), &pair.b.cq->fid, 0) == 0);
  REQUIRE(fi_poll_add(set.get(), &pair.b.received->fid, 0) == 0);
  return set;
}

TEST_CASE("Waiting__a_poll_set_names_the_queues_and_counters_that_have_news") {
  Pair pair({.counts = true});
  int queue_name = 0, counter_name = 0;
  const Owned<fid_poll> set = poll_set_of_b(pair, queue_name, counter_name);
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

TEST_CASE("Waiting__a_poll_set_with_little_room_passes_over_no_member") {
  Pair pair({.counts = true});
  int queue_name = 0, counter_name = 0;
  const Owned<fid_poll> set = poll_set_of_b(pair, queue_name, counter_name);
  CHECK(fi_poll_add(set.get(), &pair.b.cq->fid, 0) == -FI_EINVAL);
  peek_in_vain(pair.b);  // nobody reads this entry, so the queue is always ready
  void* found = nullptr;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(fi_cntr_add(pair.b.received.get(), 1) == 0);
    bool was_named = false;
    for (int polls = 0; polls < 2; ++polls) {
      REQUIRE(fi_poll(set.get(), &found, 1) == 1);
      was_named = was_named || found == &counter_name;
    }
    CHECK(was_named);
  }
}

// The receiver's side is read, and the sender's side must wake up by itself.
TEST_CASE("Waiting__for_a_message_to_oneself_to_be_delivered") {
  const std::string threads = GENERATE("0", "1");
  CAPTURE(threads);
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Variables variables;
  Node node;
  std::array<Owned<fid_cq>, 2> queues;
  for (Owned<fid_cq>& queue : queues) {
    fi_cq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    fid_cq* cq = nullptr;
    REQUIRE(fi_cq_open(node.domain.get(), &attr, &cq, nullptr) == 0);
    queue.reset(cq);
  }
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(node.domain.get(), node.info.get(), &opened, nullptr) == 0);
  const Owned<fid_ep> ep(opened);
  REQUIRE(fi_ep_bind(ep.get(), &node.av->fid, 0) == 0);
  REQUIRE(fi_ep_bind(ep.get(), &queues[0]->fid, FI_TRANSMIT) == 0);
  REQUIRE(fi_ep_bind(ep.get(), &queues[1]->fid, FI_RECV) == 0);
  REQUIRE(fi_enable(ep.get()) == 0);
  std::array<std::byte, 56> name{};
  std::size_t bytes = name.size();
  REQUIRE(fi_getname(&ep->fid, name.data(), &bytes) == 0);
  fi_addr_t self = FI_ADDR_NOTAVAIL;
  REQUIRE(fi_av_insert(node.av.get(), name.data(), 1, &self, 0, nullptr) == 1);
  const int descriptor = descriptor_of(queues[0]->fid);
  std::array<char, 4> out{};
  iovec iov{out.data(), 4};
  const fi_msg_tagged message{&iov, nullptr, 1, self, 1, 0, &out, 0};
  fi_cq_tagged_entry entry{};
  for (int i = 0; i < 50; ++i) {
    REQUIRE(fi_tsendmsg(ep.get(), &message, FI_DELIVERY_COMPLETE) == 0);
    REQUIRE(fi_trecv(ep.get(), out.data(), 4, nullptr, self, 1, 0, nullptr) == 0);
    REQUIRE(comes_true([&] { return fi_cq_read(queues[1].get(), &entry, 1) == 1; }));
    const HangLimit limit;
    while (fi_cq_read(queues[0].get(), &entry, 1) != 1) {
      REQUIRE_FALSE(limit.is_over());
      if (try_wait(node, queues[0]->fid) == 0) REQUIRE(is_readable(descriptor, kHangLimitMs));
    }
  }
}

TEST_CASE("Waiting__one_entry_wakes_all_threads_that_wait") {
  Pair pair({.wait_obj = FI_WAIT_UNSPEC});
  for (int i = 0; i < 50; ++i) {
    const auto wait = [&] {
      fi_cq_tagged_entry entry{};
      CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, kHangLimitMs) == -FI_EAVAIL);
    };
    Cancellable one(wait), two(wait), three(wait);
    for (Cancellable* waiter : {&one, &two, &three}) REQUIRE(waiter->blocks_in_kernel());
    peek_in_vain(pair.a);
    for (Cancellable* waiter : {&one, &two, &three}) CHECK_FALSE(waiter->was_cancelled());
    CHECK(pair.a.look().answer == -FI_EAVAIL);
  }
}

TEST_CASE("Waiting__a_count_wakes_all_threads_that_it_suffices_for") {
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD);
  Pair pair;
  const Owned<fid_cntr> counter = open_counter(pair.a, object);
  for (std::uint64_t i = 0; i < 50; ++i) {
    REQUIRE(fi_cntr_set(counter.get(), 0) == 0);
    const auto wait = [&](std::uint64_t threshold) {
      CHECK(fi_cntr_wait(counter.get(), threshold, kHangLimitMs) == 0);
    };
    Cancellable low([&] { wait(1); }), also_low([&] { wait(1); }), high([&] { wait(2); });
    for (Cancellable* waiter : {&low, &also_low, &high}) REQUIRE(waiter->blocks_in_kernel());
    REQUIRE(fi_cntr_add(counter.get(), 1) == 0);
    for (Cancellable* waiter : {&low, &also_low}) CHECK_FALSE(waiter->was_cancelled());
    REQUIRE(fi_cntr_add(counter.get(), 1) == 0);
    CHECK_FALSE(high.was_cancelled());
  }
}

TEST_CASE("Waiting__a_signal_ends_one_wait_and_no_later_one") {
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD);
  Pair pair({.wait_obj = object});
  fid& queue = pair.a.cq->fid;
  const int descriptor = descriptor_of(queue);
  REQUIRE(comes_to_rest(pair.a, queue, descriptor));
  fi_cq_tagged_entry entry{};
  REQUIRE(fi_cq_signal(pair.a.cq.get()) == 0);
  CHECK(is_readable(descriptor));
  CHECK(fi_cq_sread(pair.a.cq.get(), &entry, 1, nullptr, -1) == -FI_EAGAIN);
  CHECK(comes_to_rest(pair.a, queue, descriptor));
  REQUIRE(fi_cq_signal(pair.a.cq.get()) == 0);
  CHECK(try_wait(pair.a, queue) == -FI_EAGAIN);  // the program looks whether it is meant
  CHECK(comes_to_rest(pair.a, queue, descriptor));
}

TEST_CASE("Waiting__a_descriptor_tells_what_comes_whatever_the_wait_object_was") {
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD);
  const bool comes_before = GENERATE(false, true);
  Pair pair({.wait_obj = object});
  if (comes_before) peek_in_vain(pair.a);
  fid& queue = pair.a.cq->fid;
  const int descriptor = descriptor_of(queue);
  if (!comes_before) {
    REQUIRE(comes_to_rest(pair.a, queue, descriptor));
    peek_in_vain(pair.a);
  }
  CHECK(is_readable(descriptor));
  CHECK(try_wait(pair.a, queue) == -FI_EAGAIN);
  CHECK(pair.a.look().answer == -FI_EAVAIL);
  CHECK(comes_to_rest(pair.a, queue, descriptor));
}

TEST_CASE("Waiting__fi_trywait_tells_of_each_count_that_the_program_has_not_read") {
  const fi_wait_obj object = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_FD);
  Pair pair;
  const Owned<fid_cntr> counter = open_counter(pair.a, object);
  const int descriptor = descriptor_of(counter->fid);
  REQUIRE(comes_to_rest(pair.a, counter->fid, descriptor));
  CHECK(fi_cntr_read(counter.get()) == 0);
  REQUIRE(fi_cntr_add(counter.get(), 1) == 0);
  CHECK(is_readable(descriptor));
  CHECK(try_wait(pair.a, counter->fid) == -FI_EAGAIN);
  CHECK(fi_cntr_read(counter.get()) == 1);
  REQUIRE(fi_cntr_adderr(counter.get(), 1) == 0);
  CHECK(fi_cntr_read(counter.get()) == 1);
  CHECK(try_wait(pair.a, counter->fid) == -FI_EAGAIN);  // the errors were not read
  CHECK(comes_to_rest(pair.a, counter->fid, descriptor));
  REQUIRE(fi_cntr_add(counter.get(), 1) == 0);
  CHECK(fi_cntr_read(counter.get()) == 2);
  CHECK(try_wait(pair.a, counter->fid) == 0);  // it was read
}

TEST_CASE("Waiting__for_a_counter_quiets_what_is_counted_already") {
  Pair pair;
  const Owned<fid_cntr> counter = open_counter(pair.a, FI_WAIT_FD);
  const int descriptor = descriptor_of(counter->fid);
  REQUIRE(fi_cntr_add(counter.get(), 1) == 0);
  CHECK(fi_cntr_wait(counter.get(), 1, -1) == 0);
  CHECK(fi_cntr_wait(counter.get(), 2, 0) == -FI_ETIMEDOUT);
  CHECK_FALSE(is_readable(descriptor));  // no endpoint is bound
}
