// SPDX-License-Identifier: Apache-2.0
#include "test/coll/job.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "coll/reduce.hpp"
#include "test/coll/elements.hpp"

namespace hawser::test {
namespace {

using coll::Segment;

constexpr std::byte kMarginByte{0x3c};

std::uint64_t end_of(const std::vector<Segment>& segments) {
  std::uint64_t end = 0;
  for (const Segment& one : segments) end = std::max(end, one.offset + one.bytes);
  return end;
}

bool reduces(JobKind kind) {
  return kind == JobKind::all_reduce || kind == JobKind::reduce_scatter ||
         kind == JobKind::reduce || kind == JobKind::reduce_scatter_v;
}

// Each rank has a length of its own.
bool has_lengths(JobKind kind) {
  return kind == JobKind::reduce_scatter_v || kind == JobKind::all_gather_v ||
         kind == JobKind::gather_v || kind == JobKind::scatter_v;
}

bool gathers_at_root(JobKind kind) { return kind == JobKind::gather || kind == JobKind::gather_v; }
bool scatters_from_root(JobKind kind) {
  return kind == JobKind::scatter || kind == JobKind::scatter_v;
}

// Draws small counts often, since the edge cases are there.
std::uint64_t draw_count(proto::Random& random, std::uint64_t most) {
  switch (random.below(6)) {
    case 0: return random.below(std::min<std::uint64_t>(most, 3) + 1);
    case 1: return random.below(std::min<std::uint64_t>(most, 40) + 1);
    case 2:
    case 3: return random.below(std::min<std::uint64_t>(most, 2000) + 1);
    default: return random.below(most + 1);
  }
}

}  // namespace

std::string JobShape::text() const {
  static constexpr const char* names[kJobKinds] = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all",       "all_to_all_v",
      "broadcast",  "barrier",        "reduce",     "reduce_scatter_v", "all_gather_v",
      "gather",     "gather_v",       "scatter",    "scatter_v"};
  return std::string(names[static_cast<std::size_t>(kind)]) + " of " + std::to_string(count) + " " +
         std::string(to_string(type)) + " " + std::string(to_string(op)) + ", " +
         std::to_string(ranks) + " ranks, root " + std::to_string(root) +
         (in_place ? ", in place" : "");
}

JobShape draw_job(proto::Random& random, std::uint32_t ranks, std::uint64_t most_bytes) {
  JobShape shape{.kind = static_cast<JobKind>(random.below(kJobKinds)),
                 .type = static_cast<coll::DataType>(random.below(coll::kDataTypes)),
                 .op = static_cast<coll::ReduceOp>(random.below(coll::kReduceOps)),
                 .ranks = ranks,
                 .root = static_cast<std::uint32_t>(random.below(ranks)),
                 .in_place = random.below(2) == 0};
  while (!coll::is_possible(shape.type, reduction_of(shape.op))) {
    shape.op = static_cast<coll::ReduceOp>(random.below(coll::kReduceOps));
  }
  std::uint64_t most = most_bytes;
  if (reduces(shape.kind)) most /= coll::size_of(shape.type);
  const bool has_one_block = shape.kind == JobKind::all_reduce || shape.kind == JobKind::reduce ||
                             shape.kind == JobKind::broadcast;
  if (!has_one_block) most /= ranks;
  shape.count = draw_count(random, most);
  if (shape.kind == JobKind::all_to_all_v) shape.in_place = false;
  return shape;
}

void Job::Buffer::make(std::uint64_t bytes) { memory.assign(bytes + 2 * kMargin, kMarginByte); }

bool Job::Buffer::margins_untouched() const {
  const auto untouched = [](std::byte one) { return one == kMarginByte; };
  return std::all_of(memory.begin(), memory.begin() + kMargin, untouched) &&
         std::all_of(memory.end() - kMargin, memory.end(), untouched);
}

Job::Job(const JobShape& shape, proto::Random& random) : shape_(shape), per_rank_(shape.ranks) {
  const std::uint64_t block = shape.count * unit();
  const bool gathers = shape.kind == JobKind::all_gather || shape.kind == JobKind::all_to_all;
  output_bytes_ = gathers ? block * shape.ranks : block;
  if (shape.kind == JobKind::barrier) output_bytes_ = 0;
  if (shape.kind == JobKind::all_to_all_v) draw_lengths(random);
  if (has_lengths(shape.kind)) draw_blocks(random);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    fill_input(rank, random);
    make_buffers(rank);
  }
}

void Job::make_buffers(std::uint32_t rank) {
  PerRank& own = per_rank_[rank];
  const bool is_rooted = gathers_at_root(shape_.kind) || scatters_from_root(shape_.kind);
  own.in_place =
      (shape_.in_place && (!is_rooted || rank == shape_.root)) || shape_.kind == JobKind::broadcast;
  own.input.make(own.original.size());
  std::copy(own.original.begin(), own.original.end(), own.input.data());
  if (!own.in_place) {
    own.output.make(output_bytes_of(rank));
    return;
  }
  own.output.make(std::max<std::uint64_t>(own.original.size(), output_bytes_of(rank)));
  switch (shape_.kind) {
    case JobKind::all_gather:
    case JobKind::all_gather_v:
    case JobKind::gather:
    case JobKind::gather_v: own.in_offset = block_at(rank, rank).offset; break;
    case JobKind::reduce_scatter:
    case JobKind::reduce_scatter_v:
    case JobKind::scatter:
    case JobKind::scatter_v: own.out_offset = block_at(rank, rank).offset; break;
    default: break;
  }
  std::copy(own.original.begin(), own.original.end(), own.output.data() + own.in_offset);
}

