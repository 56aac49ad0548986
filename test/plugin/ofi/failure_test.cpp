// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <thread>

#include "test/plugin/ofi/scene.hpp"

using namespace hawser::test;

namespace {

// Sends a message from a to b.
bool meet(Pair& pair) {
  std::array<char, 4> in{"abc"}, out{};
  REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  REQUIRE(fi_tsend(pair.a.ep.get(), in.data(), 4, nullptr, pair.to_b, 1, &in) == 0);
  return pair.next_b().answer == 1 && pair.next_a().answer == 1;
}

// Afterwards `a` waits for a message that doesn't come.
void meet_and_wait(Pair& pair, std::array<char, 4>& never) {
  CHECK(meet(pair));
  REQUIRE(fi_trecv(pair.a.ep.get(), never.data(), 4, nullptr, pair.to_b, 1, 0, &never) == 0);
}

// Captures standard error for as long as it lives.
class StandardError {
 public:
  StandardError() : file_(std::tmpfile()), before_(::dup(STDERR_FILENO)) {
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  ~StandardError() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    (void)std::fclose(file_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  [[nodiscard]] int count(const std::string& words) const {
    std::string text(65536, ' ');
    const ssize_t bytes = ::pread(::fileno(file_), text.data(), text.size(), 0);
    text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    int found = 0;
    for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++found;
    return found;
  }

 private:
  std::FILE* file_;
  int before_;
};

// False if the machine stood still until the NICs died.
bool tells_of_dead_nics(int die_at_ms) {
  const std::string at = std::to_string(die_at_ms) + "ms:";
  const std::int64_t begun = now_ms();
  const Variables more({{"FI_HAWSER_FAULT_PLAN", at + "0:kill:event," + at + "1:kill:event"},
                        {"FI_HAWSER_PEER_TIMEOUT_MS", "400"},
                        {"FI_HAWSER_LONGEST_ABSENCE_MS", "0"}});
  Pair pair;
  const bool have_met = meet(pair);
  if (now_ms() - begun >= die_at_ms) return false;
  CHECK(have_met);
  std::array<char, 4> never{};
  REQUIRE(fi_trecv(pair.a.ep.get(), never.data(), 4, nullptr, pair.to_b, 1, 0, &never) == 0);
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ETIMEDOUT);
  CHECK(entry.error.op_context == &never);
  INFO(entry.text);
  CHECK(entry.text.starts_with("peer_timeout: peer "));
  CHECK(entry.text.find("(fi_addr " + std::to_string(pair.to_b) + ")") != std::string::npos);
  CHECK(entry.text.find("udp:127.0.0.1 DOWN") != std::string::npos);
  // Later calls fail at once.
  CHECK(fi_tsend(pair.a.ep.get(), "abc", 4, nullptr, pair.to_b, 1, nullptr) == -FI_ETIMEDOUT);
  return true;
}

}  // namespace

TEST_CASE("Failure__a_peer_whose_NICs_all_die_is_told_by_peer_and_NIC") {
  CHECK((tells_of_dead_nics(300) || tells_of_dead_nics(3000) || tells_of_dead_nics(30000)));
}

TEST_CASE("Failure__one_NIC_of_two_dies_and_returns_and_nobody_notices") {
  const Variables more({{"FI_HAWSER_FAULT_PLAN", "100ms:1:kill,400ms:1:revive"}});
  Pair pair;
  const auto data = pattern(200000, 7);
  std::vector<std::uint8_t> out(data.size());
  const std::int64_t end = now_ms() + 700;
  // A machine that stands still may not manage so many rounds before the end.
  constexpr int kRounds = 10;
  for (int rounds = 0; rounds <= kRounds || now_ms() < end; ++rounds) {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), out.size(), nullptr, pair.to_a, 1, 0, &out) == 0);
    REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, 1, nullptr) ==
            0);
    REQUIRE(pair.next_b().answer == 1);
    REQUIRE(pair.next_a().answer == 1);
    REQUIRE(out == data);
  }
}

