// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "test/plugin/ofi/one_sided_scene.hpp"

using namespace hawser::test;

namespace {

// The word that an operation must leave in memory.
template <class Word>
Word expected(fi_op op, Word before, Word operand) {
  switch (op) {
    case FI_MIN: return std::min(before, operand);
    case FI_MAX: return std::max(before, operand);
    case FI_SUM:
      return static_cast<Word>(static_cast<std::uint64_t>(before) +
                               static_cast<std::uint64_t>(operand));
    case FI_BOR: return before | operand;
    case FI_BAND: return before & operand;
    case FI_BXOR: return before ^ operand;
    case FI_ATOMIC_WRITE: return operand;
    default: return before;
  }
}

constexpr std::array kBase{FI_MIN, FI_MAX, FI_SUM, FI_BOR, FI_BAND, FI_BXOR, FI_ATOMIC_WRITE};

template <class Word>
void do_all(Pair& pair, Memory& memory, fi_datatype type) {
  fid_ep* const ep = pair.a.ep.get();
  // Its highest bit is set, so that a signed minimum differs from an unsigned one.
  const Word before = static_cast<Word>(std::uint64_t{0x9000000090000005});
  const Word operand = 6;
  const auto set = [&](Word word) {
    std::memset(memory.bytes.data(), 0x55, 32);
    std::memcpy(memory.bytes.data() + 8, &word, sizeof word);
  };
  const auto get = [&] {
    Word word = 0;
    std::memcpy(&word, memory.bytes.data() + 8, sizeof word);
    CHECK(memory.bytes[7] == 0x55);
    CHECK(memory.bytes[8 + sizeof word] == 0x55);
    return word;
  };
  const std::uint64_t at = memory.address(8), key = memory.key();
  for (const fi_op op : kBase) {
    INFO("type " << type << ", operation " << op);
    set(before);
    REQUIRE(fi_atomic(ep, &operand, 1, nullptr, pair.to_b, at, key, type, op, &memory) == 0);
    const Entry entry = pair.next_a();
    REQUIRE(entry.answer == 1);
    CHECK(entry.entry.flags == (FI_ATOMIC | FI_WRITE));
    CHECK(get() == expected(op, before, operand));
    set(before);
    std::array<Word, 2> result{1, 2};
    REQUIRE(fi_fetch_atomic(ep, &operand, 1, nullptr, result.data(), nullptr, pair.to_b, at, key,
                            type, op, &memory) == 0);
    const Entry fetched = pair.next_a();
    REQUIRE(fetched.answer == 1);
    CHECK(fetched.entry.flags == (FI_ATOMIC | FI_READ));
    CHECK(get() == expected(op, before, operand));
    CHECK(result[0] == before);
    CHECK(result[1] == 2);
  }
  Word result = 0;
  REQUIRE(fi_fetch_atomic(ep, nullptr, 0, nullptr, &result, nullptr, pair.to_b, at, key, type,
                          FI_ATOMIC_WRITE, nullptr) == -FI_EINVAL);
  set(before);
  for (const Word compare : {operand, before}) {
    REQUIRE(fi_compare_atomic(ep, &operand, 1, nullptr, &compare, nullptr, &result, nullptr,
                              pair.to_b, at, key, type, FI_CSWAP, &memory) == 0);
    REQUIRE(pair.next_a().answer == 1);
    CHECK(result == before);
    CHECK(get() == (compare == before ? operand : before));
  }
}

}  // namespace

TEST_CASE("Atomic__each_operation_on_each_type_of_word") {
  const std::string threads = GENERATE("0", "1");
  const Variables more({{"FI_HAWSER_THREADS", threads}});
  Pair pair(one_sided());
  Memory memory(pair.b);
  do_all<std::int32_t>(pair, memory, FI_INT32);
  do_all<std::uint32_t>(pair, memory, FI_UINT32);
  do_all<std::int64_t>(pair, memory, FI_INT64);
  do_all<std::uint64_t>(pair, memory, FI_UINT64);
  std::uint64_t word = 77, result = 0;
  std::memcpy(memory.bytes.data(), &word, 8);
  REQUIRE(fi_fetch_atomic(pair.a.ep.get(), nullptr, 1, nullptr, &result, nullptr, pair.to_b,
                          memory.address(), memory.key(), FI_UINT64, FI_ATOMIC_READ, &memory) == 0);
  REQUIRE(pair.next_a().answer == 1);
  CHECK(result == 77);
}

