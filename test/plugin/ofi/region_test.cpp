// SPDX-License-Identifier: Apache-2.0
// Keys of memory, the rights that they give, and what becomes of operations whose region, key or
// peer has gone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "test/plugin/ofi/one_sided_scene.hpp"

using namespace hawser::test;

namespace {

// Writes a byte. Returns the error of the entry, or 0.
int write_to(Pair& pair, std::uint64_t address, std::uint64_t key, std::uint8_t byte = 1) {
  const ssize_t answer =
      fi_write(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, address, key, nullptr);
  if (answer != 0) return static_cast<int>(-answer);
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer != -FI_EAGAIN);
  return entry.error.err;
}

int read_from(Pair& pair, std::uint64_t address, std::uint64_t key) {
  std::uint8_t byte = 0;
  REQUIRE(fi_read(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, address, key, nullptr) == 0);
  return pair.next_a().error.err;
}

int mode_for(std::uint32_t version, int asked, std::uint64_t caps) {
  const Info wanted = hints();
  wanted->caps = caps;
  wanted->domain_attr->mr_mode = asked;
  fi_info* found = nullptr;
  static const fi_provider* const ours = provider();  // each call defines its parameters anew
  REQUIRE(ours->getinfo(version, nullptr, nullptr, 0, wanted.get(), &found) == 0);
  const Info owner(found);
  return found->domain_attr->mr_mode;
}

}  // namespace

TEST_CASE("Region__each_version_gets_the_registration_mode_that_it_can_do_with") {
  const Variables variables;
  constexpr std::uint64_t kCaps = FI_MSG | FI_RMA;
  for (const std::uint32_t version : {FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 17)}) {
    CHECK(mode_for(version, 0, kCaps) == 0);
    CHECK(mode_for(version, kBasic, kCaps) == kBasic);
    CHECK(mode_for(version, kScalable, kCaps) == kScalable);
    CHECK(mode_for(version, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL,
                   kCaps) == (FI_MR_VIRT_ADDR | FI_MR_PROV_KEY));
    CHECK(mode_for(version, FI_MR_PROV_KEY, kCaps) == FI_MR_PROV_KEY);
    CHECK(mode_for(version, FI_MR_PROV_KEY, FI_MSG) == 0);
  }
  CHECK(mode_for(FI_VERSION(1, 4), 0, kCaps) == kScalable);
  CHECK(mode_for(FI_VERSION(1, 4), kBasic, kCaps) == kBasic);
  CHECK(mode_for(FI_VERSION(1, 4), 0, FI_MSG) == 0);
}

TEST_CASE("Region__attributes_tell_what_one_sided_operations_there_are") {
  const Variables variables;
  const Info wanted = hints();
  wanted->caps = FI_RMA | FI_ATOMIC;
  const Info info = get_info(wanted.get());
  REQUIRE(info);
  constexpr std::uint64_t kAll = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  CHECK((info->caps & kAll) == kAll);
  CHECK((info->caps & (FI_SEND | FI_RECV)) == 0);
  CHECK((info->tx_attr->caps & kAll) == (FI_READ | FI_WRITE));
  CHECK((info->rx_attr->caps & kAll) == (FI_REMOTE_READ | FI_REMOTE_WRITE));
  CHECK(info->tx_attr->rma_iov_limit == 8);
  CHECK(info->domain_attr->mr_key_size == 8);
  CHECK(info->tx_attr->msg_order == FI_ORDER_SAS);
  const Info messages = get_info(hints().get());
  REQUIRE(messages);
  CHECK((messages->caps & (kAll | FI_RMA | FI_ATOMIC)) == 0);
  CHECK(messages->tx_attr->rma_iov_limit == 0);
}