TEST_CASE("Failure__loss_in_both_directions") {
  const Variables more({{"FI_HAWSER_FAULTS", "loss=0.05,seed=3"}});
  Pair pair;
  const auto data = pattern(1000000, 7);
  std::vector<std::uint8_t> out(data.size());
  for (int i = 0; i < 5; ++i) {
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), out.size(), nullptr, pair.to_a, 1, 0, &out) == 0);
    REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, 1, nullptr) ==
            0);
    REQUIRE(pair.next_b().answer == 1);
    REQUIRE(pair.next_a().answer == 1);
    REQUIRE(out == data);
  }
}

TEST_CASE("Failure__a_peer_that_closes_ends_what_waits_for_it") {
  Pair pair;
  std::array<char, 4> never{};
  meet_and_wait(pair, never);
  pair.b.ep.reset();
  const Entry entry = pair.a.next();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_ESHUTDOWN);
  CHECK(entry.text.starts_with("peer_closed: peer "));
}

// The sender has completions for all its sends, closes, and is gone before the receiver names it
// for the first time.
TEST_CASE("Failure__what_a_peer_sent_before_it_closed_is_received_under_each_of_its_names") {
  const Variables more({{"FI_HAWSER_PEER_TIMEOUT_MS", "200"}});
  const bool asks_for_delivery = GENERATE(false, true);
  Pair pair({.send_flags = asks_for_delivery ? FI_TRANSMIT_COMPLETE : std::uint64_t{0}});
  const fi_addr_t second_name = pair.b.insert(pair.a.name());
  const auto data = pattern(20000, 7);
  for (const std::uint64_t tag : {1, 2, 3}) {
    REQUIRE(fi_tsend(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, tag, nullptr) ==
            0);
  }
  for (int i = 0; i < 3; ++i) REQUIRE(pair.next_a().answer == 1);
  pair.a.ep.reset();
  // The receiver learns that the peer has closed.
  for (int i = 0; i < 100; ++i) CHECK(pair.b.look().answer == -FI_EAGAIN);
  std::uint64_t tag = 0;
  for (const fi_addr_t from : {second_name, fi_addr_t{FI_ADDR_UNSPEC}, pair.to_a}) {
    std::vector<std::uint8_t> out(data.size());
    REQUIRE(fi_trecv(pair.b.ep.get(), out.data(), out.size(), nullptr, from, ++tag, 0, &out) == 0);
    const Entry entry = pair.b.next();
    REQUIRE(entry.answer == 1);
    CHECK(entry.entry.op_context == &out);
    CHECK(out == data);
  }
  // Nothing more can come from that peer.
  std::array<char, 4> never{};
  const ssize_t answer =
      fi_trecv(pair.b.ep.get(), never.data(), 4, nullptr, pair.to_a, 4, 0, &never);
  if (answer != 0) {
    CHECK(answer == -FI_ESHUTDOWN);
  } else {
    const Entry entry = pair.b.next();
    REQUIRE(entry.answer == -FI_EAVAIL);
    CHECK(entry.error.err == FI_EHOSTUNREACH);
  }
}

// The endpoint's first contact is with a peer that isn't polled for longer than close_timeout.
TEST_CASE("Failure__what_was_reported_as_sent_is_seen_through_when_its_endpoint_closes") {
  const StandardError standard_error;
  const bool early = GENERATE(false, true);
  INFO((early ? "FI_INJECT_COMPLETE" : "fi_tinject"));
  const Variables more({{kClosesByDefault, "1"}});
  Pair pair({.send_flags = early ? FI_INJECT_COMPLETE : std::uint64_t{0}});
  if (early) {
    REQUIRE(fi_tsend(pair.a.ep.get(), "abc", 4, nullptr, pair.to_b, 1, nullptr) == 0);
    REQUIRE(pair.a.look().answer == 1);
  } else {
    REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  }
  const std::int64_t begun = now_ms();
  std::atomic<bool> closed{false};
  std::thread closes([&] {
    pair.a.ep.reset();
    closed = true;
  });
  while (now_ms() - begun < 2500) std::this_thread::yield();
  std::array<char, 4> out{};
  CHECK(fi_close(&pair.a.cq->fid) == -FI_EBUSY);  // the endpoint still writes entries
  CHECK(fi_trecv(pair.b.ep.get(), out.data(), 4, nullptr, pair.to_a, 1, 0, &out) == 0);
  const Entry entry = pair.b.next();
  while (!closed) CHECK(pair.b.look().answer == -FI_EAGAIN);  // b answers
  closes.join();
  CHECK(entry.answer == 1);
  CHECK(out == std::array<char, 4>{"abc"});
  CHECK(standard_error.count("reported as sent") == 0);
}

