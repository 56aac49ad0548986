// SPDX-License-Identifier: Apache-2.0
// Agrees with the other members of a revoked communicator on the ranks that are left.
//
// It does no input and output: Shrinking does. In a round each rank sends its vote, a set of ranks,
// to all others. It awaits the votes of those that it has not given up.
//
// In round 0 each rank says that it is there. In round 1 it votes for those that it has heard, and
// in round 2 it says that it is still there. It then gives up whom it doesn't hear, and one of any
// two others that don't hear each other. Later it votes against those that it has given up. If all
// votes of the round are the same, and nobody was lost meanwhile, it has decided. Otherwise it
// gives up whomever any voter has given up. A rank that has decided votes once more and says so.
// All that get this vote decide the same.
//
// A vote also tells how many living ranks have given up the voter. Some survivor may have been
// given up by as many ranks as there are survivors, or by more. The survivors must not go on then,
// because the others do.
//
// docs/internals/collectives.md says why ranks that hear each other can't decide differently.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hawser/collectives.hpp"

namespace hawser::coll {

class Survivors {
 public:
  // `first_id` is the lowest id that this rank may give the new communicator. The ranks of
  // `without`, all below `ranks`, are given up from the start.
  Survivors(Rank ranks, Rank own, std::uint32_t first_id, std::span<const Rank> without);

  // The bytes of every vote.
  [[nodiscard]] std::size_t vote_bytes() const noexcept { return vote_bytes_; }
  // This rank's vote in the present round.
  [[nodiscard]] std::vector<std::byte> vote() const;

  // Whether the round still needs the vote of `rank` or, after the decision, that of its decision.
  [[nodiscard]] bool awaits(Rank rank) const noexcept { return is_in(awaited_, rank); }
  // Requires that the vote of `from` is awaited. False: these bytes are no vote of this round.
  [[nodiscard]] bool on_vote(Rank from, std::span<const std::byte> vote);
  // The session with `rank` has ended, and all its votes were handed over. `gave_up`: that rank
  // lives, and has given up this one.
  void on_loss(Rank rank, bool gave_up = false);
  [[nodiscard]] bool is_lost(Rank rank) const noexcept { return is_in(lost_, rank); }

  // If all votes of the round are in, or one of them is a decision, ends the round and returns
  // true: a new vote must be sent.
  [[nodiscard]] bool end_round();

  [[nodiscard]] bool decided() const noexcept { return decided_; }
  // Whether the decisions of all survivors have come, too.
  [[nodiscard]] bool is_over() const noexcept { return decided_ && !awaits_any(); }
  [[nodiscard]] bool is_left(Rank rank) const noexcept { return !is_in(gone_, rank); }
  // Whether the ranks have given up this one by themselves. Requires a decision.
  [[nodiscard]] bool was_given_up(Rank rank) const noexcept {
    return is_in(gone_, rank) && !is_in(without_, rank);
  }
  // Whether the survivors are those that the others have given up, and must not go on. All of them
  // say the same. Requires a decision.
  [[nodiscard]] bool are_given_up() const noexcept;
  // The new communicator's. Requires a decision.
  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }

 private:
  using Set = std::vector<std::uint64_t>;

  struct Header {
    std::uint32_t round = 0;
    std::uint32_t id = 0;
    std::uint32_t is_decision = 0;
    std::uint32_t ranks = 0;
    std::uint32_t given_up_by = 0;
  };

  [[nodiscard]] static bool is_in(const Set& set, Rank rank) noexcept {
    return (set[rank / 64] >> rank % 64 & 1) != 0;
  }
  static void insert(Set& set, Rank rank) noexcept {
    set[rank / 64] |= std::uint64_t{1} << rank % 64;
  }
  static void remove(Set& set, Rank rank) noexcept {
    set[rank / 64] &= ~(std::uint64_t{1} << rank % 64);
  }

  [[nodiscard]] bool awaits_any() const noexcept {
    return std::ranges::any_of(awaited_, [](std::uint64_t word) { return word != 0; });
  }
  void begin_round();
  void give_up_unheard();

  Rank ranks_;
  Rank own_;
  std::size_t vote_bytes_;
  std::uint32_t round_ = 0;
  std::uint32_t id_;
  std::uint32_t gave_up_own_ = 0;  // ranks that have given up this one
  std::uint32_t given_up_by_ = 0;  // the most that a vote of this round tells
  Set without_;
  Set lost_;                           // the session has ended
  Set gone_;                           // given up
  Set voted_;                          // this round's vote
  Set told_;                           // has sent its decision
  Set awaited_;                        // votes of this round
  Set came_;                           // the same, and the own rank
  std::vector<Set> heard_;             // the different votes of round 1, the own one first
  std::vector<std::uint32_t> hearer_;  // by rank: which of them is its vote
  bool are_same_ = true;               // the votes of this round
  bool has_decision_ = false;
  bool decided_ = false;
};

}  // namespace hawser::coll
