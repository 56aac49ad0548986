// SPDX-License-Identifier: Apache-2.0
#include "tool/run/one_sided.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace hawser::tool {
namespace {

// A signal ends no wait, so a rank looks at its counters this often.
constexpr std::uint64_t kLookNs = 50'000;
// A rank that has waited so long for signals asks whether the peer lives.
constexpr std::uint64_t kAskAfterNs = 100'000'000;
// user_data: the generation, and in its lowest bits the slot.
constexpr unsigned kSlotBits = 16;
constexpr std::uint64_t kSlotMask = (std::uint64_t{1} << kSlotBits) - 1;
static_assert(OneSided::kMostUnderWay <= kSlotMask);

// The others come first, each rank's next neighbour before all, so that not all begin with rank 0.
std::vector<Transfer> in_turn(std::vector<Transfer> transfers, std::uint32_t index,
                              std::uint32_t size) {
  const auto distance = [&](const Transfer& transfer) {
    return (transfer.member + size - index - 1) % size;
  };
  std::stable_sort(transfers.begin(), transfers.end(),
                   [&](const Transfer& a, const Transfer& b) { return distance(a) < distance(b); });
  return transfers;
}

OneSidedKind kind_of(WordAction action) {
  switch (action) {
    case WordAction::fetching_add: return OneSidedKind::fetching_add;
    case WordAction::plain_add: return OneSidedKind::plain_add;
    case WordAction::compare_and_swap: return OneSidedKind::compare_and_swap;
  }
  return OneSidedKind::fetching_add;
}

WordOperation word_operation(WordAction action, std::uint64_t compare) {
  const std::uint64_t unit = unit_of(action);
  if (action != WordAction::compare_and_swap) return {AtomicOperation::add, 8, unit, 0};
  return {AtomicOperation::compare_and_swap, 8, compare + unit, compare};
}

// The owner takes part by the means of its own program.
std::uint64_t act_here(std::uint64_t& word, WordAction action, std::uint64_t compare) {
  const std::atomic_ref shared(word);
  if (action != WordAction::compare_and_swap) return shared.fetch_add(unit_of(action));
  (void)shared.compare_exchange_strong(compare, compare + unit_of(action));
  return compare;
}

}  // namespace

OneSided::OneSided(coll::CompletionRouter& router, const GroupLayout& layout, std::uint32_t rank,
                   const std::vector<PeerId>& peers, std::uint64_t generation,
                   const Exposure& exposure, OperationTimes& times, Host host)
    : router_(router),
      layout_(layout),
      rank_(rank),
      peers_(peers),
      exposure_(exposure),
      times_(times),
      host_(std::move(host)),
      mark_(generation << kSlotBits),
      keys_(peers.size()),
      expected_(peers.size()),
      slots_(kMostUnderWay),
      free_(kMostUnderWay),
      is_asked_(peers.size()) {
  std::iota(free_.begin(), free_.end(), std::uint64_t{0});
}

void OneSided::run(const TaskBuffers& buffers, When when) {
  // Initiators take the window for the first buffer of the batch.
  if (buffers.window().data() != exposure_.window().data()) std::abort();
  when_ = when;
  members_ = layout_.members(buffers.task().group, rank_);
  if (buffers.task().operation == Operation::atomics) {
    compute(buffers);
  } else {
    transfer(buffers);
  }
}

void OneSided::transfer(const TaskBuffers& buffers) {
  const Task& task = buffers.task();
  const bool reads = task.operation == Operation::get;
  const Transfers& all = buffers.transfers();
  if (!reads) {
    for (const Transfer& one : all.incoming) {
      if (one.member != buffers.index()) {
        expected_[members_[one.member]] += operations_of(task, one);
      }
    }
  }
  const std::vector<Transfer> transfers =
      in_turn(reads ? all.incoming : all.outgoing, buffers.index(), buffers.size());
  // A block to each rank in turn.
  bool has_more = true;
  for (std::uint64_t round = 0; has_more; ++round) {
    has_more = false;
    for (const Transfer& one : transfers) {
      const std::uint64_t blocks = operations_of(task, one);
      if (round < blocks) move_block(buffers, one, round * task.block_bytes);
      has_more = has_more || round + 1 < blocks;
    }
  }
  while (under_way() > 0) turn();
  if (!reads) await_signals(buffers);
}

