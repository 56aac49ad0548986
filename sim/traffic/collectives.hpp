// SPDX-License-Identifier: Apache-2.0
// Collectives as messages, added to a matrix that is being put together. They are the algorithms of
// coll/, reduced to which rank sends how much to which after which receive.
//
// `members` are the nodes that take part, at least one, in the order of their ranks. Each starts
// when it is ready and is ready again when it has received all that it awaits. All messages of one
// step of one collective share a step (Connection::step). Hints are those that coll/ gives: a group
// for each step, with as many members as messages that the receiver awaits in it. Unlike in coll/,
// the sender also knows that number where lengths differ. Empty messages are not sent.
//
// `bytes` is the length of the whole at each rank. For an all-reduce that is the vector, for an
// all-gather the result, and for a reduce-scatter the input. For an all-to-all it is all that a
// rank has for the others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "proto/base/random.hpp"
#include "sim/traffic/matrix_builder.hpp"

namespace hawser::fabric {

using Members = std::span<const std::uint32_t>;

// Part `index` of `parts` that differ by at most one byte, the longer ones first.
[[nodiscard]] constexpr std::uint64_t part_of(std::uint64_t bytes, std::uint64_t parts,
                                              std::uint64_t index) {
  return bytes / parts + (index < bytes % parts ? 1 : 0);
}

// In a step each rank sends a message to one rank and receives one from a rank, on each of
// `channels` channels. Channels don't wait for each other. A rank makes its next step on a channel
// when it has the message of the one before.
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

// A ring, for an all-reduce, a reduce-scatter or an all-gather. It has 2(n-1) steps or n-1, of a
// block of bytes/n each, in `channels` pieces.
void add_ring(MatrixBuilder& builder, Members members, Collective collective, std::uint64_t bytes,
              std::uint32_t channels = 1);
// All-reduce by recursive halving and doubling: halves of halves are exchanged and reduced, and
// gathered the same way back. Throws InputError unless the number of members is a power of two.
void add_halving_doubling(MatrixBuilder& builder, Members members, std::uint64_t bytes);
// All-reduce by recursive doubling: all of it in each of log2(n) steps. Each rank in excess of a
// power of two sends its vector to a neighbour before, and gets the result from it afterwards.
void add_doubling(MatrixBuilder& builder, Members members, std::uint64_t bytes);
// Messages of a byte; in step k each rank sends to the one 2^k further.
void add_barrier(MatrixBuilder& builder, Members members);
// A binomial tree; `root` is a rank.
void add_broadcast(MatrixBuilder& builder, Members members, std::uint32_t root,
                   std::uint64_t bytes);
// The same tree towards its root: a rank sends when it has what its children send.
void add_reduce(MatrixBuilder& builder, Members members, std::uint32_t root, std::uint64_t bytes);

struct Exchange {
  // The length of the message of one rank to another; never called for a rank and itself.
  std::function<std::uint64_t(std::uint32_t from, std::uint32_t to)> bytes;
  std::uint32_t window = 0;        // messages in flight from each rank; 0: all at once
  proto::Random* order = nullptr;  // draws each rank's order; null: from its neighbour on
  std::uint16_t step = 0;          // the step in the hints
  std::uint16_t steps = 1;
};
void add_all_to_all(MatrixBuilder& builder, Members members, const Exchange& exchange);

}  // namespace hawser::fabric