TEST_CASE("Atomic__what_is_said_to_be_valid_is_what_calls_take") {
  Pair pair(one_sided());
  Memory memory(pair.b);
  fid_ep* const ep = pair.a.ep.get();
  fid_domain* const domain = pair.a.domain.get();
  std::array<std::byte, 64> data{}, result{};
  int offered = 0;
  for (int t = FI_INT8; t < FI_DATATYPE_LAST; ++t) {
    for (int o = FI_MIN; o < FI_ATOMIC_OP_LAST; ++o) {
      const auto type = static_cast<fi_datatype>(t);
      const auto op = static_cast<fi_op>(o);
      INFO("type " << t << ", operation " << o);
      std::size_t count = 0;
      const std::array<std::array<int, 3>, 3> answers{{
          {fi_atomicvalid(ep, type, op, &count), 0,
           static_cast<int>(fi_atomic(ep, data.data(), 1, nullptr, pair.to_b, 0, memory.key(), type,
                                      op, nullptr))},
          {fi_fetch_atomicvalid(ep, type, op, &count), 1,
           static_cast<int>(fi_fetch_atomic(ep, data.data(), 1, nullptr, result.data(), nullptr,
                                            pair.to_b, 0, memory.key(), type, op, nullptr))},
          {fi_compare_atomicvalid(ep, type, op, &count), 2,
           static_cast<int>(fi_compare_atomic(ep, data.data(), 1, nullptr, data.data(), nullptr,
                                              result.data(), nullptr, pair.to_b, 0, memory.key(),
                                              type, op, nullptr))},
      }};
      for (const auto& [valid, form, called] : answers) {
        fi_atomic_attr attr{};
        const std::uint64_t flags = form == 0 ? 0 : form == 1 ? FI_FETCH_ATOMIC : FI_COMPARE_ATOMIC;
        CHECK(called == valid);
        CHECK((valid == 0 || valid == -FI_EOPNOTSUPP));
        CHECK(fi_query_atomic(domain, type, op, &attr, flags) == valid);
        if (valid != 0) continue;
        ++offered;
        CHECK(attr.count == 16);
        CHECK(attr.size == (type == FI_INT32 || type == FI_UINT32 ? 4u : 8u));
        CHECK(pair.next_a().answer == 1);
      }
    }
  }
  CHECK(offered == 4 * (7 + 8 + 1));
  fi_atomic_attr attr{};
  CHECK(fi_query_atomic(domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ==
        -FI_EINVAL);
}

TEST_CASE("Atomic__arrays_and_vectors_have_one_entry") {
  Pair pair(one_sided());
  Memory memory(pair.b, 256);
  fid_ep* const ep = pair.a.ep.get();
  std::array<std::uint64_t, 17> operands{}, results{};
  for (std::size_t i = 0; i < operands.size(); ++i) operands[i] = 100 + i;
  REQUIRE(fi_atomic(ep, operands.data(), 16, nullptr, pair.to_b, 0, memory.key(), FI_UINT64, FI_SUM,
                    &memory) == 0);
  REQUIRE(pair.next_a().answer == 1);
  const std::array<fi_ioc, 2> local{fi_ioc{operands.data() + 1, 1}, fi_ioc{operands.data(), 3}};
  std::array<fi_ioc, 3> result{fi_ioc{results.data(), 2}, fi_ioc{nullptr, 0},
                               fi_ioc{results.data() + 2, 2}};
  const std::array<fi_rma_ioc, 2> remote{fi_rma_ioc{memory.address(8), 2, memory.key()},
                                         fi_rma_ioc{memory.address(80), 2, memory.key()}};
  fi_msg_atomic msg{};
  msg.msg_iov = local.data();
  msg.iov_count = 2;
  msg.addr = pair.to_b;
  msg.rma_iov = remote.data();
  msg.rma_iov_count = 2;
  msg.datatype = FI_UINT64;
  msg.op = FI_ATOMIC_WRITE;
  msg.context = &results;
  REQUIRE(fi_fetch_atomicmsg(ep, &msg, result.data(), nullptr, 3, FI_COMPLETION) == 0);
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == 1);
  CHECK(entry.entry.op_context == &results);
  CHECK(results == std::array<std::uint64_t, 17>{101, 102, 110, 111});
  const auto* const words = reinterpret_cast<const std::uint64_t*>(memory.bytes.data());
  CHECK(std::vector<std::uint64_t>(words, words + 16) ==
        std::vector<std::uint64_t>{100, 101, 100, 103, 104, 105, 106, 107, 108, 109, 101, 102, 112,
                                   113, 114, 115});
  CHECK(pair.a.look().answer == -FI_EAGAIN);
  // Wrong counts.
  CHECK(fi_atomic(ep, operands.data(), 17, nullptr, pair.to_b, 0, memory.key(), FI_UINT64, FI_SUM,
                  nullptr) == -FI_EMSGSIZE);
  CHECK(fi_atomic(ep, operands.data(), 0, nullptr, pair.to_b, 0, memory.key(), FI_UINT64, FI_SUM,
                  nullptr) == -FI_EINVAL);
  CHECK(fi_fetch_atomicmsg(ep, &msg, result.data(), nullptr, 1, 0) == -FI_EINVAL);
  msg.rma_iov_count = 1;
  CHECK(fi_fetch_atomicmsg(ep, &msg, result.data(), nullptr, 3, 0) == -FI_EINVAL);
  CHECK(pair.a.look().answer == -FI_EAGAIN);
}

