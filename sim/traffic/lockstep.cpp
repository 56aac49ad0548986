// SPDX-License-Identifier: Apache-2.0
// Collectives in which each rank sends to one and awaits one in each step.
#include <algorithm>
#include <bit>

#include "sim/traffic/collectives.hpp"

namespace hawser::fabric {

namespace {

std::uint16_t saturate16(std::uint64_t value) {
  return static_cast<std::uint16_t>(std::min<std::uint64_t>(value, 0xffff));
}

class LockstepMaker {
 public:
  LockstepMaker(MatrixBuilder& builder, Members members, const Lockstep& lockstep)
      : builder_(builder),
        members_(members),
        lockstep_(lockstep),
        steps_(lockstep.steps),
        first_group_(builder.new_groups(lockstep.steps)) {
    for (std::uint32_t step = 0; step < lockstep.steps; ++step) steps_[step] = builder.new_step();
  }

  void make() {
    const std::size_t ranks = members_.size();
    std::vector<Moment> begin(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) begin[rank] = builder_.ready(members_[rank]);
    std::vector<std::vector<Moment>> now(lockstep_.channels, begin);
    for (std::uint32_t step = 0; step < lockstep_.steps; ++step) make_step(now, step);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Moment done = kBegin;
      for (const std::vector<Moment>& of_channel : now) {
        done = builder_.both(done, of_channel[rank]);
      }
      builder_.set_ready(members_[rank], done);
    }
  }

 private:
  // How many messages of this step each rank awaits, over all channels.
  std::vector<std::uint32_t> awaited(std::uint32_t step) const {
    std::vector<std::uint32_t> count(members_.size());
    for (std::uint32_t channel = 0; channel < lockstep_.channels; ++channel) {
      for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
        const Lockstep::Send send = lockstep_.send(rank, step, channel);
        if (send.bytes > 0) ++count[send.to];
      }
    }
    return count;
  }

  // Turns each rank's moments before the step into those after it, by channel.
  void make_step(std::vector<std::vector<Moment>>& now, std::uint32_t step) {
    const std::vector<std::uint32_t> members = awaited(step);
    for (std::uint32_t channel = 0; channel < lockstep_.channels; ++channel) {
      const std::vector<Moment> before = now[channel];
      std::vector<Moment>& after = now[channel];
      for (std::uint32_t rank = 0; rank < before.size(); ++rank) {
        const Lockstep::Send send = lockstep_.send(rank, step, channel);
        if (send.bytes == 0) continue;
        after[send.to] = builder_.moment();
        builder_.must_precede(before[send.to], after[send.to]);
        builder_.send({.from = members_[rank],
                       .to = members_[send.to],
                       .bytes = send.bytes,
                       .after = before[rank],
                       .when_received = after[send.to],
                       .step = steps_[step],
                       .hint = {.group = first_group_ + step,
                                .members = saturate16(members[send.to]),
                                .step = saturate16(step),
                                .steps = saturate16(lockstep_.steps),
                                .collective = lockstep_.collective}});
      }
    }
  }

  MatrixBuilder& builder_;
  Members members_;
  const Lockstep& lockstep_;
  std::vector<std::uint32_t> steps_;
  std::uint32_t first_group_;
};

}  // namespace

void add_lockstep(MatrixBuilder& builder, Members members, const Lockstep& lockstep) {
  LockstepMaker(builder, members, lockstep).make();
}

void add_ring(MatrixBuilder& builder, Members members, Collective collective, std::uint64_t bytes,
              std::uint32_t channels) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  const std::uint32_t reduce = collective == Collective::all_gather ? 0 : ranks - 1;
  const std::uint32_t gather = collective == Collective::reduce_scatter ? 0 : ranks - 1;
  Lockstep ring{
      .collective = collective, .steps = reduce + gather, .channels = channels, .send = {}};
  // The blocks of coll/'s rings: the reduce steps leave each rank with its own block.
  ring.send = [=](std::uint32_t rank, std::uint32_t step, std::uint32_t channel) {
    const std::uint32_t behind = step < reduce ? step + 1 : step - reduce;
    const std::uint64_t block = part_of(bytes, ranks, (rank + ranks - behind) % ranks);
    return Lockstep::Send{(rank + 1) % ranks, part_of(block, channels, channel)};
  };
  add_lockstep(builder, members, ring);
}

