// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

void post(Pair& pair, void* data, std::size_t bytes, void* context) {
  iovec iov{data, bytes};
  const fi_msg message{&iov, nullptr, 1, FI_ADDR_UNSPEC, context, 0};
  REQUIRE(fi_recvmsg(pair.b.ep.get(), &message, FI_MULTI_RECV) == 0);
}

void post_from(Node& node, fi_addr_t from, std::vector<std::uint8_t>& buffer) {
  iovec iov{buffer.data(), buffer.size()};
  const fi_msg message{&iov, nullptr, 1, from, &buffer, 0};
  REQUIRE(fi_recvmsg(node.ep.get(), &message, FI_MULTI_RECV) == 0);
}

void send(Pair& pair, const std::vector<std::uint8_t>& data) {
  REQUIRE(fi_send(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, nullptr) == 0);
}

}  // namespace

TEST_CASE("MultiReceive__messages_side_by_side_the_last_gives_the_buffer_back") {
  Pair pair({.least_multi_bytes = 100});
  std::vector<std::uint8_t> buffer(1000);
  post(pair, buffer.data(), buffer.size(), &buffer);
  const auto data = pattern(300, 1);
  for (int i = 0; i < 3; ++i) send(pair, data);
  std::size_t given_back = 0;
  for (int i = 0; i < 3; ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    CHECK(entry.entry.op_context == &buffer);
    CHECK(entry.entry.len == 300);
    CHECK((entry.entry.flags & (FI_RECV | FI_MSG)) == (FI_RECV | FI_MSG));
    const auto* const at = static_cast<const std::uint8_t*>(entry.entry.buf);
    REQUIRE(at >= buffer.data());
    REQUIRE(at + 300 <= buffer.data() + buffer.size());
    CHECK(std::equal(data.begin(), data.end(), at));
    if ((entry.entry.flags & FI_MULTI_RECV) != 0) ++given_back;
    CHECK((given_back == 1) == (i == 2));  // 96 bytes are left, less than 100
  }
}

TEST_CASE("MultiReceive__what_doesn_t_fit_into_the_rest_goes_into_the_next_buffer") {
  Pair pair;
  std::vector<std::uint8_t> first(1000), second(1000);
  post(pair, first.data(), first.size(), &first);
  post(pair, second.data(), second.size(), &second);
  const auto data = pattern(700, 2);
  send(pair, data);
  send(pair, data);
  int messages = 0, given_back = 0;
  while (messages < 2) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    if ((entry.entry.flags & FI_RECV) != 0) {
      CHECK(entry.entry.op_context == (messages == 0 ? &first : &second));
      ++messages;
    }
    if ((entry.entry.flags & FI_MULTI_RECV) != 0) {
      CHECK(entry.entry.op_context == &first);
      ++given_back;
    }
  }
  CHECK(given_back == 1);
  CHECK(std::equal(data.begin(), data.end(), second.begin()));
}

TEST_CASE("MultiReceive__a_message_longer_than_the_whole_buffer_is_truncated") {
  Pair pair;
  std::vector<std::uint8_t> buffer(128);
  post(pair, buffer.data(), buffer.size(), &buffer);
  const auto data = pattern(200, 3);
  send(pair, data);
  const Entry entry = pair.next_b();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ETRUNC);
  CHECK(entry.error.olen == 72);
  CHECK((entry.error.flags & FI_MULTI_RECV) != 0);
}