TEST_CASE("Atomic__sums_of_two_peers_are_exact_though_packets_are_lost_and_a_NIC_dies") {
  const Variables more({{"FI_HAWSER_FAULTS", "loss=0.05,duplicate=0.05,reorder=0.1,seed=5"},
                        {"FI_HAWSER_FAULT_PLAN", "100ms:1:kill"}});
  Pair pair(one_sided());
  Memory memory(pair.b);
  const fi_addr_t b_to_itself = pair.b.insert(pair.b.name());
  constexpr std::uint64_t kSums = 2000;
  std::vector<std::uint64_t> before(kSums);
  std::vector<bool> is_seen(2 * kSums);
  const std::uint64_t one = 1;
  std::uint64_t mine = 0, begun = 0, ended = 0, own_begun = 0, own_ended = 0;
  for (const HangLimit limit; (ended < kSums || own_ended < kSums) && !limit.is_over();) {
    if (begun < kSums && begun < ended + 100) {
      REQUIRE(fi_fetch_atomic(pair.a.ep.get(), &one, 1, nullptr, &before[begun], nullptr, pair.to_b,
                              0, memory.key(), FI_UINT64, FI_SUM, nullptr) == 0);
      ++begun;
    }
    if (own_begun == own_ended && own_begun < kSums) {
      REQUIRE(fi_fetch_atomic(pair.b.ep.get(), &one, 1, nullptr, &mine, nullptr, b_to_itself, 0,
                              memory.key(), FI_UINT64, FI_SUM, nullptr) == 0);
      ++own_begun;
    }
    ended += pair.a.look().answer == 1 ? 1 : 0;
    own_ended += pair.b.look().answer == 1 ? 1 : 0;
  }
  REQUIRE(ended == kSums);
  REQUIRE(own_ended == kSums);
  std::uint64_t sum = 0;
  std::memcpy(&sum, memory.bytes.data(), 8);
  CHECK(sum == 2 * kSums);
  for (const std::uint64_t value : before) {
    REQUIRE(value < 2 * kSums);
    CHECK(!is_seen[value]);
    is_seen[value] = true;
  }
}

TEST_CASE("Atomic__a_word_that_is_not_aligned_is_refused") {
  Pair pair(one_sided());
  Memory memory(pair.b);
  const std::uint64_t one = 1;
  REQUIRE(fi_atomic(pair.a.ep.get(), &one, 1, nullptr, pair.to_b, 4, memory.key(), FI_UINT64,
                    FI_SUM, nullptr) == 0);
  const Entry entry = pair.next_a();
  REQUIRE(entry.answer == -FI_EAVAIL);
  CHECK(entry.error.err == FI_EINVAL);
  CHECK(entry.text.starts_with("misaligned"));
}