void add_halving_doubling(MatrixBuilder& builder, Members members, std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  if (!std::has_single_bit(ranks)) {
    throw InputError("halving and doubling needs a power of two of nodes, not " +
                     std::to_string(ranks) + ": take " + std::to_string(std::bit_floor(ranks)) +
                     " or " + std::to_string(std::bit_ceil(ranks)) + ", or a ring");
  }
  const auto half = static_cast<std::uint32_t>(std::countr_zero(ranks));
  // After k halvings a rank has the blocks of the ranks whose lowest k bits are its own; it sends
  // those of its partner. Doublings send back the blocks that it has then.
  const auto blocks = [=](std::uint32_t of, std::uint32_t bits) {
    const std::uint64_t lowest = of & ((1u << bits) - 1);
    const std::uint64_t longer = bytes % ranks;  // blocks below are a byte longer than the others
    const std::uint64_t of_these = longer > lowest ? ((longer - lowest - 1) >> bits) + 1 : 0;
    return (bytes / ranks) * (ranks >> bits) + of_these;
  };
  Lockstep butterfly{.collective = Collective::all_reduce, .steps = 2 * half, .send = {}};
  butterfly.send = [=](std::uint32_t rank, std::uint32_t step, std::uint32_t) {
    const std::uint32_t bit = step < half ? step : 2 * half - 1 - step;
    const std::uint32_t partner = rank ^ (1u << bit);
    return Lockstep::Send{partner, blocks(step < half ? partner : rank, bit + 1)};
  };
  add_lockstep(builder, members, butterfly);
}

void add_doubling(MatrixBuilder& builder, Members members, std::uint64_t bytes) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  const std::uint32_t pairs = ranks - std::bit_floor(ranks);
  const auto stages = static_cast<std::uint32_t>(std::countr_zero(std::bit_floor(ranks)));
  const std::uint32_t before = pairs > 0 ? 1 : 0;
  Lockstep doubling{.collective = Collective::all_reduce, .steps = stages + 2 * before, .send = {}};
  // Among the first 2 * pairs ranks, the even ones sit out, and the odd ones stand for two.
  doubling.send = [=](std::uint32_t rank, std::uint32_t step, std::uint32_t) {
    const bool in_pair = rank < 2 * pairs;
    const bool is_odd = rank % 2 == 1;
    if (before > 0 && (step == 0 || step == stages + 1)) {
      const bool sends = in_pair && is_odd == (step > 0);
      return Lockstep::Send{rank ^ 1, sends ? bytes : 0};
    }
    if (in_pair && !is_odd) return Lockstep::Send{rank ^ 1, 0};
    const std::uint32_t number = in_pair ? rank / 2 : rank - pairs;
    const std::uint32_t other = number ^ (1u << (step - before));
    return Lockstep::Send{other < pairs ? 2 * other + 1 : other + pairs, bytes};
  };
  add_lockstep(builder, members, doubling);
}

void add_barrier(MatrixBuilder& builder, Members members) {
  const auto ranks = static_cast<std::uint32_t>(members.size());
  Lockstep barrier{.collective = Collective::barrier,
                   .steps = static_cast<std::uint32_t>(std::bit_width(ranks - 1)),
                   .send = {}};
  barrier.send = [=](std::uint32_t rank, std::uint32_t step, std::uint32_t) {
    return Lockstep::Send{(rank + (1u << step)) % ranks, 1};
  };
  add_lockstep(builder, members, barrier);
}

}  // namespace hawser::fabric
