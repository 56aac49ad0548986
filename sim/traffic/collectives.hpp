// SPDX-License-Identifier: Apache-2.0
// Collectives as messages, added to a matrix that is being put together: the algorithms of coll/,
// so far as who sends what to whom after what goes.
//
// `members` are the nodes that take part, at least one, in the order of their ranks. Each starts
// when it is ready and is ready again when it has received all that it awaits. All messages of one
// step of one collective share a step (Connection::step). Hints are those that coll/ gives: a group
// for each step, with as many members as the receiver awaits messages of it; but here the sender
// knows that number also where lengths differ. What is empty is not sent.
//
// `bytes` is how long the whole is at each rank: an all-reduce's vector; what an all-gather ends
// with and a reduce-scatter begins with; what a rank has for all in an all-to-all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "proto/base/random.hpp"
#include "sim/traffic/matrix_builder.hpp"

namespace hawser::fabric {

using Members = std::span<const std::uint32_t>;

// Part `index` of so many that differ by at most one byte, the longer ones first.
[[nodiscard]] constexpr std::uint64_t part_of(std::uint64_t bytes, std::uint64_t parts,
                                              std::uint64_t index) {
  return bytes / parts + (index < bytes % parts ? 1 : 0);
}

// A step is a message to one and a message from one, of each of so many channels, which don't wait
// for each other. A rank makes its next step of a channel when it has the message of the one
// before.
struct Lockstep {
  struct Send {
    std::uint32_t to = 0;  // a rank
    std::uint64_t bytes = 0;
  };
  Collective collective = Collective::none;
  std::uint32_t steps = 0;
  std::uint32_t channels = 1;
  std::function<Send(std::uint32_t rank, std::uint32_t step, std::uint32_t channel)> send;
};
void add_lockstep(MatrixBuilder& builder, Members members, const Lockstep& lockstep);

// A ring, as an all-reduce, a reduce-scatter or an all-gather: 2(n-1) steps or n-1, of a block of
// bytes/n each, in `channels` pieces.
void add_ring(MatrixBuilder& builder, Members members, Collective collective, std::uint64_t bytes,
              std::uint32_t channels = 1);
// All-reduce by recursive halving and doubling: halves of halves are exchanged and reduced, and
// gathered the same way back. Throws InputError unless there are a power of two.
void add_halving_doubling(MatrixBuilder& builder, Members members, std::uint64_t bytes);
// All-reduce by recursive doubling: all of it in each of log2(n) steps; what exceeds a power of two
// is taken in by neighbours before, and told afterwards.
void add_doubling(MatrixBuilder& builder, Members members, std::uint64_t bytes);
// Messages of a byte, to the one 2^k further in step k.
void add_barrier(MatrixBuilder& builder, Members members);
// A binomial tree; `root` is a rank.
void add_broadcast(MatrixBuilder& builder, Members members, std::uint32_t root,
                   std::uint64_t bytes);
// The same tree towards its root: a rank sends when it has what its children send.
void add_reduce(MatrixBuilder& builder, Members members, std::uint32_t root, std::uint64_t bytes);

struct Exchange {
  // Of one rank to another; never asked of a rank to itself.
  std::function<std::uint64_t(std::uint32_t from, std::uint32_t to)> bytes;
  std::uint32_t window = 0;        // messages under way of each rank; 0: all at once
  proto::Random* order = nullptr;  // draws whom each rank sends to first; null: from its neighbour
                                   // on
  std::uint16_t step = 0;          // as the hints say
  std::uint16_t steps = 1;
};
void add_all_to_all(MatrixBuilder& builder, Members members, const Exchange& exchange);

}  // namespace hawser::fabric