std::uint64_t Job::unit() const { return reduces(shape_.kind) ? coll::size_of(shape_.type) : 1; }

Segment Job::block_at(std::uint32_t rank, std::uint32_t block) const {
  if (has_lengths(shape_.kind)) return per_rank_[rank].blocks[block];
  const std::uint64_t bytes = shape_.count * unit();
  return {block * bytes, bytes};
}

std::uint64_t Job::blocks_end(std::uint32_t rank) const {
  if (has_lengths(shape_.kind)) return end_of(per_rank_[rank].blocks);
  return shape_.count * unit() * shape_.ranks;
}

void Job::draw_blocks(proto::Random& random) {
  std::vector<std::uint64_t> lengths(shape_.ranks);
  for (std::uint64_t& one : lengths) {
    one = random.below(3) == 0 ? 0 : random.below(shape_.count + 1) * unit();
  }
  for (PerRank& one : per_rank_) {
    for (const std::uint64_t bytes : lengths) one.blocks.push_back({0, bytes});
    lay_out(one.blocks, unit(), random);
  }
}

// Draws how much rank i sends to rank j, sometimes nothing.
void Job::draw_lengths(proto::Random& random) {
  for (PerRank& one : per_rank_) {
    one.to.resize(shape_.ranks);
    one.from.resize(shape_.ranks);
  }
  for (std::uint32_t i = 0; i < shape_.ranks; ++i) {
    for (std::uint32_t j = 0; j < shape_.ranks; ++j) {
      const std::uint64_t bytes = random.below(3) == 0 ? 0 : random.below(shape_.count + 1);
      per_rank_[i].to[j].bytes = bytes;
      per_rank_[j].from[i].bytes = bytes;
    }
  }
  for (PerRank& one : per_rank_) {
    lay_out(one.to, 1, random);
    lay_out(one.from, 1, random);
  }
}

