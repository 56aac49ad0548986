// SPDX-License-Identifier: Apache-2.0
// The buffers of one task at one rank: filled with the rank's contribution, and compared with the
// expected result. Shares no code with coll/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tool/check/pattern.hpp"
#include "tool/check/word_history.hpp"
#include "tool/run/buffers.hpp"
#include "tool/run/schedule.hpp"
#include "tool/run/transfers.hpp"

namespace hawser::tool {

// Part of a buffer that goes to, or comes from, one rank of the group.
struct Block {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class TaskBuffers {
 public:
  // Takes the buffers from `arena`; footprint() gives their size there. The first buffer of a
  // one-sided task is its window.
  TaskBuffers(const Task& task, const GroupLayout& layout, std::uint32_t rank, std::uint64_t seed,
              std::uint32_t step, BufferArena& arena);

  // At least the size that the constructor takes of an arena.
  [[nodiscard]] static std::size_t footprint(const Task& task, const GroupLayout& layout);

  void fill();

  struct Verdict {
    std::uint64_t bytes = 0;  // verified
    std::optional<Mismatch> mismatch;
  };
  // Checks results, and inputs that had to stay as they were.
  [[nodiscard]] Verdict verify() const;

  [[nodiscard]] const Task& task() const { return *task_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }  // of this rank in its group
  [[nodiscard]] std::uint32_t size() const { return size_; }    // of the group
  // As the collective takes them: in place, one is part of the other. Empty where it takes none.
  [[nodiscard]] std::span<std::byte> in() const { return in_; }
  [[nodiscard]] std::span<std::byte> out() const { return out_; }
  // all_to_all: by rank of the group.
  [[nodiscard]] std::span<const Block> to() const { return to_; }
  [[nodiscard]] std::span<const Block> from() const { return from_; }
  // One-sided tasks: the buffer that peers reach, which is in(), out(), or the words of atomics.
  [[nodiscard]] std::span<std::byte> window() const { return window_; }
  [[nodiscard]] const Transfers& transfers() const { return transfers_; }
  // atomics: what this rank fetched, by member. in() and out() hold the records of this rank, and
  // those of all ranks about this rank's words.
  [[nodiscard]] std::span<FetchRecord> fetched_from(std::uint32_t member) const;
  [[nodiscard]] std::span<std::uint64_t> words() const;
  [[nodiscard]] const PatternKey& key() const { return key_; }
  // shift_*: the neighbours' places in the group, if there are any.
  [[nodiscard]] std::optional<std::uint32_t> target() const;
  [[nodiscard]] std::optional<std::uint32_t> origin() const;

 private:
  // Shares of a buffer that is divided evenly among the group.
  [[nodiscard]] std::uint64_t block_bytes() const { return task_->bytes() / size_; }
  [[nodiscard]] std::span<std::byte> block_of(std::span<std::byte> whole,
                                              std::uint32_t member) const;
  void take_whole(BufferArena& arena);
  void take_divided(BufferArena& arena, bool in_is_whole, bool out_is_whole);
  void take_split(BufferArena& arena);
  void fill_blocks();
  void check_sum(Verdict& verdict, std::uint64_t first, std::span<const std::byte> result) const;
  void check_bytes(Verdict& verdict, std::uint32_t sender, std::uint32_t receiver,
                   std::span<const std::byte> result, std::uint64_t first = 0) const;
  // That input is as filled, but for what an operation in place has overwritten.
  void check_summands(Verdict& verdict) const;
  void check_gathered(Verdict& verdict) const;
  void check_scattered(Verdict& verdict) const;
  void check_blocks(Verdict& verdict) const;
  void check_shift(Verdict& verdict) const;
  void take_one_sided(BufferArena& arena);
  void fill_one_sided();
  void check_transfers(Verdict& verdict) const;
  void check_words(Verdict& verdict) const;

  const Task* task_;
  std::uint32_t size_;
  std::uint32_t index_;
  PatternKey key_;
  std::span<std::byte> in_;
  std::span<std::byte> out_;
  std::vector<Block> to_;
  std::vector<Block> from_;
  std::span<std::byte> window_;
  Transfers transfers_;
};

}  // namespace hawser::tool
