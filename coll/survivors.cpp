// SPDX-License-Identifier: Apache-2.0
#include "coll/survivors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace hawser::coll {
namespace {

constexpr std::uint32_t kHello = 0;  // rounds
constexpr std::uint32_t kHeard = 1;
constexpr std::uint32_t kStillThere = 2;

}  // namespace

Survivors::Survivors(Rank ranks, Rank own, std::uint32_t first_id, std::span<const Rank> without)
    : ranks_(ranks),
      own_(own),
      vote_bytes_(sizeof(Header) + (ranks + 63) / 64 * sizeof(std::uint64_t)),
      id_(first_id),
      without_((ranks + 63) / 64),
      lost_(without_.size()),
      told_(without_.size()),
      awaited_(without_.size()),
      came_(without_.size()) {
  for (const Rank rank : without) insert(without_, rank);
  gone_ = without_;
  voted_ = gone_;
  begin_round();
}

void Survivors::begin_round() {
  are_same_ = true;
  if (!decided_) given_up_by_ = gave_up_own_;
  std::ranges::fill(awaited_, 0);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const bool has_come = round_ == kHello || is_in(came_, rank);
    const bool is_silent = is_in(lost_, rank) || is_in(told_, rank);
    if (rank == own_ || is_in(gone_, rank) || is_silent || !has_come) continue;
    insert(awaited_, rank);
  }
  std::ranges::fill(came_, 0);
  insert(came_, own_);
}

std::vector<std::byte> Survivors::vote() const {
  const Header header{.round = round_,
                      .id = id_,
                      .is_decision = decided_ ? 1u : 0u,
                      .ranks = ranks_,
                      .given_up_by = given_up_by_};
  std::vector<std::byte> bytes(vote_bytes_);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, voted_.data(), vote_bytes_ - sizeof header);
  return bytes;
}

bool Survivors::on_vote(Rank from, std::span<const std::byte> vote) {
  Header header;
  if (vote.size() != vote_bytes_) return false;
  std::memcpy(&header, vote.data(), sizeof header);
  if (header.ranks != ranks_) return false;
  if (decided_) {
    if (header.is_decision != 0) remove(awaited_, from);
    return true;
  }
  // When a session ends, what has arrived of it is handed over, although a vote in between is lost.
  if (header.round > round_) {
    on_loss(from);
    return true;
  }
  if (header.round != round_) return false;
  if (header.is_decision != 0) insert(told_, from);
  remove(awaited_, from);
  insert(came_, from);
  if (has_decision_) return true;
  Set theirs(gone_.size());
  std::memcpy(theirs.data(), vote.data() + sizeof header, vote_bytes_ - sizeof header);
  if (header.is_decision != 0) {
    has_decision_ = true;
    id_ = header.id;
    given_up_by_ = header.given_up_by;
    gone_ = std::move(theirs);
    return true;
  }
  id_ = std::max(id_, header.id);
  given_up_by_ = std::max(given_up_by_, header.given_up_by);
  if (round_ == kHeard) {
    const auto same = std::ranges::find(heard_, theirs);
    hearer_[from] = static_cast<std::uint32_t>(same - heard_.begin());
    if (same == heard_.end()) heard_.push_back(std::move(theirs));
  } else if (round_ > kStillThere && theirs != voted_) {
    are_same_ = false;
    for (std::size_t i = 0; i < gone_.size(); ++i) gone_[i] |= theirs[i];
  }
  return true;
}

void Survivors::on_loss(Rank rank, bool gave_up) {
  if (gave_up && !is_in(lost_, rank)) ++gave_up_own_;
  insert(lost_, rank);
  remove(awaited_, rank);
  if (round_ > kStillThere && !has_decision_ && !decided_) insert(gone_, rank);
}

bool Survivors::end_round() {
  if (decided_ || (awaits_any() && !has_decision_)) return false;
  if (round_ == kHello) {
    voted_ = came_;
    heard_ = {voted_};
    hearer_.assign(ranks_, 0);
  } else if (round_ > kHeard) {
    if (round_ == kStillThere) {
      give_up_unheard();
    } else if (!has_decision_ && are_same_ && gone_ == voted_) {
      decided_ = true;
      // A decision of another round may be another one, and gets another id.
      id_ += round_ - kStillThere - 1;
    }
    decided_ = decided_ || has_decision_;
    voted_ = gone_;
    std::ranges::fill(came_, ~std::uint64_t{0});  // from now on it awaits all that are not given up
  }
  ++round_;
  begin_round();
  return true;
}

bool Survivors::are_given_up() const noexcept {
  std::uint32_t left = ranks_;
  for (const std::uint64_t word : gone_) left -= static_cast<std::uint32_t>(std::popcount(word));
  return given_up_by_ >= left;
}

// It gives up the ranks that it doesn't hear, even if others do. Until the rest all hear each
// other, it gives up the one that hears the fewest. Among equal ones it takes the higher number.
void Survivors::give_up_unheard() {
  std::vector<Rank> living;
  Set suspects(gone_.size());  // heard by this rank, but not by all that it hears
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (!is_in(came_, rank)) insert(gone_, rank);
    if (!is_in(gone_, rank)) living.push_back(rank);
  }
  for (const Rank rank : living) {
    const Set& theirs = heard_[hearer_[rank]];
    for (std::size_t i = 0; i < suspects.size(); ++i) suspects[i] |= ~theirs[i] & ~gone_[i];
  }
  const auto hears = [&](Rank a, Rank b) { return is_in(heard_[hearer_[a]], b); };
  const auto are_apart = [&](Rank a, Rank b) {
    return a != b && !is_in(gone_, a) && !is_in(gone_, b) && (!hears(a, b) || !hears(b, a));
  };
  std::vector<Rank> missing;
  std::ranges::copy_if(living, std::back_inserter(missing),
                       [&](Rank rank) { return is_in(suspects, rank); });
  // How many others each doesn't hear, or isn't heard by. One of each such pair is missing
  // somewhere.
  std::vector<Rank> unheard(ranks_, 0);
  for (const Rank one : missing) {
    for (const Rank other : living) {
      if (!are_apart(one, other)) continue;
      ++unheard[one];
      if (!is_in(suspects, other)) ++unheard[other];
    }
  }
  for (;;) {
    Rank worst = 0;
    for (const Rank rank : living) {
      if (unheard[rank] >= unheard[worst]) worst = rank;
    }
    if (unheard[worst] == 0) break;
    for (const Rank other : is_in(suspects, worst) ? living : missing) {
      if (are_apart(worst, other)) --unheard[other];
    }
    unheard[worst] = 0;
    insert(gone_, worst);
  }
  heard_.clear();
  // This rank may have lost others since then. If it has given up itself, the others know better.
  if (is_in(gone_, own_)) return;
  for (std::size_t i = 0; i < gone_.size(); ++i) gone_[i] |= lost_[i];
}

}  // namespace hawser::coll