TEST_CASE("MultiReceive__messages_match_in_the_order_of_posting_whatever_kind_of_receive_it_is") {
  Pair pair({.least_multi_bytes = 8});
  std::array<char, 8> before{}, after{};
  std::vector<std::uint8_t> buffer(16);
  REQUIRE(fi_recv(pair.b.ep.get(), before.data(), 8, nullptr, FI_ADDR_UNSPEC, &before) == 0);
  post(pair, buffer.data(), buffer.size(), &buffer);
  REQUIRE(fi_recv(pair.b.ep.get(), after.data(), 8, nullptr, FI_ADDR_UNSPEC, &after) == 0);
  for (const char* text : {"1111111", "2222222", "3333333", "4444444"}) {
    REQUIRE(fi_inject(pair.a.ep.get(), text, 8, pair.to_b) == 0);
  }
  for (int i = 0; i < 4; ++i) REQUIRE(pair.next_b().answer == 1);
  CHECK(std::string(before.data()) == "1111111");
  CHECK(std::string(reinterpret_cast<char*>(buffer.data())) == "2222222");
  CHECK(std::string(reinterpret_cast<char*>(buffer.data()) + 8) == "3333333");
  CHECK(std::string(after.data()) == "4444444");
}

TEST_CASE("MultiReceive__a_buffer_is_cancelled_and_so_is_a_receive_behind_it") {
  Pair pair;
  std::vector<std::uint8_t> buffer(1000);
  std::array<char, 8> behind{};
  post(pair, buffer.data(), buffer.size(), &buffer);
  REQUIRE(fi_recv(pair.b.ep.get(), behind.data(), 8, nullptr, FI_ADDR_UNSPEC, &behind) == 0);
  REQUIRE(fi_cancel(&pair.b.ep->fid, &behind) == 0);
  REQUIRE(fi_cancel(&pair.b.ep->fid, &buffer) == 0);
  const Entry first = pair.next_b();
  REQUIRE(first.answer == -FI_EAVAIL);
  CHECK(first.error.op_context == &behind);
  const Entry second = pair.next_b();
  REQUIRE(second.answer == -FI_EAVAIL);
  CHECK(second.error.op_context == &buffer);
  CHECK(second.error.err == FI_ECANCELED);
  CHECK((second.error.flags & FI_MULTI_RECV) != 0);
}

TEST_CASE("MultiReceive__thousands_of_messages_through_two_buffers_with_engine_threads_too") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair({.least_multi_bytes = 64});
  std::vector<std::vector<std::uint8_t>> buffers(2, std::vector<std::uint8_t>(8192));
  for (auto& buffer : buffers) post(pair, buffer.data(), buffer.size(), &buffer);
  constexpr std::uint32_t kMessages = 2000;
  std::uint32_t sent = 0, received = 0;
  for (const HangLimit limit; received < kMessages && !limit.is_over();) {
    if (sent < kMessages && fi_inject(pair.a.ep.get(), &sent, 4, pair.to_b) == 0) ++sent;
    (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
    const Entry entry = pair.b.look();
    if (entry.answer == -FI_EAGAIN) continue;
    REQUIRE(entry.answer == 1);
    if ((entry.entry.flags & FI_RECV) != 0) {
      REQUIRE(entry.entry.len == 4);
      REQUIRE(*static_cast<std::uint32_t*>(entry.entry.buf) == received);
      ++received;
    }
    if ((entry.entry.flags & FI_MULTI_RECV) != 0) {
      auto& buffer = *static_cast<std::vector<std::uint8_t>*>(entry.entry.op_context);
      post(pair, buffer.data(), buffer.size(), &buffer);
    }
  }
  CHECK(received == kMessages);
}

TEST_CASE("MultiReceive__who_blocks_is_woken_by_a_message_for_a_buffer") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair({.wait_obj = FI_WAIT_FD, .least_multi_bytes = 8});
  std::vector<std::uint8_t> buffer(64);
  post(pair, buffer.data(), buffer.size(), &buffer);
  std::atomic<bool> done{false};
  std::thread sender([&] {
    fi_cq_tagged_entry none{};
    // Waits for nothing, to give the other thread time to fall asleep.
    (void)fi_cq_sread(pair.a.cq.get(), &none, 1, nullptr, 20);
    (void)fi_inject(pair.a.ep.get(), "abcdefg", 8, pair.to_b);
    while (!done) (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
  });
  fi_cq_tagged_entry entry{};
  CHECK(fi_cq_sread(pair.b.cq.get(), &entry, 1, nullptr, kHangLimitMs) == 1);
  done = true;
  sender.join();
  CHECK(entry.op_context == &buffer);
  fid* fids[] = {&pair.b.cq->fid};
  CHECK(fi_trywait(pair.b.fabric.get(), fids, 1) == (threads == "0" ? 0 : -FI_EAGAIN));
}

