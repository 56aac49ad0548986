// SPDX-License-Identifier: Apache-2.0
// The words in the memories of a storm's processes: what operations do to them, and the judge of
// it.
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "sim/storm/one_sided.hpp"
#include "sim/storm/word_chain.hpp"

namespace hawser::sim {

namespace {

constexpr std::uint8_t kShortWord = 4;
// Chained words of 4 bytes lie in the lower half of their places.
constexpr std::uint64_t kUpperHalf = 0xffffffff00000000u;

bool is_add(OneSidedKind kind) {
  return kind == OneSidedKind::add || kind == OneSidedKind::fetch_add;
}

std::uint64_t word_at(std::span<const std::byte> memory, std::uint32_t place) {
  std::uint64_t value = 0;
  std::memcpy(&value, memory.data() + place * OneSided::kWordBytes, sizeof value);
  return value;
}

std::uint64_t own_value(std::uint32_t index) { return index + std::uint64_t{1}; }

AtomicOperation action_of(OneSidedKind kind) {
  switch (kind) {
    case OneSidedKind::store: return AtomicOperation::store;
    case OneSidedKind::swap: return AtomicOperation::swap;
    case OneSidedKind::compare_and_swap: return AtomicOperation::compare_and_swap;
    default: return AtomicOperation::load;
  }
}

}  // namespace

Status OneSided::chained(std::uint32_t index, PeerId peer, OperationId name, const RegionKey& key,
                         std::uint64_t beyond) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  Record& record = records_[index];
  record.compares = memories_[record.memory].newest[plan.word];
  Host& host = world_.host(plan.from);
  return host.endpoint().atomic(
      host.now(), name,
      {.peer = peer,
       .channel = plan.channel,
       .key = key,
       .offset = beyond > 0 ? beyond : (kWords + plan.word) * kWordBytes,
       .word = {.operation = action_of(plan.kind),
                .width = plan.word == 0 ? std::uint8_t{kWordBytes} : kShortWord,
                .operand = own_value(index),
                .compare = record.compares},
       .fetches = plan.kind != OneSidedKind::store,
       .strong = plan.strong});
}

// Programs tell each other what the word has by what they know.
void OneSided::learn(std::uint32_t index) {
  const OneSidedPlan& plan = plan_.one_sided[index];
  const Record& record = records_[index];
  const std::uint64_t fetched = record.completion->immediate;
  const bool has_written =
      plan.kind == OneSidedKind::store || plan.kind == OneSidedKind::swap ||
      (plan.kind == OneSidedKind::compare_and_swap && fetched == record.compares);
  memories_[record.memory].newest[plan.word] = has_written ? own_value(index) : fetched;
  using enum OneSidedCell;
  if (plan.kind == OneSidedKind::compare_and_swap)
    world_.scribe().count_one_sided(has_written ? swapped : kept);
  if (plan.kind != OneSidedKind::store && fetched != 0) world_.scribe().count_one_sided(followed);
}

void OneSided::judge_words(std::uint32_t number) {
  const Memory& memory = memories_[number];
  for (std::uint32_t word = 0; word < kWords; ++word) {
    const std::uint64_t value = word_at(memory.last, word);
    std::uint64_t certain = 0;
    std::uint64_t possible = 0;
    std::set<std::uint64_t> fetched;
    for (std::uint32_t i = 0; i < records_.size(); ++i) {
      const OneSidedPlan& plan = plan_.one_sided[i];
      const Record& record = records_[i];
      const bool adds = is_add(plan.kind) || (plan.kind == OneSidedKind::write && plan.signals);
      if (record.memory != number || !adds || plan.word != word) continue;
      const Fate what = fate(record);
      if (what == Fate::executed) ++certain;
      if (what == Fate::unknown) ++possible;
      const bool has_value = plan.kind == OneSidedKind::fetch_add && record.completion &&
                             record.completion->status == Status::ok;
      if (!has_value) continue;
      const std::uint64_t got = record.completion->immediate;
      if (got >= value || !fetched.insert(got).second)
        accuse(i, "fetched " + std::to_string(got) + ", which another one has, or nobody");
    }
    if (value >= certain && value <= certain + possible) continue;
    oracle_.accuse("word " + std::to_string(word) + " of host " + std::to_string(memory.host) +
                   " is " + std::to_string(value) + ": " + std::to_string(certain) +
                   " were executed, " + std::to_string(possible) + " more may have been");
  }
}

void OneSided::judge_chains(std::uint32_t number) {
  const Memory& memory = memories_[number];
  for (std::uint32_t word = 0; word < kChains; ++word) {
    std::vector<ChainLink> links;
    for (std::uint32_t i = 0; i < records_.size(); ++i) {
      const OneSidedPlan& plan = plan_.one_sided[i];
      const Record& record = records_[i];
      const Fate what = fate(record);
      if (record.memory != number || !is_chained(plan.kind) || plan.word != word) continue;
      if (what == Fate::not_executed) continue;
      ChainLink link{.index = i, .posted = record.posted_at};
      if (plan.kind != OneSidedKind::load) link.writes = own_value(i);
      if (plan.kind == OneSidedKind::compare_and_swap) link.compares = record.compares;
      link.is_certain = what == Fate::executed;
      if (link.is_certain) link.ended = record.ended_at;
      const bool has_value = record.completion && record.completion->status == Status::ok &&
                             plan.kind != OneSidedKind::store;
      if (has_value) link.fetched = record.completion->immediate;
      links.push_back(link);
    }
    const std::uint64_t last = word_at(memory.last, kWords + word);
    std::string what = judge_chain(links, last);
    if (word == 1 && (last & kUpperHalf) != 0) what = "bytes beside it were written";
    if (what.empty()) continue;
    oracle_.accuse("chained word " + std::to_string(word) + " of host " +
                   std::to_string(memory.host) + ": " + what);
  }
}

}  // namespace hawser::sim