void OneSided::move_block(const TaskBuffers& buffers, const Transfer& transfer, std::uint64_t at) {
  const Task& task = buffers.task();
  const std::uint64_t left = transfer.bytes - at;
  const std::uint64_t bytes = task.block_bytes == 0 ? left : std::min(task.block_bytes, left);
  const bool reads = task.operation == Operation::get;
  std::byte* const own = (reads ? buffers.out() : buffers.in()).data() + transfer.own_offset + at;
  if (transfer.member == buffers.index()) {
    std::byte* const window = buffers.window().data() + transfer.remote_offset + at;
    std::memcpy(reads ? own : window, reads ? window : own, bytes);
    return;
  }
  const std::uint32_t rank = members_[transfer.member];
  const ExposedKeys& keys = keys_[rank];
  const std::uint64_t offset = transfer.remote_offset + at;
  OperationId operation = kNoOperation;
  if (reads) {
    post({OneSidedKind::read, rank}, [&](std::uint64_t user_data) {
      return router_.endpoint().read({.peer = peers_[rank],
                                      .channel = kChannel,
                                      .key = keys.window,
                                      .offset = offset,
                                      .data = own,
                                      .bytes = bytes,
                                      .user_data = user_data},
                                     operation);
    });
    return;
  }
  const Signal signal{
      keys.counters, rank_ * sizeof(std::uint64_t), {AtomicOperation::add, 8, 1, 0}};
  post({OneSidedKind::write, rank}, [&](std::uint64_t user_data) {
    return router_.endpoint().write({.peer = peers_[rank],
                                     .channel = kChannel,
                                     .key = keys.window,
                                     .offset = offset,
                                     .data = own,
                                     .bytes = bytes,
                                     .signal = signal,
                                     .user_data = user_data},
                                    operation);
  });
}

void OneSided::await_signals(const TaskBuffers& buffers) {
  std::uint64_t ask_at = host_.now_ns() + kAskAfterNs;
  for (std::uint32_t member = 0; member < members_.size();) {
    if (member == buffers.index() || has_arrived(members_[member])) {
      ++member;
      continue;
    }
    turn();
    if (host_.now_ns() < ask_at) continue;
    for (std::uint32_t other = member; other < members_.size(); ++other) {
      if (other != buffers.index() && !has_arrived(members_[other])) ask(members_[other]);
    }
    ask_at = host_.now_ns() + kAskAfterNs;
  }
  while (under_way() > 0) turn();
}

void OneSided::ask(std::uint32_t rank) {
  if (is_asked_[rank]) return;
  is_asked_[rank] = true;
  Slot slot;
  slot.rank = rank;
  slot.asks = true;
  OperationId operation = kNoOperation;
  post(slot, [&](std::uint64_t user_data) {
    return router_.endpoint().atomic({.peer = peers_[rank],
                                      .channel = kChannel,
                                      .key = keys_[rank].counters,
                                      .offset = rank_ * sizeof(std::uint64_t),
                                      .word = {AtomicOperation::load, 8, 0, 0},
                                      .fetches = true,
                                      .user_data = user_data},
                                     operation);
  });
}

void OneSided::compute(const TaskBuffers& buffers) {
  const Task& task = buffers.task();
  const std::uint64_t count = atomics_to_each(task, buffers.size());
  std::vector<std::vector<WordStep>> steps;
  for (std::uint32_t member = 0; member < members_.size(); ++member) {
    steps.push_back(draw_steps(buffers.key(), buffers.index(), member, task.words, count));
  }
  // The value of each word that this rank saw last, for the next compare_and_swap.
  std::vector<std::uint64_t> seen(members_.size() * task.words);
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint32_t distance = 1; distance <= members_.size(); ++distance) {
      const std::uint32_t member = (buffers.index() + distance) % buffers.size();
      const WordStep& step = steps[member][i];
      act(buffers, member, step.word, step.action, buffers.fetched_from(member)[i],
          seen[std::size_t{member} * task.words + step.word]);
    }
  }
  while (under_way() > 0) turn();
}

