// SPDX-License-Identifier: Apache-2.0
#include "tool/run/transfers.hpp"

#include <algorithm>
#include <utility>

namespace hawser::tool {
namespace {

// Elements that each member sends to each expert. An expert is popular with all senders, more or
// less.
class TokenTable {
 public:
  TokenTable(const Task& task, std::uint32_t size, std::uint64_t seed, std::uint32_t step,
             std::uint32_t group)
      : experts_(task.experts), counts_(std::size_t{size} * task.experts) {
    std::uint64_t state =
        seed ^ (std::uint64_t{step} << 40) ^ (std::uint64_t{task.pair} << 20) ^ group;
    std::vector<std::uint64_t> popular(experts_);
    for (std::uint64_t& weight : popular) weight = draw_weight(state);
    std::vector<std::uint64_t> weights(experts_);
    for (std::uint32_t from = 0; from < size; ++from) {
      std::uint64_t total = 0;
      for (std::uint32_t expert = 0; expert < experts_; ++expert) {
        weights[expert] = (popular[expert] + draw_weight(state)) / 2;
        total += weights[expert];
      }
      divide(task.elements, weights, total, &counts_[std::size_t{from} * experts_]);
    }
  }

  [[nodiscard]] std::uint64_t elements(std::uint32_t from, std::uint32_t expert) const {
    return counts_[std::size_t{from} * experts_ + expert];
  }

 private:
  static std::uint64_t draw_weight(std::uint64_t& state) {
    return kMinWeight + next_random(state) % (kMaxWeight - kMinWeight + 1);
  }

  // No overflow: elements are below 2^50, weights at most 2^10.
  static void divide(std::uint64_t elements, const std::vector<std::uint64_t>& weights,
                     std::uint64_t total, std::uint64_t* counts) {
    std::uint64_t left = elements;
    for (std::size_t expert = 0; expert + 1 < weights.size(); ++expert) {
      counts[expert] = elements * weights[expert] / total;
      left -= counts[expert];
    }
    counts[weights.size() - 1] = left;
  }

  std::uint32_t experts_;
  std::vector<std::uint64_t> counts_;
};

// The experts of a member follow each other.
std::uint32_t first_expert(const Task& task, std::uint32_t size, std::uint32_t member) {
  std::uint32_t expert = 0;
  while (expert < task.experts && member_of_expert(task, size, expert) < member) ++expert;
  return expert;
}

// Offsets of the tokens of one member for one expert, in elements.
struct Offsets {
  std::uint64_t at_sender = 0;
  std::uint64_t at_owner = 0;
  std::uint64_t first = 0;
};

Offsets offsets_of(const TokenTable& table, const Task& task, std::uint32_t size,
                   std::uint32_t from, std::uint32_t expert) {
  Offsets offsets;
  for (std::uint32_t e = 0; e < expert; ++e) offsets.at_sender += table.elements(from, e);
  const std::uint32_t begin = first_expert(task, size, member_of_expert(task, size, expert));
  for (std::uint32_t e = begin; e < expert; ++e) {
    offsets.first += table.elements(from, e);
    for (std::uint32_t other = 0; other < size; ++other) {
      offsets.at_owner += table.elements(other, e);
    }
  }
  for (std::uint32_t other = 0; other < from; ++other) {
    offsets.at_owner += table.elements(other, expert);
  }
  return offsets;
}

void dispatch(Transfers& transfers, const Task& task, std::uint32_t size, std::uint32_t index,
              const TokenTable& table) {
  const std::uint64_t element = bytes_of(task.type);
  for (std::uint32_t expert = 0; expert < task.experts; ++expert) {
    const std::uint32_t owner = member_of_expert(task, size, expert);
    for (std::uint32_t from = 0; from < size; ++from) {
      if (from != index && owner != index) continue;
      const std::uint64_t bytes = table.elements(from, expert) * element;
      if (bytes == 0) continue;
      const Offsets at = offsets_of(table, task, size, from, expert);
      if (from == index) {
        transfers.outgoing.push_back(
            {owner, at.at_sender * element, at.at_owner * element, bytes, at.first * element});
        transfers.source_bytes += bytes;
      }
      if (owner == index) {
        transfers.incoming.push_back(
            {from, at.at_owner * element, at.at_sender * element, bytes, at.first * element});
        transfers.result_bytes += bytes;
      }
    }
  }
}

void share_evenly(Transfers& transfers, const Task& task, std::uint32_t size, std::uint32_t index) {
  const std::uint64_t share = task.bytes() / size;
  for (std::uint32_t other = 0; other < size; ++other) {
    const Transfer transfer{other, other * share, index * share, share, 0};
    transfers.outgoing.push_back(transfer);
    transfers.incoming.push_back(transfer);
  }
  transfers.source_bytes = transfers.result_bytes = task.bytes();
}

}  // namespace

Transfers make_transfers(const Task& task, std::uint32_t size, std::uint32_t index,
                         std::uint64_t seed, std::uint32_t step, std::uint32_t group) {
  Transfers transfers;
  if (task.operation == Operation::put || task.operation == Operation::get) {
    share_evenly(transfers, task, size, index);
    return transfers;
  }
  dispatch(transfers, task, size, index, TokenTable(task, size, seed, step, group));
  if (task.operation == Operation::combine) {
    std::swap(transfers.outgoing, transfers.incoming);
    std::swap(transfers.source_bytes, transfers.result_bytes);
  }
  return transfers;
}

std::uint64_t operations_of(const Task& task, const Transfer& transfer) {
  if (task.block_bytes == 0) return 1;
  return divide_up(transfer.bytes, task.block_bytes);
}

std::uint32_t member_of_expert(const Task& task, std::uint32_t size, std::uint32_t expert) {
  return static_cast<std::uint32_t>(std::uint64_t{expert} * size / task.experts);
}

std::uint64_t most_dispatched_bytes(const Task& task, std::uint32_t size) {
  const std::uint64_t most = divide_up(task.experts, size);  // experts of one member
  const std::uint64_t popular = most * kMaxWeight;
  const std::uint64_t others = (task.experts - std::min<std::uint64_t>(most, task.experts));
  // A sender's rounding goes to its last expert.
  const std::uint64_t rounding = std::uint64_t{task.experts} * bytes_of(task.type);
  return size *
         (multiply_divide_up(task.bytes(), popular, popular + others * kMinWeight) + rounding);
}

std::uint64_t atomics_to_each(const Task& task, std::uint32_t size) {
  return std::max<std::uint64_t>(task.bytes() / sizeof(std::uint64_t) / size, 1);
}

std::uint64_t window_bytes(const Task& task, const GroupLayout& layout) {
  switch (task.operation) {
    case Operation::put:
    case Operation::get:
    case Operation::combine: return task.bytes();
    case Operation::dispatch: return most_dispatched_bytes(task, layout[task.group].size);
    case Operation::atomics: return task.words * sizeof(std::uint64_t);
    default: return 0;
  }
}

std::uint64_t largest_window_bytes(const Schedule& schedule) {
  std::uint64_t largest = 0;
  for (const auto* tasks : {&schedule.init, &schedule.step}) {
    for (const Task& task : *tasks) {
      largest = std::max(largest, window_bytes(task, schedule.layout));
    }
  }
  return largest;
}

}  // namespace hawser::tool