TEST_CASE("Region__a_key_gives_the_rights_that_the_memory_was_registered_with") {
  Pair pair(one_sided());
  Memory reads(pair.b, 100, 1, FI_REMOTE_READ), writes(pair.b, 100, 2, FI_REMOTE_WRITE);
  CHECK(read_from(pair, 0, 1) == 0);
  CHECK(write_to(pair, 0, 1) == FI_EACCES);
  CHECK(write_to(pair, 0, 2) == 0);
  CHECK(read_from(pair, 0, 2) == FI_EACCES);
  const std::uint64_t one = 1;
  for (const std::uint64_t key : {1, 2}) {
    REQUIRE(fi_atomic(pair.a.ep.get(), &one, 1, nullptr, pair.to_b, 8, key, FI_UINT64, FI_SUM,
                      nullptr) == 0);
    CHECK(pair.next_a().error.err == (key == 2 ? 0 : FI_EACCES));
  }
  CHECK(std::ranges::count(reads.bytes, 0) == 100);
  CHECK(writes.bytes[0] == 1);
  CHECK(writes.bytes[8] == 1);
}

TEST_CASE("Region__wrong_keys_and_ranges_are_refused_by_an_entry_each_and_nothing_is_touched") {
  const int mode = GENERATE(0, FI_MR_VIRT_ADDR | FI_MR_PROV_KEY);
  Pair pair(one_sided({.mr_mode = mode}));
  Memory memory(pair.b, 100);
  const std::uint64_t key = memory.key();
  for (int i = 0; i < 2; ++i) {
    CHECK(write_to(pair, memory.address(), key + 1) == FI_EACCES);
    CHECK(write_to(pair, memory.address(100), key) == FI_EACCES);
    CHECK(write_to(pair, memory.address() - 1, key) == FI_EACCES);
    CHECK(read_from(pair, memory.address(100), key) == FI_EACCES);
  }
  CHECK(std::ranges::count(memory.bytes, 0) == 100);
  CHECK(write_to(pair, memory.address(99), key) == 0);
  CHECK(memory.bytes[99] == 1);
}

TEST_CASE("Region__keys_are_the_program_s_or_the_provider_s") {
  const Variables variables;
  Node chooses(one_sided());
  Memory first(chooses, 10, 5);
  CHECK(first.key() == 5);
  CHECK_THROWS(Memory(chooses, 10, 5));
  CHECK_THROWS(Memory(chooses, 10, FI_KEY_NOTAVAIL));
  CHECK_NOTHROW(Memory(chooses, 10, 5, FI_SEND | FI_RECV));  // no peer names it
  first.region.reset();
  CHECK_NOTHROW(Memory(chooses, 10, 5));
  Node drawn(one_sided({.mr_mode = FI_MR_PROV_KEY}));
  const Memory a(drawn, 10, 5), b(drawn, 10, 5);
  CHECK(a.key() != b.key());
}

TEST_CASE("Region__a_key_that_names_other_memory_now_reaches_that") {
  Pair pair(one_sided());
  Memory first(pair.b, 10, 5);
  CHECK(write_to(pair, 3, 5, 1) == 0);
  first.region.reset();
  CHECK(write_to(pair, 3, 5, 2) == FI_EACCES);
  Memory second(pair.b, 100, 5);
  CHECK(write_to(pair, 3, 5, 3) == 0);
  CHECK(write_to(pair, 50, 5, 4) == 0);  // not in the first one's range
  second.region.reset();
  Memory third(pair.b, 200, 5);
  CHECK(write_to(pair, 150, 5, 6) == 0);
  CHECK(first.bytes[3] == 1);
  CHECK(second.bytes[3] == 3);
  CHECK(second.bytes[50] == 4);
  CHECK(third.bytes[150] == 6);
}

