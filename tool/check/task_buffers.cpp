// SPDX-License-Identifier: Apache-2.0
#include "tool/check/task_buffers.hpp"

#include <algorithm>

namespace hawser::tool {
namespace {

bool has_two_buffers(Operation operation) {
  return operation == Operation::all_to_all || operation == Operation::shift_next ||
         operation == Operation::shift_prev;
}

}  // namespace

TaskBuffers::TaskBuffers(const Task& task, const GroupLayout& layout, std::uint32_t rank,
                         std::uint64_t seed, std::uint32_t step, BufferArena& arena)
    : task_(&task),
      size_(layout[task.group].size),
      index_(layout.index_in_group(task.group, rank)),
      key_{seed, step, task.index, layout.members(task.group, rank).front()} {
  if (task.operation == Operation::barrier) return;
  if (is_one_sided(task.operation)) {
    take_one_sided(arena);
    return;
  }
  if (task.operation != Operation::all_to_all) {
    in_ = arena.take(task.bytes());
    out_ = has_two_buffers(task.operation) ? arena.take(task.bytes()) : in_;
    return;
  }
  const SplitTable split(task, size_, seed, step, key_.group);
  const std::uint64_t element = bytes_of(task.type);
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
  out_ = arena.take(next_from.offset);
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

void TaskBuffers::fill() {
  switch (task_->operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::reduce_scatter:
      SumPattern(task_->type, size_).fill(key_, index_, 0, in_);
      break;
    case Operation::all_gather:
      fill_bytes(key_, index_, kEveryone, 0,
                 in_.subspan(index_ * own_block_bytes(), own_block_bytes()));
      break;
    case Operation::all_to_all:
      for (std::uint32_t other = 0; other < size_; ++other) {
        fill_bytes(key_, index_, other, 0, in_.subspan(to_[other].offset, to_[other].bytes));
      }
      break;
    case Operation::broadcast:
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

// If a step is repeated, the memory may hold its right results. They are wiped out first.
void TaskBuffers::fill_one_sided() {
  for (const std::span<std::byte> buffer : {in_, out_, window_}) {
    std::fill(buffer.begin(), buffer.end(), std::byte{0});
  }
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

TaskBuffers::Verdict TaskBuffers::verify() const {
  Verdict verdict;
  switch (task_->operation) {
    case Operation::all_reduce: check_sum(verdict, 0, out_); break;
    case Operation::reduce:
      if (index_ == 0) check_sum(verdict, 0, out_);
      break;
    case Operation::reduce_scatter: {
      const std::uint64_t block = own_block_bytes();
      check_sum(verdict, index_ * (block / bytes_of(task_->type)),
                out_.subspan(index_ * block, block));
      break;
    }
    case Operation::all_gather:
      for (std::uint32_t other = 0; other < size_; ++other) {
        check_bytes(verdict, other, kEveryone,
                    out_.subspan(other * own_block_bytes(), own_block_bytes()));
      }
      break;
    case Operation::all_to_all:
      for (std::uint32_t other = 0; other < size_; ++other) {
        check_bytes(verdict, index_, other, in_.subspan(to_[other].offset, to_[other].bytes));
        check_bytes(verdict, other, index_, out_.subspan(from_[other].offset, from_[other].bytes));
      }
      break;
    case Operation::broadcast: check_bytes(verdict, 0, kEveryone, out_); break;
    case Operation::shift_next:
    case Operation::shift_prev:
      if (target()) check_bytes(verdict, index_, *target(), in_);
      if (origin()) check_bytes(verdict, *origin(), index_, out_);
      break;
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