TEST_CASE("MultiReceive__a_buffer_for_a_silent_peer_holds_up_nobody_else") {
  const std::string threads = GENERATE("0", "1");
  CAPTURE(threads);
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair({.least_multi_bytes = 8});
  Node silent;
  const fi_addr_t to_silent = pair.b.insert(silent.name());
  const fi_addr_t to_b = silent.insert(pair.b.name());
  std::vector<std::uint8_t> buffer(1000), behind(16);
  std::array<char, 8> of_a{}, of_anyone{}, last{};
  post_from(pair.b, to_silent, buffer);
  REQUIRE(fi_recv(pair.b.ep.get(), of_a.data(), 8, nullptr, pair.to_a, &of_a) == 0);
  REQUIRE(fi_recv(pair.b.ep.get(), of_anyone.data(), 8, nullptr, FI_ADDR_UNSPEC, &of_anyone) == 0);
  post_from(pair.b, FI_ADDR_UNSPEC, behind);
  REQUIRE(fi_recv(pair.b.ep.get(), last.data(), 8, nullptr, FI_ADDR_UNSPEC, &last) == 0);
  for (const char* text : {"1111111", "2222222", "3333333", "4444444", "5555555"}) {
    REQUIRE(fi_inject(pair.a.ep.get(), text, 8, pair.to_b) == 0);
  }
  for (int i = 0; i < 5; ++i) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    CHECK(entry.entry.op_context != &buffer);
  }
  CHECK(std::string(of_a.data()) == "1111111");
  CHECK(std::string(of_anyone.data()) == "2222222");
  CHECK(std::string(reinterpret_cast<char*>(behind.data())) == "3333333");
  CHECK(std::string(reinterpret_cast<char*>(behind.data()) + 8) == "4444444");
  CHECK(std::string(last.data()) == "5555555");
  // The buffer still takes what it was posted for.
  REQUIRE(fi_inject(silent.ep.get(), "abcdefg", 8, to_b) == 0);
  CHECK(pair.b.next(&silent).entry.op_context == &buffer);
}

TEST_CASE("MultiReceive__a_buffer_for_a_peer_that_closes_comes_back_and_lets_others_pass") {
  const std::string threads = GENERATE("0", "1");
  CAPTURE(threads);
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair;
  auto closes = std::make_unique<Node>();
  const fi_addr_t to_closing = pair.b.insert(closes->name());
  const fi_addr_t to_b = closes->insert(pair.b.name());
  std::vector<std::uint8_t> buffer(1000);
  std::array<char, 8> after{};
  post_from(pair.b, to_closing, buffer);
  REQUIRE(fi_recv(pair.b.ep.get(), after.data(), 8, nullptr, FI_ADDR_UNSPEC, &after) == 0);
  REQUIRE(fi_inject(closes->ep.get(), "abcdefg", 8, to_b) == 0);
  const Entry first = pair.b.next(closes.get());
  REQUIRE(first.answer == 1);
  CHECK(first.entry.op_context == &buffer);
  CHECK((first.entry.flags & FI_MULTI_RECV) == 0);
  closes.reset();
  const Entry second = pair.b.next();
  REQUIRE(second.answer == -FI_EAVAIL);
  CHECK(second.error.op_context == &buffer);
  CHECK(second.error.err == FI_ESHUTDOWN);
  CHECK((second.error.flags & FI_MULTI_RECV) != 0);
  REQUIRE(fi_inject(pair.a.ep.get(), "1111111", 8, pair.to_b) == 0);
  CHECK(pair.next_b().entry.op_context == &after);
}