TEST_CASE("Region__memory_registered_before_and_after_its_endpoint_is_reached") {
  Pair pair(one_sided());
  Memory memory(pair.b, 10, 5);
  const Owned<fid_cntr> reads = open_counter(pair.b), writes = open_counter(pair.b);
  const Owned<fid_ep> second = open_counted(pair.b, reads.get(), writes.get());
  std::array<std::byte, 64> name{};
  std::size_t bytes = name.size();
  REQUIRE(fi_getname(&second->fid, name.data(), &bytes) == 0);
  const fi_addr_t to_second = pair.a.insert({name.begin(), name.begin() + bytes});
  for (const fi_addr_t to : {pair.to_b, to_second}) {
    const std::uint8_t byte = 7;
    REQUIRE(fi_write(pair.a.ep.get(), &byte, 1, nullptr, to, 3, 5, nullptr) == 0);
    REQUIRE(pair.next_a().answer == 1);
    CHECK(std::exchange(memory.bytes[3], std::uint8_t{0}) == 7);
  }
  memory.region.reset();  // ends both exposures
  CHECK(write_to(pair, 3, 5) == FI_EACCES);
}

TEST_CASE("Region__nothing_is_written_once_a_region_is_closed_under_traffic") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}, {"FI_HAWSER_FAULTS", "loss=0.02,seed=9"}});
  Pair pair(one_sided());
  Memory memory(pair.b, 500000);
  const std::vector<std::uint8_t> data(500000, 1);
  CHECK(write_to(pair, 0, memory.key()) == 0);
  constexpr int kWrites = 8;
  for (int i = 0; i < kWrites; ++i) {
    REQUIRE(fi_write(pair.a.ep.get(), data.data(), data.size(), nullptr, pair.to_b, 0, memory.key(),
                     nullptr) == 0);
  }
  CHECK(pair.until([&] { return peek(memory.bytes[1]) == 1; }));
  memory.region.reset();
  std::ranges::fill(memory.bytes, std::uint8_t{0});
  int refused = 0;
  for (int i = 0; i < kWrites; ++i) {
    const Entry entry = pair.next_a();
    REQUIRE(entry.answer != -FI_EAGAIN);
    if (entry.answer == 1) continue;
    ++refused;
    CHECK((entry.error.err == FI_EKEYREJECTED || entry.error.err == FI_EACCES));
  }
  CHECK(refused > 0);
  CHECK(std::ranges::count(memory.bytes, 0) == 500000);
  // The session lives on.
  Memory other(pair.b, 10, 5);
  CHECK(write_to(pair, 3, 5) == 0);
}

TEST_CASE("Region__a_key_of_an_earlier_process_names_nothing_in_the_next") {
  Pair pair(one_sided({.mr_mode = FI_MR_PROV_KEY}));
  std::uint64_t key = 0;
  {
    Memory memory(pair.b);
    key = memory.key();
    CHECK(write_to(pair, 0, key) == 0);
  }
  Node next(one_sided({.mr_mode = FI_MR_PROV_KEY}));
  Memory memory(next);
  pair.to_b = pair.a.insert(next.name());
  const std::uint8_t byte = 1;
  REQUIRE(fi_write(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, 0, key, nullptr) == 0);
  CHECK(pair.a.next(&next).error.err == FI_EACCES);
  CHECK(std::ranges::count(memory.bytes, 0) == 1000);
}