// Lays the segments out in random order, with gaps.
void Job::lay_out(std::vector<Segment>& segments, std::uint64_t unit, proto::Random& random) const {
  std::vector<std::size_t> order(segments.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::uint64_t at = random.below(9) * unit;
  for (const std::size_t index : order) {
    segments[index].offset = at;
    at += segments[index].bytes + random.below(9) * unit;
  }
}

std::uint64_t Job::input_bytes(std::uint32_t rank) const {
  switch (shape_.kind) {
    case JobKind::all_to_all: return shape_.count * shape_.ranks;
    case JobKind::all_to_all_v: return end_of(per_rank_[rank].to);
    case JobKind::barrier: return 0;
    case JobKind::all_gather_v:
    case JobKind::gather_v: return block_at(rank, rank).bytes;
    case JobKind::scatter:
    case JobKind::scatter_v: return rank == shape_.root ? blocks_end(rank) : 0;
    default: return shape_.count;
  }
}

std::uint64_t Job::output_bytes_of(std::uint32_t rank) const {
  switch (shape_.kind) {
    case JobKind::all_to_all_v: return end_of(per_rank_[rank].from);
    case JobKind::all_gather_v: return blocks_end(rank);
    case JobKind::gather:
    case JobKind::gather_v: return rank == shape_.root ? blocks_end(rank) : 0;
    case JobKind::reduce_scatter_v:
    case JobKind::scatter:
    case JobKind::scatter_v: return block_at(rank, rank).bytes;
    default: return output_bytes_;
  }
}

void Job::fill_input(std::uint32_t rank, proto::Random& random) {
  std::vector<std::byte>& original = per_rank_[rank].original;
  if (reduces(shape_.kind)) {
    std::uint64_t bytes = shape_.count * unit();
    if (shape_.kind == JobKind::reduce_scatter || shape_.kind == JobKind::reduce_scatter_v) {
      bytes = blocks_end(rank);
    }
    original = exact_elements(shape_.type, shape_.op, bytes / unit(), rank, random);
    return;
  }
  original.resize(input_bytes(rank));
  for (std::byte& one : original) one = static_cast<std::byte>(random.next());
}

Status Job::start(coll::Communicator& communicator) {
  const Status status = call(communicator);
  per_rank_[communicator.rank()].started = status == Status::ok;
  return status;
}

Status Job::call(coll::Communicator& communicator) {
  PerRank& own = per_rank_[communicator.rank()];
  std::byte* out = own.output.data() + own.out_offset;
  const std::byte* in = own.in_place ? own.output.data() + own.in_offset : own.input.data();
  const coll::Reduction reduction = reduction_of(shape_.op);
  const bool is_root = communicator.rank() == shape_.root;
  switch (shape_.kind) {
    case JobKind::all_reduce:
      return communicator.all_reduce(in, out, shape_.count, shape_.type, reduction, own.request);
    case JobKind::reduce_scatter:
      return communicator.reduce_scatter(in, out, shape_.count, shape_.type, reduction,
                                         own.request);
    case JobKind::all_gather: return communicator.all_gather(in, out, shape_.count, own.request);
    case JobKind::all_to_all: return communicator.all_to_all(in, out, shape_.count, own.request);
    case JobKind::all_to_all_v:
      return communicator.all_to_all_v(in, own.to, out, own.from, own.request);
    case JobKind::broadcast:
      return communicator.broadcast(out, shape_.count, shape_.root, own.request);
    case JobKind::barrier: return communicator.barrier(own.request);
    case JobKind::reduce:
      return communicator.reduce(in, communicator.rank() == shape_.root ? out : nullptr,
                                 shape_.count, shape_.type, reduction, shape_.root, own.request);
    case JobKind::reduce_scatter_v:
      // In place the blocks are where the whole input begins.
      return communicator.reduce_scatter_v(in, own.blocks, out, shape_.type, reduction,
                                           own.request);
    case JobKind::all_gather_v: return communicator.all_gather_v(in, out, own.blocks, own.request);
    case JobKind::gather:
      return communicator.gather(in, is_root ? out : nullptr, shape_.count, shape_.root,
                                 own.request);
    case JobKind::gather_v:
      return communicator.gather_v(
          in, own.original.size(), is_root ? out : nullptr,
          is_root ? std::span<const Segment>(own.blocks) : std::span<const Segment>(), shape_.root,
          own.request);
    case JobKind::scatter:
      return communicator.scatter(is_root ? in : nullptr, out, shape_.count, shape_.root,
                                  own.request);
    case JobKind::scatter_v:
      return communicator.scatter_v(
          is_root ? in : nullptr,
          is_root ? std::span<const Segment>(own.blocks) : std::span<const Segment>(), out,
          own.blocks[communicator.rank()].bytes, shape_.root, own.request);
  }
  return Status::invalid_argument;
}

std::string Job::wrong(std::uint32_t rank) const {
  const PerRank& own = per_rank_[rank];
  if (!own.input.margins_untouched() || !own.output.margins_untouched()) return "wrote outside";
  if (!std::equal(own.original.begin(), own.original.end(), own.input.data())) {
    return "wrote to its input";
  }
  if (shape_.kind == JobKind::reduce && rank != shape_.root) {
    const bool is_whole =
        !own.in_place || std::equal(own.original.begin(), own.original.end(), own.output.data());
    return is_whole ? "" : "wrote to its input";
  }
  return reduces(shape_.kind) ? wrong_reduction(rank) : wrong_bytes(rank);
}

std::string Job::wrong_reduction(std::uint32_t rank) const {
  const bool scatters =
      shape_.kind == JobKind::reduce_scatter || shape_.kind == JobKind::reduce_scatter_v;
  std::vector<const std::byte*> inputs;
  for (std::uint32_t other = 0; other < shape_.ranks; ++other) {
    inputs.push_back(per_rank_[other].original.data() +
                     (scatters ? block_at(other, rank).offset : 0));
  }
  const std::uint64_t count = scatters ? block_at(rank, rank).bytes / unit() : shape_.count;
  const std::uint64_t at =
      first_wrong(shape_.type, shape_.op, inputs, per_rank_[rank].out(), count);
  return at == count ? "" : "element " + std::to_string(at) + " is wrong";
}

std::string Job::wrong_bytes(std::uint32_t rank) const {
  const PerRank& own = per_rank_[rank];
  const auto differs = [&](std::uint64_t out_offset, std::uint32_t from, std::uint64_t in_offset,
                           std::uint64_t bytes) {
    return bytes > 0 && std::memcmp(own.out() + out_offset,
                                    per_rank_[from].original.data() + in_offset, bytes) != 0;
  };
  const std::uint64_t n = shape_.count;
  for (std::uint32_t other = 0; other < shape_.ranks; ++other) {
    bool wrong = false;
    if (shape_.kind == JobKind::all_gather) wrong = differs(other * n, other, 0, n);
    if (shape_.kind == JobKind::all_to_all) wrong = differs(other * n, other, rank * n, n);
    if (shape_.kind == JobKind::broadcast) wrong = differs(0, shape_.root, 0, n);
    if (shape_.kind == JobKind::all_to_all_v) {
      wrong = differs(own.from[other].offset, other, per_rank_[other].to[rank].offset,
                      own.from[other].bytes);
    }
    if (shape_.kind == JobKind::all_gather_v ||
        (gathers_at_root(shape_.kind) && rank == shape_.root)) {
      const Segment block = block_at(rank, other);
      wrong = differs(block.offset, other, 0, block.bytes);
    }
    if (scatters_from_root(shape_.kind) && other == shape_.root) {
      const Segment block = block_at(other, rank);
      wrong = differs(0, other, block.offset, block.bytes);
    }
    if (wrong) return "the data of rank " + std::to_string(other) + " is wrong";
  }
  return "";
}

}  // namespace hawser::test
