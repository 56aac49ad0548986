// SPDX-License-Identifier: Apache-2.0
#include "tool/check/task_buffers.hpp"

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
  // The guards and rounding of two buffers, whatever the operation.
  return BufferArena::footprint(buffer_bytes(task, layout)) + BufferArena::footprint(0) + 64;
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
    case Operation::barrier: break;
  }
}

void TaskBuffers::check_sum(Verdict& verdict, std::uint64_t first,
                            std::span<const std::byte> result) const {
  verdict.bytes += result.size();
  merge(verdict.mismatch, SumPattern(task_->type, size_).verify(key_, first, result));
}

void TaskBuffers::check_bytes(Verdict& verdict, std::uint32_t sender, std::uint32_t receiver,
                              std::span<const std::byte> result) const {
  verdict.bytes += result.size();
  merge(verdict.mismatch, verify_bytes(key_, sender, receiver, 0, result));
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
    case Operation::barrier: break;
  }
  return verdict;
}

}  // namespace hawser::tool