TEST_CASE("Failure__what_was_reported_as_sent_and_may_be_lost_is_told_at_the_close") {
  const StandardError standard_error;
  Pair pair;
  for (int i = 0; i < 3; ++i) REQUIRE(fi_tinject(pair.a.ep.get(), "abc", 4, pair.to_b, 1) == 0);
  pair.a.ep.reset();
  CHECK(standard_error.count("3 messages reported as sent are not known to have arrived") == 1);
}

TEST_CASE("Failure__details_go_to_memory_that_the_program_brings_if_it_can") {
  // In that version fi_cq_err_entry ended before err_data_size.
  const bool is_old = GENERATE(false, true);
  const std::uint32_t version = is_old ? FI_VERSION(1, 4) : FI_VERSION(1, 17);
  Pair pair({.version = version});
  std::array<char, 4> never{};
  meet_and_wait(pair, never);
  pair.b.ep.reset();
  REQUIRE(pair.until([&] { return fi_cq_read(pair.a.cq.get(), nullptr, 0) == -FI_EAVAIL; }));
  std::array<char, 5> text{};
  fi_cq_err_entry error{};
  error.err_data = text.data();
  error.err_data_size = is_old ? 0x1234 : text.size();
  REQUIRE(fi_cq_readerr(pair.a.cq.get(), &error, 0) == 1);
  if (is_old) {
    CHECK(error.err_data_size == 0x1234);
    CHECK(std::string(static_cast<char*>(error.err_data)).starts_with("peer_closed: peer "));
  } else {
    CHECK(error.err_data_size == text.size());
    CHECK(std::string(text.data()) == "peer");
  }
}

TEST_CASE("Failure__nobody_is_there_which_is_said_once_and_injects_have_no_entry") {
  const Variables more({{"FI_HAWSER_PEER_TIMEOUT_MS", "200"}});
  const Variables variables;
  const StandardError standard_error;
  NodeOptions options;
  options.counts = true;
  Node node(options);
  std::vector<std::byte> address;
  {
    const Node other;
    address = other.name();
  }
  const fi_addr_t nobody = node.insert(address);
  const bool injects_alone = GENERATE(false, true);
  for (int i = 0; i < 3; ++i) REQUIRE(fi_tinject(node.ep.get(), "abc", 4, nobody, 1) == 0);
  if (!injects_alone) {
    REQUIRE(fi_tsend(node.ep.get(), "abc", 4, nullptr, nobody, 1, &address) == 0);
    const Entry entry = node.next();
    REQUIRE(entry.answer == -FI_EAVAIL);
    CHECK(entry.error.err == FI_EHOSTUNREACH);
    CHECK(entry.error.op_context == &address);
  }
  const std::uint64_t failed = injects_alone ? 3 : 4;
  for (const HangLimit limit; fi_cntr_readerr(node.sent.get()) < failed && !limit.is_over();) {
    CHECK(node.look().answer == -FI_EAGAIN);
  }
  CHECK(fi_cntr_readerr(node.sent.get()) == failed);
  CHECK(node.look().answer == -FI_EAGAIN);
  CHECK(fi_tinject(node.ep.get(), "abc", 4, nobody, 1) == -FI_EHOSTUNREACH);
  CHECK(standard_error.count("peer_unreachable: peer ") == 1);
}

TEST_CASE("Failure__a_job_s_secret_keeps_strangers_out") {
  const Variables more({{"FI_HAWSER_PEER_TIMEOUT_MS", "300"}});
  const auto open = [](const std::string& secret) {
    const Variables variables({{"FI_HAWSER_JOB_SECRET", secret}});
    return std::make_unique<Node>();
  };
  const auto a = open("one"), b = open("one"), c = open("two");
  const fi_addr_t to_b = a->insert(b->name()), to_c = a->insert(c->name());
  REQUIRE(fi_tsend(a->ep.get(), "abc", 4, nullptr, to_b, 1, nullptr) == 0);
  CHECK(a->next(b.get()).answer == 1);
  REQUIRE(fi_tsend(a->ep.get(), "abc", 4, nullptr, to_c, 1, nullptr) == 0);
  CHECK(a->next(c.get()).error.err == FI_EHOSTUNREACH);
}