TEST_CASE("MultiReceive__a_cancelled_buffer_comes_back_after_its_last_message") {
  Pair pair;
  std::vector<std::uint8_t> buffer(20000000);
  const auto data = pattern(16000000, 5);  // more than comes in a turn
  // Cancel a buffer that a message has begun to fill. Otherwise its entry comes at once.
  Entry entry{.answer = -FI_EAVAIL};
  bool is_sent = false;
  for (const HangLimit limit; entry.answer != -FI_EAGAIN && !limit.is_over();) {
    post(pair, buffer.data(), buffer.size(), &buffer);
    if (!is_sent) send(pair, data);
    is_sent = true;
    for (Node* node : {&pair.a, &pair.b}) (void)fi_cq_read(node->cq.get(), nullptr, 0);
    REQUIRE(fi_cancel(&pair.b.ep->fid, &buffer) == 0);
    entry = pair.b.look();
  }
  REQUIRE(entry.answer == -FI_EAGAIN);
  const Entry message = pair.next_b();
  REQUIRE(message.answer == 1);
  CHECK(message.entry.len == data.size());
  CHECK((message.entry.flags & FI_MULTI_RECV) == 0);
  const Entry cancelled = pair.next_b();
  REQUIRE(cancelled.answer == -FI_EAVAIL);
  CHECK(cancelled.error.err == FI_ECANCELED);
  CHECK(cancelled.error.op_context == &buffer);
  CHECK((cancelled.error.flags & FI_MULTI_RECV) != 0);
}

TEST_CASE("MultiReceive__and_peeks_need_no_queue_where_a_counter_counts") {
  Pair pair;
  fi_cntr_attr attr{};
  fid_cntr* opened_counter = nullptr;
  REQUIRE(fi_cntr_open(pair.b.domain.get(), &attr, &opened_counter, nullptr) == 0);
  const Owned<fid_cntr> counter(opened_counter);
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(pair.b.domain.get(), pair.b.info.get(), &opened, nullptr) == 0);
  const Owned<fid_ep> ep(opened);
  REQUIRE(fi_ep_bind(ep.get(), &pair.b.av->fid, 0) == 0);
  REQUIRE(fi_ep_bind(ep.get(), &pair.b.cq->fid, FI_TRANSMIT) == 0);
  REQUIRE(fi_ep_bind(ep.get(), &counter->fid, FI_RECV) == 0);
  REQUIRE(fi_enable(ep.get()) == 0);
  std::vector<std::byte> name(56);
  std::size_t bytes = name.size();
  REQUIRE(fi_getname(&ep->fid, name.data(), &bytes) == 0);
  const fi_addr_t to_ep = pair.a.insert(name);
  const auto counts = [&](std::uint64_t count) {
    return pair.until([&] { return fi_cntr_read(counter.get()) == count; });
  };
  std::vector<std::uint8_t> buffer(1000), next(1000);
  for (std::vector<std::uint8_t>* taken : {&buffer, &next}) {
    iovec iov{taken->data(), taken->size()};
    const fi_msg message{&iov, nullptr, 1, FI_ADDR_UNSPEC, taken, 0};
    REQUIRE(fi_recvmsg(ep.get(), &message, FI_MULTI_RECV) == 0);
  }
  const auto data = pattern(700, 6);
  for (std::uint64_t i = 1; i <= 2; ++i) {  // the second doesn't fit into the first buffer
    REQUIRE(fi_send(pair.a.ep.get(), data.data(), data.size(), nullptr, to_ep, nullptr) == 0);
    REQUIRE(counts(i));
  }
  CHECK(std::equal(data.begin(), data.end(), next.begin()));
  // Without a message each peek counts an error. With one it counts nothing.
  REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, to_ep, 1) == 0);
  const fi_msg_tagged look{nullptr, nullptr, 0, FI_ADDR_UNSPEC, 1, 0, nullptr, 0};
  CHECK(pair.until([&] {
    const std::uint64_t errors = fi_cntr_readerr(counter.get());
    REQUIRE(fi_trecvmsg(ep.get(), &look, FI_PEEK) == 0);
    return fi_cntr_readerr(counter.get()) == errors;
  }));
}
