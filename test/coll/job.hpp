// SPDX-License-Identifier: Apache-2.0
// One collective of all ranks: draws its arguments and inputs, starts it, and compares every byte
// of the result with a naive computation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hawser/collectives.hpp"
#include "proto/base/random.hpp"

namespace hawser::test {

enum class JobKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  all_to_all_v,
  broadcast,
  barrier,
  reduce,
  reduce_scatter_v,
  all_gather_v,
  gather,
  gather_v,
  scatter,
  scatter_v,
};
inline constexpr std::uint64_t kJobKinds = 14;

struct JobShape {
  JobKind kind = JobKind::barrier;
  coll::DataType type = coll::DataType::f32;
  coll::ReduceOp op = coll::ReduceOp::sum;
  std::uint32_t ranks = 1;
  std::uint64_t count = 0;  // as the call's argument: elements or bytes
  std::uint32_t root = 0;
  bool in_place = false;

  [[nodiscard]] std::string text() const;
};

// `most_bytes` limits the input of one rank.
[[nodiscard]] JobShape draw_job(proto::Random& random, std::uint32_t ranks,
                                std::uint64_t most_bytes);

class Job {
 public:
  Job(const JobShape& shape, proto::Random& random);

  [[nodiscard]] Status start(coll::Communicator& communicator);
  [[nodiscard]] const coll::Request& request(std::uint32_t rank) const {
    return per_rank_[rank].request;
  }
  // Whether the communicator of `rank` accepted the call.
  [[nodiscard]] bool started(std::uint32_t rank) const { return per_rank_[rank].started; }
  // Describes the first error in the results of `rank`; empty if they are right.
  [[nodiscard]] std::string wrong(std::uint32_t rank) const;
  [[nodiscard]] const JobShape& shape() const { return shape_; }
  [[nodiscard]] const std::byte* output(std::uint32_t rank) const { return per_rank_[rank].out(); }
  [[nodiscard]] std::uint64_t output_bytes() const { return output_bytes_; }

 private:
  // A buffer between two margins whose bytes must not change.
  struct Buffer {
    static constexpr std::uint64_t kMargin = 64;
    std::vector<std::byte> memory;
    void make(std::uint64_t bytes);
    [[nodiscard]] std::byte* data() { return memory.data() + kMargin; }
    [[nodiscard]] const std::byte* data() const { return memory.data() + kMargin; }
    [[nodiscard]] std::uint64_t size() const { return memory.size() - 2 * kMargin; }
    [[nodiscard]] bool margins_untouched() const;
  };
  struct PerRank {
    std::vector<std::byte> original;  // the input as it was
    Buffer input;
    Buffer output;
    bool in_place = false;
    std::uint64_t in_offset = 0;  // in place: where the call's `in` and `out` lie in `output`
    std::uint64_t out_offset = 0;
    std::vector<coll::Segment> to;
    std::vector<coll::Segment> from;
    std::vector<coll::Segment> blocks;  // of the larger buffer, for collectives with lengths
    coll::Request request;
    bool started = false;
    [[nodiscard]] const std::byte* out() const { return output.data() + out_offset; }
  };

  [[nodiscard]] Status call(coll::Communicator& communicator);
  void draw_lengths(proto::Random& random);
  void draw_blocks(proto::Random& random);
  // Offsets are multiples of `unit`.
  void lay_out(std::vector<coll::Segment>& segments, std::uint64_t unit,
               proto::Random& random) const;
  void make_buffers(std::uint32_t rank);
  [[nodiscard]] std::uint64_t unit() const;
  // Where the block of `block` lies in the larger buffer of `rank`.
  [[nodiscard]] coll::Segment block_at(std::uint32_t rank, std::uint32_t block) const;
  [[nodiscard]] std::uint64_t blocks_end(std::uint32_t rank) const;
  [[nodiscard]] std::uint64_t input_bytes(std::uint32_t rank) const;
  [[nodiscard]] std::uint64_t output_bytes_of(std::uint32_t rank) const;
  void fill_input(std::uint32_t rank, proto::Random& random);
  [[nodiscard]] std::string wrong_reduction(std::uint32_t rank) const;
  [[nodiscard]] std::string wrong_bytes(std::uint32_t rank) const;

  JobShape shape_;
  std::uint64_t output_bytes_ = 0;  // of the call's `out`, where it is the same for all ranks
  std::vector<PerRank> per_rank_;
};

}  // namespace hawser::test