TEST_CASE("Region__a_peer_that_closes_or_dies_ends_operations_and_later_calls") {
  const bool dies = GENERATE(false, true);
  INFO((dies ? "dies" : "closes"));
  const Variables more(
      {{"FI_HAWSER_PEER_TIMEOUT_MS", "1000"}, {"FI_HAWSER_LONGEST_ABSENCE_MS", "0"}});
  Pair pair(one_sided());
  Memory memory(pair.b);
  const std::uint64_t key = memory.key();
  const bool knows_key = GENERATE(false, true);
  if (knows_key) CHECK(write_to(pair, 0, key) == 0);
  std::uint64_t word = 0;
  int contexts = 0;
  fid_ep* const ep = pair.a.ep.get();
  REQUIRE(fi_write(ep, &word, 8, nullptr, pair.to_b, 0, key, &contexts) == 0);
  REQUIRE(fi_read(ep, &word, 8, nullptr, pair.to_b, 0, key, &contexts) == 0);
  REQUIRE(fi_fetch_atomic(ep, &word, 1, nullptr, &word, nullptr, pair.to_b, 0, key, FI_UINT64,
                          FI_SUM, &contexts) == 0);
  if (!dies) {
    memory.region.reset();
    pair.b.ep.reset();
  }
  for (int i = 0; i < 3; ++i) {
    const Entry entry = pair.a.next();
    REQUIRE(entry.answer == -FI_EAVAIL);
    CHECK(entry.error.op_context == &contexts);
    INFO(entry.text);
    if (!knows_key) {
      CHECK((entry.error.err == FI_EHOSTUNREACH || entry.error.err == FI_ESHUTDOWN));
    } else if (entry.error.err != FI_EACCES && entry.error.err != FI_EKEYREJECTED) {
      CHECK(entry.error.err == (dies ? FI_ETIMEDOUT : FI_ESHUTDOWN));
    }
  }
  const int later =
      static_cast<int>(-fi_write(ep, &word, 8, nullptr, pair.to_b, 0, key, &contexts));
  CHECK((later == FI_ETIMEDOUT || later == FI_ESHUTDOWN || later == FI_EHOSTUNREACH));
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Region__a_peer_without_one_sided_operations_is_told_by_an_entry") {
  const Variables more({{"FI_HAWSER_PEER_TIMEOUT_MS", "500"}});
  const Variables variables;
  Node a(one_sided());
  Node b;
  const fi_addr_t to_b = a.insert(b.name());
  const std::uint8_t byte = 1;
  REQUIRE(fi_write(a.ep.get(), &byte, 1, nullptr, to_b, 0, 5, &a) == 0);
  const Entry entry = a.next(&b);
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_EOPNOTSUPP);
  CHECK(entry.error.op_context == &a);
}

TEST_CASE("Region__more_keys_than_questions_at_a_time_are_all_found") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair(one_sided());
  constexpr std::size_t kRegions = 300;
  std::vector<std::unique_ptr<Memory>> memories;
  for (std::size_t i = 0; i < kRegions; ++i) {
    memories.push_back(std::make_unique<Memory>(pair.b, 10, 1000 + i));
    const auto byte = static_cast<std::uint8_t>(i + 1);
    REQUIRE(fi_inject_write(pair.a.ep.get(), &byte, 1, pair.to_b, 0, 1000 + i) == 0);
  }
  CHECK(pair.until([&] {
    return std::ranges::all_of(memories, [&](const auto& memory) {
      const auto i = fi_mr_key(memory->region.get()) - 1000;
      return peek(memory->bytes[0]) == static_cast<std::uint8_t>(i + 1);
    });
  }));
}

TEST_CASE("Region__an_engine_thread_s_endpoint_tells_keys_while_its_program_is_elsewhere") {
  const Variables more({{"FI_HAWSER_THREADS", "1"}});
  Pair pair(one_sided({.threading = FI_THREAD_DOMAIN}));
  Memory memory(pair.b, 10, 5);
  const std::uint8_t byte = 1;
  REQUIRE(fi_write(pair.a.ep.get(), &byte, 1, nullptr, pair.to_b, 3, 5, nullptr) == 0);
  CHECK(pair.a.next().answer == 1);  // nobody polls b
  CHECK(memory.bytes[3] == 1);
}

TEST_CASE("Region__a_registration_is_closed_while_others_reach_the_endpoint_from_a_thread") {
  const Variables more({{"FI_HAWSER_THREADS", "1"}});
  Pair pair(one_sided());
  Memory steady(pair.b, 10, 1);
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) {
      const std::uint8_t byte = 1;
      (void)fi_inject_write(pair.a.ep.get(), &byte, 1, pair.to_b, 0, i % 2 == 0 ? 1 : 2);
      (void)fi_cq_read(pair.a.cq.get(), nullptr, 0);
    }
  });
  for (int i = 0; i < 50; ++i) {
    const Memory passing(pair.b, 10, 2);
    (void)fi_cq_read(pair.b.cq.get(), nullptr, 0);
  }
  writer.join();
  CHECK(pair.until([&] { return peek(steady.bytes[0]) == 1; }));
}
