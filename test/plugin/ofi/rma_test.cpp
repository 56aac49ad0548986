// SPDX-License-Identifier: Apache-2.0
#include <sys/uio.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/plugin/ofi/one_sided_scene.hpp"

using namespace hawser::test;

namespace {

bool is_zero(const std::vector<std::uint8_t>& bytes, std::size_t from, std::size_t to) {
  return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from),
                     bytes.begin() + static_cast<std::ptrdiff_t>(to),
                     [](std::uint8_t byte) { return byte == 0; });
}

bool holds(const std::vector<std::uint8_t>& bytes, std::size_t at,
           const std::vector<std::uint8_t>& data) {
  return std::equal(data.begin(), data.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

TEST_CASE("Rma__bytes_go_to_a_peer_s_memory_and_back") {
  const std::string threads = GENERATE("0", "1");
  const int mode = GENERATE(0, FI_MR_VIRT_ADDR | FI_MR_PROV_KEY, kBasic, kScalable);
  const std::size_t size = GENERATE(0, 1, 8, 4096, 1000000);
  INFO("threads " << threads << ", mr_mode " << mode << ", bytes " << size);
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair(one_sided({.mr_mode = mode}));
  Memory memory(pair.b, size + 200);
  const auto data = pattern(size, 3);
  std::vector<std::uint8_t> out(size + 1);
  REQUIRE(fi_write(pair.a.ep.get(), data.data(), size, nullptr, pair.to_b, memory.address(100),
                   memory.key(), &memory) == 0);
  const Entry written = pair.next_a();
  REQUIRE(written.answer == 1);
  CHECK(written.entry.op_context == &memory);
  CHECK(written.entry.flags == (FI_RMA | FI_WRITE));
  CHECK(holds(memory.bytes, 100, data));
  CHECK(is_zero(memory.bytes, 0, 100));
  CHECK(is_zero(memory.bytes, 100 + size, memory.bytes.size()));
  REQUIRE(fi_read(pair.a.ep.get(), out.data(), size, nullptr, pair.to_b, memory.address(100),
                  memory.key(), &out) == 0);
  const Entry read = pair.next_a();
  REQUIRE(read.answer == 1);
  CHECK(read.entry.op_context == &out);
  CHECK(read.entry.flags == (FI_RMA | FI_READ));
  CHECK(holds(out, 0, data));
  CHECK(out[size] == 0);
  CHECK(pair.b.look().answer == -FI_EAGAIN);  // the target hears of nothing
}

TEST_CASE("Rma__vectors_on_both_sides_have_one_entry") {
  Pair pair(one_sided());
  Memory first(pair.b, 300, 7), second(pair.b, 300, 8);
  const auto data = pattern(250, 5);
  auto* const in = const_cast<std::uint8_t*>(data.data());
  const std::array<iovec, 3> local{iovec{in, 10}, iovec{in + 10, 0}, iovec{in + 10, 240}};
  const std::array<fi_rma_iov, 2> remote{
      fi_rma_iov{.addr = first.address(20), .len = 100, .key = first.key()},
      fi_rma_iov{.addr = second.address(30), .len = 150, .key = second.key()}};
  const fi_msg_rma write{.msg_iov = local.data(),
                         .desc = nullptr,
                         .iov_count = local.size(),
                         .addr = pair.to_b,
                         .rma_iov = remote.data(),
                         .rma_iov_count = remote.size(),
                         .context = &first,
                         .data = 0};
  REQUIRE(fi_writemsg(pair.a.ep.get(), &write, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0);
  Entry entry = pair.next_a();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &first);
  CHECK(std::equal(data.begin(), data.begin() + 100, first.bytes.begin() + 20));
  CHECK(std::equal(data.begin() + 100, data.end(), second.bytes.begin() + 30));
  CHECK(is_zero(first.bytes, 120, 300));
  CHECK(is_zero(second.bytes, 0, 30));
  std::vector<std::uint8_t> out(250);
  const std::array<iovec, 2> back{iovec{out.data(), 120}, iovec{out.data() + 120, 130}};
  fi_msg_rma read = write;
  read.msg_iov = back.data();
  read.iov_count = back.size();
  REQUIRE(fi_readmsg(pair.a.ep.get(), &read, FI_COMPLETION) == 0);
  REQUIRE(pair.next_a().answer == 1);
  CHECK(out == data);
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  REQUIRE(fi_writev(pair.a.ep.get(), local.data(), nullptr, 3, pair.to_b, first.address(),
                    first.key(), &first) == 0);
  REQUIRE(pair.next_a().answer == 1);
  REQUIRE(fi_readv(pair.a.ep.get(), back.data(), nullptr, 2, pair.to_b, first.address(),
                   first.key(), &first) == 0);
  REQUIRE(pair.next_a().answer == 1);
  CHECK(out == data);
  CHECK(pair.a.look().answer == -FI_EAGAIN);
  // One part is refused: the call has one error entry.
  std::array<fi_rma_iov, 2> wrong = remote;
  wrong[1].addr = second.address(200);
  fi_msg_rma refused = write;
  refused.rma_iov = wrong.data();
  REQUIRE(fi_writemsg(pair.a.ep.get(), &refused, FI_COMPLETION) == 0);
  entry = pair.next_a();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_EACCES);
  CHECK(entry.error.op_context == &first);
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Rma__as_many_vectors_as_there_may_be") {
  Pair pair(one_sided());
  Memory memory(pair.b, 1000, 7);
  auto data = pattern(800, 5);
  std::array<iovec, 8> local;
  std::array<fi_rma_iov, 8> remote;
  // No border of one side is one of the other.
  for (std::size_t i = 0, from = 0, to = 0; i < 8; ++i) {
    const std::size_t bytes = i == 7 ? 800 - from : 90 + i;
    const std::size_t room = i == 7 ? 800 - to : 103 - i;
    local[i] = {data.data() + from, bytes};
    remote[i] = {.addr = memory.address(100 + to), .len = room, .key = memory.key()};
    from += bytes;
    to += room;
  }
  const fi_msg_rma write{.msg_iov = local.data(),
                         .desc = nullptr,
                         .iov_count = local.size(),
                         .addr = pair.to_b,
                         .rma_iov = remote.data(),
                         .rma_iov_count = remote.size(),
                         .context = &memory,
                         .data = 0};
  REQUIRE(fi_writemsg(pair.a.ep.get(), &write, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0);
  REQUIRE(pair.next_a().answer == 1);
  CHECK(std::equal(data.begin(), data.end(), memory.bytes.begin() + 100));
  const auto sent = data;
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  REQUIRE(fi_readmsg(pair.a.ep.get(), &write, FI_COMPLETION) == 0);
  REQUIRE(pair.next_a().answer == 1);
  CHECK(data == sent);
}

TEST_CASE("Rma__wrong_arguments_are_told_by_the_call") {
  Pair pair(one_sided());
  Memory memory(pair.b);
  fid_ep* const ep = pair.a.ep.get();
  std::vector<std::uint8_t> data(20000);
  std::array<iovec, 9> nine{};
  nine.fill(iovec{data.data(), 1});
  fi_rma_iov remote{.addr = 0, .len = 3, .key = memory.key()};
  fi_msg_rma msg{};
  msg.msg_iov = nine.data();
  msg.iov_count = 2;
  msg.addr = pair.to_b;
  msg.rma_iov = &remote;
  msg.rma_iov_count = 1;
  CHECK(fi_writemsg(ep, &msg, 0) == -FI_EINVAL);  // 2 bytes into 3
  remote.len = 1;
  CHECK(fi_writemsg(ep, &msg, 0) == -FI_EINVAL);
  remote.len = 2;
  CHECK(fi_writemsg(ep, &msg, FI_PEEK) == -FI_EINVAL);
  CHECK(fi_writemsg(ep, &msg, FI_MATCH_COMPLETE) == -FI_EINVAL);
  CHECK(fi_readmsg(ep, &msg, FI_INJECT) == -FI_EINVAL);
  CHECK(fi_readmsg(ep, &msg, FI_REMOTE_CQ_DATA) == -FI_EINVAL);
  CHECK(fi_writev(ep, nine.data(), nullptr, 9, pair.to_b, 0, memory.key(), nullptr) == -FI_EINVAL);
  msg.rma_iov_count = 0;
  CHECK(fi_writemsg(ep, &msg, 0) == -FI_EINVAL);
  CHECK(fi_inject_write(ep, data.data(), data.size(), pair.to_b, 0, memory.key()) == -FI_EMSGSIZE);
  CHECK(fi_write(ep, data.data(), std::size_t{1} << 40, nullptr, pair.to_b, 0, 7, nullptr) ==
        -FI_EMSGSIZE);
  CHECK(fi_write(ep, data.data(), 1, nullptr, 77, 0, 7, nullptr) == -FI_EINVAL);
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Rma__an_injected_write_copies_its_bytes_at_once_and_has_no_entry") {
  Pair pair(one_sided());
  Memory memory(pair.b, 20000);
  auto data = pattern(16384, 5);
  const auto sent = data;
  REQUIRE(fi_inject_write(pair.a.ep.get(), data.data(), data.size(), pair.to_b, memory.address(1),
                          memory.key()) == 0);
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  CHECK(pair.until([&] { return holds(memory.bytes, 1, sent); }));
  // A vector with FI_INJECT is copied too, and has an entry.
  data = sent;
  const std::array<iovec, 2> local{iovec{data.data(), 1000}, iovec{data.data() + 1000, 500}};
  const fi_rma_iov remote{.addr = memory.address(100), .len = 1500, .key = memory.key()};
  const fi_msg_rma msg{.msg_iov = local.data(),
                       .desc = nullptr,
                       .iov_count = 2,
                       .addr = pair.to_b,
                       .rma_iov = &remote,
                       .rma_iov_count = 1,
                       .context = &data,
                       .data = 0};
  REQUIRE(fi_writemsg(pair.a.ep.get(), &msg, FI_INJECT | FI_COMPLETION) == 0);
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &data);
  CHECK(std::equal(sent.begin(), sent.begin() + 1500, memory.bytes.begin() + 100));
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Rma__data_for_the_target_s_queue_comes_after_the_bytes") {
  const Variables more({{"FI_HAWSER_FAULTS", "loss=0.05,reorder=0.1,seed=3"}});
  Pair pair(one_sided());
  const std::size_t size = GENERATE(0, 5, 300000);
  Memory memory(pair.b, size + 10);
  const auto data = pattern(size, 9);
  auto* const in = const_cast<std::uint8_t*>(data.data());
  const std::size_t half = size / 2;
  const std::array<iovec, 2> local{iovec{in, half}, iovec{in + half, size - half}};
  const std::array<fi_rma_iov, 2> remote{
      fi_rma_iov{.addr = memory.address(), .len = half, .key = memory.key()},
      fi_rma_iov{.addr = memory.address(half), .len = size - half, .key = memory.key()}};
  const fi_msg_rma msg{.msg_iov = local.data(),
                       .desc = nullptr,
                       .iov_count = 2,
                       .addr = pair.to_b,
                       .rma_iov = remote.data(),
                       .rma_iov_count = 2,
                       .context = nullptr,
                       .data = 0xffffffffu};
  for (int i = 0; i < 10; ++i) {
    const bool is_vector = i % 2 == 1;
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::uint8_t{0});
    if (is_vector) {
      REQUIRE(fi_writemsg(pair.a.ep.get(), &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION) == 0);
    } else {
      REQUIRE(fi_writedata(pair.a.ep.get(), in, size, nullptr, 0xffffffffu, pair.to_b,
                           memory.address(), memory.key(), nullptr) == 0);
    }
    const Entry told = pair.next_b();
    REQUIRE(told.answer == 1);
    CHECK(holds(memory.bytes, 0, data));
    CHECK(told.entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
    CHECK(told.entry.data == 0xffffffffu);
    CHECK(told.entry.op_context == nullptr);
    if (!is_vector) CHECK(told.entry.len == size);
    CHECK(told.source == pair.to_a);
    REQUIRE(pair.next_a().answer == 1);
  }
  if (size > 16384) return;
  REQUIRE(fi_inject_writedata(pair.a.ep.get(), in, size, 5, pair.to_b, memory.address(),
                              memory.key()) == 0);
  const Entry told = pair.next_b();
  REQUIRE(told.answer == 1);
  CHECK(told.entry.data == 5);
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Rma__many_writes_tell_the_target_which_reads_its_queue_late") {
  Pair pair(one_sided());
  Memory memory(pair.b);
  constexpr std::uint64_t kWrites = 10000;  // more than the engine keeps notices
  std::uint64_t sent = 0, ended = 0;
  for (const HangLimit limit; ended < kWrites && !limit.is_over();) {
    const char byte = 1;
    while (sent < kWrites && sent < ended + 500) {
      if (fi_writedata(pair.a.ep.get(), &byte, 1, nullptr, sent, pair.to_b, memory.address(),
                       memory.key(), nullptr) != 0) {
        break;
      }
      ++sent;
    }
    (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
    while (pair.a.look().answer == 1) ++ended;
  }
  CHECK(ended == kWrites);
  std::vector<bool> is_told(kWrites);
  std::uint64_t told = 0;
  for (const HangLimit limit; told < kWrites && !limit.is_over();) {
    const Entry entry = pair.next_b();
    REQUIRE(entry.answer == 1);
    REQUIRE(entry.entry.data < kWrites);
    CHECK(!is_told[entry.entry.data]);
    is_told[entry.entry.data] = true;
    ++told;
  }
  CHECK(told == kWrites);
  CHECK(pair.b.look().answer == -FI_EAGAIN);
}

TEST_CASE("Rma__an_endpoint_reaches_its_own_memory") {
  const Variables variables;
  Node node(one_sided());
  const fi_addr_t self = node.insert(node.name());
  Memory memory(node);
  const auto data = pattern(500, 4);
  std::vector<std::uint8_t> out(500);
  REQUIRE(fi_writedata(node.ep.get(), data.data(), 500, nullptr, 3, self, memory.address(10),
                       memory.key(), &memory) == 0);
  int entries = 0;
  for (int i = 0; i < 2; ++i) {
    const Entry entry = node.next();
    REQUIRE(entry.answer == 1);
    entries += (entry.entry.flags & FI_REMOTE_WRITE) != 0 ? 10 : 1;
  }
  CHECK(entries == 11);
  CHECK(holds(memory.bytes, 10, data));
  REQUIRE(fi_read(node.ep.get(), out.data(), 500, nullptr, self, memory.address(10), memory.key(),
                  &out) == 0);
  REQUIRE(node.next().answer == 1);
  CHECK(out == data);
  REQUIRE(fi_read(node.ep.get(), out.data(), 500, nullptr, self, memory.address(), 99, &out) == 0);
  const Entry refused = node.next();
  REQUIRE(refused.answer == -FI_EAVAIL);
  CHECK(refused.error.err == FI_EACCES);
}

TEST_CASE("Rma__counters_count_reads_and_writes_apart_from_messages") {
  Pair pair(one_sided());
  Memory memory(pair.b);
  const Owned<fid_cntr> reads = open_counter(pair.a), writes = open_counter(pair.a);
  const Owned<fid_ep> ep = open_counted(pair.a, reads.get(), writes.get());
  CHECK(fi_ep_bind(ep.get(), &reads->fid, FI_REMOTE_WRITE) < 0);
  std::array<std::uint64_t, 2> words{};
  const std::uint64_t key = memory.key();
  REQUIRE(fi_inject_write(ep.get(), words.data(), 8, pair.to_b, 0, key) == 0);
  REQUIRE(fi_inject_atomic(ep.get(), words.data(), 2, pair.to_b, 0, key, FI_UINT64, FI_SUM) == 0);
  REQUIRE(fi_read(ep.get(), words.data(), 8, nullptr, pair.to_b, 0, key, nullptr) == 0);
  REQUIRE(fi_fetch_atomic(ep.get(), words.data(), 1, nullptr, words.data() + 1, nullptr, pair.to_b,
                          0, key, FI_UINT64, FI_SUM, nullptr) == 0);
  CHECK(pair.until(
      [&] { return fi_cntr_read(writes.get()) == 2 && fi_cntr_read(reads.get()) == 2; }));
  // A refused inject has no entry, but counts as an error.
  REQUIRE(fi_inject_write(ep.get(), words.data(), 8, pair.to_b, 0, 99) == 0);
  CHECK(pair.until([&] { return fi_cntr_readerr(writes.get()) == 1; }));
  CHECK(fi_cntr_readerr(reads.get()) == 0);
  int entries = 0;
  while (pair.a.look().answer == 1) ++entries;
  CHECK(entries == 2);  // those of the two fetches
}

TEST_CASE("Rma__targets_can_t_count_what_reaches_their_memory") {
  const Variables variables;
  Node node(one_sided());
  const Owned<fid_cntr> counter = open_counter(node);
  fid_ep* opened = nullptr;
  REQUIRE(fi_endpoint(node.domain.get(), node.info.get(), &opened, nullptr) == 0);
  const Owned<fid_ep> ep(opened);
  CHECK(fi_ep_bind(ep.get(), &counter->fid, FI_REMOTE_WRITE) == -FI_ENOSYS);
  CHECK(fi_ep_bind(ep.get(), &counter->fid, FI_REMOTE_READ) == -FI_ENOSYS);
  const Memory memory(node);
  CHECK(fi_mr_bind(memory.region.get(), &counter->fid, FI_REMOTE_WRITE) == -FI_ENOSYS);
  CHECK(fi_mr_bind(memory.region.get(), &node.ep->fid, 0) == 0);
}

TEST_CASE("Rma__an_endpoint_that_did_not_ask_for_it_has_none") {
  Pair pair({.caps = FI_MSG | FI_RMA});
  Memory memory(pair.b);
  std::uint64_t word = 0;
  CHECK(fi_atomic(pair.a.ep.get(), &word, 1, nullptr, pair.to_b, 0, memory.key(), FI_UINT64, FI_SUM,
                  nullptr) == -FI_ENOSYS);
  CHECK(fi_write(pair.a.ep.get(), &word, 8, nullptr, pair.to_b, 0, memory.key(), nullptr) == 0);
  CHECK(pair.next_a().answer == 1);
}
