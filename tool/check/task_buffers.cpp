// SPDX-License-Identifier: Apache-2.0
#include "tool/check/task_buffers.hpp"

#include <algorithm>

namespace hawser::tool {
namespace {

void wipe(std::span<std::byte> buffer) { std::fill(buffer.begin(), buffer.end(), std::byte{0}); }

}  // namespace

TaskBuffers::TaskBuffers(const Task& task, const GroupLayout& layout, std::uint32_t rank,
                         std::uint64_t seed, std::uint32_t step, BufferArena& arena)
    : task_(&task),
      size_(layout[task.group].size),
      index_(layout.index_in_group(task.group, rank)),
      key_{seed, step, task.index, layout.members(task.group, rank).front()} {
  const bool is_root = index_ == 0;
  switch (task.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::broadcast:
    case Operation::shift_next:
    case Operation::shift_prev: take_whole(arena); break;
    case Operation::reduce_scatter: take_divided(arena, true, false); break;
    case Operation::all_gather: take_divided(arena, false, true); break;
    case Operation::gather:
      is_root ? take_divided(arena, false, true) : void(in_ = arena.take(block_bytes()));
      break;
    case Operation::scatter:
      is_root ? take_divided(arena, true, false) : void(out_ = arena.take(block_bytes()));
      break;
    case Operation::all_to_all: take_split(arena); break;
    case Operation::put:
    case Operation::get:
    case Operation::atomics:
    case Operation::dispatch:
    case Operation::combine: take_one_sided(arena); break;
    case Operation::barrier: break;
  }
}

std::span<std::byte> TaskBuffers::block_of(std::span<std::byte> whole, std::uint32_t member) const {
  return whole.subspan(member * block_bytes(), block_bytes());
}

void TaskBuffers::take_whole(BufferArena& arena) {
  in_ = arena.take(task_->bytes());
  if (task_->is_in_place()) {
    out_ = in_;
  } else if (task_->operation != Operation::reduce || index_ == 0) {
    out_ = arena.take(task_->bytes());
  }
}

// One buffer has a block of each member, and the other only the own block.
void TaskBuffers::take_divided(BufferArena& arena, bool in_is_whole, bool out_is_whole) {
  std::span<std::byte>& whole = in_is_whole ? in_ : out_;
  std::span<std::byte>& own = out_is_whole ? in_ : out_;
  whole = arena.take(task_->bytes());
  own = task_->is_in_place() ? block_of(whole, index_) : arena.take(block_bytes());
}

void TaskBuffers::take_split(BufferArena& arena) {
  const SplitTable split(*task_, size_, key_.seed, key_.step, key_.group);
  const std::uint64_t element = bytes_of(task_->type);
  Block next_to;
  Block next_from;
  for (std::uint32_t other = 0; other < size_; ++other) {
    next_to.bytes = split.elements(index_, other) * element;
    next_from.bytes = split.elements(other, index_) * element;
    to_.push_back(next_to);
    from_.push_back(next_from);
    next_to.offset += next_to.bytes;
    next_from.offset += next_from.bytes;
  }
  in_ = arena.take(next_to.offset);
  out_ = task_->is_in_place() ? in_ : arena.take(next_from.offset);
}

std::size_t TaskBuffers::footprint(const Task& task, const GroupLayout& layout) {
  // The guards and rounding of three buffers, whatever the operation.
  return BufferArena::footprint(buffer_bytes(task, layout)) + 2 * (BufferArena::footprint(0) + 64);
}

void TaskBuffers::take_one_sided(BufferArena& arena) {
  if (task_->operation == Operation::atomics) {
    const std::uint64_t records = size_ * atomics_to_each(*task_, size_) * sizeof(FetchRecord);
    window_ = arena.take(task_->words * sizeof(std::uint64_t));
    in_ = arena.take(records);
    out_ = arena.take(records);
    return;
  }
  transfers_ = make_transfers(*task_, size_, index_, key_.seed, key_.step, key_.group);
  if (task_->operation == Operation::get) {
    in_ = arena.take(transfers_.source_bytes);
    out_ = arena.take(transfers_.result_bytes);
    window_ = in_;
  } else {
    out_ = arena.take(transfers_.result_bytes);
    in_ = arena.take(transfers_.source_bytes);
    window_ = out_;
  }
}

std::span<FetchRecord> TaskBuffers::fetched_from(std::uint32_t member) const {
  const std::uint64_t count = atomics_to_each(*task_, size_);
  return {reinterpret_cast<FetchRecord*>(in_.data()) + member * count, count};
}

std::span<std::uint64_t> TaskBuffers::words() const {
  return {reinterpret_cast<std::uint64_t*>(window_.data()), task_->words};
}

std::optional<std::uint32_t> TaskBuffers::target() const {
  if (task_->operation == Operation::shift_next && index_ + 1 < size_) return index_ + 1;
  if (task_->operation == Operation::shift_prev && index_ > 0) return index_ - 1;
  return std::nullopt;
}

std::optional<std::uint32_t> TaskBuffers::origin() const {
  if (task_->operation == Operation::shift_next && index_ > 0) return index_ - 1;
  if (task_->operation == Operation::shift_prev && index_ + 1 < size_) return index_ + 1;
  return std::nullopt;
}

// If a step is repeated, the memory may hold its right results. They are wiped out first.
void TaskBuffers::fill() {
  if (out_.data() != in_.data() || out_.size() != in_.size()) wipe(out_);
  switch (task_->operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::reduce_scatter:
      SumPattern(task_->type, size_).fill(key_, index_, 0, in_);
      break;
    case Operation::all_gather:
    case Operation::gather: fill_bytes(key_, index_, kEveryone, 0, in_); break;
    case Operation::all_to_all:
    case Operation::scatter: fill_blocks(); break;
    case Operation::broadcast:
      wipe(in_);
      if (index_ == 0) fill_bytes(key_, 0, kEveryone, 0, in_);
      break;
    case Operation::shift_next:
    case Operation::shift_prev:
      if (target()) fill_bytes(key_, index_, *target(), 0, in_);
      break;
    case Operation::put:
    case Operation::get:
    case Operation::atomics:
    case Operation::dispatch:
    case Operation::combine: fill_one_sided(); break;
    case Operation::barrier: break;
  }
}

void TaskBuffers::fill_blocks() {
  for (std::uint32_t other = 0; other < size_; ++other) {
    if (task_->operation == Operation::all_to_all) {
      fill_bytes(key_, index_, other, 0, in_.subspan(to_[other].offset, to_[other].bytes));
    } else if (index_ == 0) {
      fill_bytes(key_, 0, other, 0, block_of(in_, other));
    }
  }
}

void TaskBuffers::fill_one_sided() {
  wipe(in_);
  wipe(window_);
  for (const Transfer& transfer : transfers_.outgoing) {
    fill_bytes(key_, index_, transfer.member, transfer.first,
               in_.subspan(transfer.own_offset, transfer.bytes));
  }
}

void TaskBuffers::check_sum(Verdict& verdict, std::uint64_t first,
                            std::span<const std::byte> result) const {
  verdict.bytes += result.size();
  merge(verdict.mismatch, SumPattern(task_->type, size_).verify(key_, first, result));
}

void TaskBuffers::check_bytes(Verdict& verdict, std::uint32_t sender, std::uint32_t receiver,
                              std::span<const std::byte> result, std::uint64_t first) const {
  verdict.bytes += result.size();
  merge(verdict.mismatch, verify_bytes(key_, sender, receiver, first, result));
}

void TaskBuffers::check_transfers(Verdict& verdict) const {
  for (const Transfer& transfer : transfers_.outgoing) {
    check_bytes(verdict, index_, transfer.member, in_.subspan(transfer.own_offset, transfer.bytes),
                transfer.first);
  }
  for (const Transfer& transfer : transfers_.incoming) {
    check_bytes(verdict, transfer.member, index_, out_.subspan(transfer.own_offset, transfer.bytes),
                transfer.first);
  }
}

void TaskBuffers::check_words(Verdict& verdict) const {
  const std::uint64_t count = atomics_to_each(*task_, size_);
  const std::span<const FetchRecord> records(reinterpret_cast<const FetchRecord*>(out_.data()),
                                             size_ * count);
  verdict.bytes += out_.size() + window_.size();
  merge(verdict.mismatch, verify_words(key_, index_, words(), records, count));
}

void TaskBuffers::check_summands(Verdict& verdict) const {
  // The part of the input that the result has replaced.
  std::uint64_t begin = in_.size();
  std::uint64_t end = in_.size();
  if (task_->is_in_place()) {
    if (task_->operation == Operation::reduce_scatter) {
      begin = index_ * block_bytes();
      end = begin + block_bytes();
    } else if (task_->operation == Operation::all_reduce || index_ == 0) {
      begin = 0;
    }
  }
  const SumPattern pattern(task_->type, size_);
  merge(verdict.mismatch, pattern.verify_filled(key_, index_, 0, in_.first(begin)));
  merge(verdict.mismatch,
        pattern.verify_filled(key_, index_, end / bytes_of(task_->type), in_.subspan(end)));
}

void TaskBuffers::check_gathered(Verdict& verdict) const {
  const bool gets = task_->operation == Operation::all_gather || index_ == 0;
  for (std::uint32_t other = 0; gets && other < size_; ++other) {
    check_bytes(verdict, other, kEveryone, block_of(out_, other));
  }
  if (!gets || !task_->is_in_place()) check_bytes(verdict, index_, kEveryone, in_);
}

void TaskBuffers::check_scattered(Verdict& verdict) const {
  check_bytes(verdict, 0, index_, out_);
  for (std::uint32_t other = 0; index_ == 0 && other < size_; ++other) {
    check_bytes(verdict, 0, other, block_of(in_, other));
  }
}

void TaskBuffers::check_blocks(Verdict& verdict) const {
  for (std::uint32_t other = 0; other < size_; ++other) {
    check_bytes(verdict, other, index_, out_.subspan(from_[other].offset, from_[other].bytes));
    if (task_->is_in_place()) continue;
    check_bytes(verdict, index_, other, in_.subspan(to_[other].offset, to_[other].bytes));
  }
}

void TaskBuffers::check_shift(Verdict& verdict) const {
  if (target()) check_bytes(verdict, index_, *target(), in_);
  if (origin()) check_bytes(verdict, *origin(), index_, out_);
}

TaskBuffers::Verdict TaskBuffers::verify() const {
  Verdict verdict;
  switch (task_->operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      if (task_->operation == Operation::all_reduce || index_ == 0) check_sum(verdict, 0, out_);
      check_summands(verdict);
      break;
    case Operation::reduce_scatter:
      check_sum(verdict, index_ * (block_bytes() / bytes_of(task_->type)), out_);
      check_summands(verdict);
      break;
    case Operation::all_gather:
    case Operation::gather: check_gathered(verdict); break;
    case Operation::scatter: check_scattered(verdict); break;
    case Operation::all_to_all: check_blocks(verdict); break;
    case Operation::broadcast: check_bytes(verdict, 0, kEveryone, out_); break;
    case Operation::shift_next:
    case Operation::shift_prev: check_shift(verdict); break;
    case Operation::put:
    case Operation::get:
    case Operation::dispatch:
    case Operation::combine: check_transfers(verdict); break;
    case Operation::atomics: check_words(verdict); break;
    case Operation::barrier: break;
  }
  return verdict;
}

}  // namespace hawser::tool