void OneSided::act(const TaskBuffers& buffers, std::uint32_t member, std::uint32_t word,
                   WordAction action, FetchRecord& record, std::uint64_t& seen) {
  const bool fetches = action != WordAction::plain_add;
  if (action == WordAction::compare_and_swap) record.compare = seen;
  if (member == buffers.index()) {
    const std::uint64_t before = act_here(buffers.words()[word], action, seen);
    if (fetches) record.fetched = seen = before;
    return;
  }
  Slot slot;
  slot.kind = kind_of(action);
  slot.rank = members_[member];
  slot.record = fetches ? &record : nullptr;
  slot.seen = &seen;
  OperationId operation = kNoOperation;
  post(slot, [&](std::uint64_t user_data) {
    return router_.endpoint().atomic({.peer = peers_[slot.rank],
                                      .channel = kChannel,
                                      .key = keys_[slot.rank].window,
                                      .offset = word * sizeof(std::uint64_t),
                                      .word = word_operation(action, record.compare),
                                      .fetches = fetches,
                                      .user_data = user_data},
                                     operation);
  });
}

void OneSided::post(const Slot& slot, const std::function<Status(std::uint64_t)>& call) {
  while (free_.empty()) turn();
  const std::uint64_t place = free_.back();
  free_.pop_back();
  slots_[place] = slot;
  slots_[place].posted_ns = host_.now_ns();
  Status status = call(mark_ | place);
  while (status == Status::again) {
    turn();
    status = call(mark_ | place);
  }
  if (status != Status::ok) fail(slot.rank, status);
}

// The key of a process that has been replaced is stale.
void OneSided::fail(std::uint32_t rank, Status status) const {
  host_.fail(rank, status == Status::stale_region ? Status::peer_restarted : status);
}

void OneSided::turn() {
  host_.turn(kLookNs);
  reap();
}

void OneSided::reap() {
  std::array<Completion, 64> done;
  for (std::size_t n = done.size(); n == done.size();) {
    n = router_.take(done);
    for (std::size_t i = 0; i < n; ++i) end(done[i]);
  }
}

// Others are withdrawals, receives of stray messages, and leftovers of earlier generations.
bool OneSided::is_own(const Completion& completion) const {
  const bool is_one_sided = completion.kind == OperationKind::write ||
                            completion.kind == OperationKind::read ||
                            completion.kind == OperationKind::atomic;
  return is_one_sided && (completion.user_data & ~kSlotMask) == mark_;
}

void OneSided::end(const Completion& completion) {
  if (!is_own(completion)) return;
  const std::uint64_t place = completion.user_data & kSlotMask;
  const Slot& slot = slots_[place];
  if (completion.status != Status::ok) fail(slot.rank, completion.status);
  if (slot.asks) {
    is_asked_[slot.rank] = false;
  } else {
    times_.at(slot.kind, when_).add(host_.now_ns() - slot.posted_ns);
  }
  if (slot.record != nullptr) slot.record->fetched = *slot.seen = completion.immediate;
  free_.push_back(place);
}

std::vector<std::string> OneSided::wrong_counters() const {
  std::vector<std::string> texts;
  for (std::uint32_t rank = 0; rank < expected_.size(); ++rank) {
    const std::uint64_t found = exposure_.signals_of(rank);
    if (found == expected_[rank]) continue;
    texts.push_back(fmt::format("rank {} signalled {} writes, and {} signals arrived", rank,
                                expected_[rank], found));
  }
  return texts;
}

}  // namespace hawser::tool
