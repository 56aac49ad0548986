// SPDX-License-Identifier: Apache-2.0
#include "coll/survivors.hpp"

#include <algorithm>
#include <cstring>

namespace hawser::coll {
namespace {

constexpr std::uint32_t kHello = 0;  // rounds
constexpr std::uint32_t kHeard = 1;

}  // namespace

Survivors::Survivors(Rank ranks, Rank own, std::uint32_t first_id, std::span<const Rank> without)
    : ranks_(ranks),
      own_(own),
      vote_bytes_(sizeof(Header) + (ranks + 63) / 64 * sizeof(std::uint64_t)),
      id_(first_id),
      without_((ranks + 63) / 64),
      lost_(without_.size()),
      awaited_(without_.size()),
      came_(without_.size()) {
  for (const Rank rank : without) insert(without_, rank);
  gone_ = without_;
  voted_ = gone_;
  begin_round();
}

void Survivors::begin_round() {
  are_same_ = true;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const bool has_come = round_ == kHello || is_in(came_, rank);
    if (rank == own_ || is_in(gone_, rank) || is_in(lost_, rank) || !has_come) continue;
    insert(awaited_, rank);
  }
  std::ranges::fill(came_, 0);
  insert(came_, own_);
}

std::vector<std::byte> Survivors::vote() const {
  const Header header{
      .round = round_, .id = id_, .is_decision = decided_ ? 1u : 0u, .ranks = ranks_};
  std::vector<std::byte> bytes(vote_bytes_);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, voted_.data(), vote_bytes_ - sizeof header);
  return bytes;
}

bool Survivors::on_vote(Rank from, std::span<const std::byte> vote) {
  Header header;
  if (vote.size() != vote_bytes_) return false;
  std::memcpy(&header, vote.data(), sizeof header);
  if (header.round != round_ || header.ranks != ranks_) return false;
  remove(awaited_, from);
  insert(came_, from);
  if (has_decision_) return true;
  Set theirs(gone_.size());
  std::memcpy(theirs.data(), vote.data() + sizeof header, vote_bytes_ - sizeof header);
  if (header.is_decision != 0) {
    has_decision_ = true;
    id_ = header.id;
    gone_ = std::move(theirs);
    return true;
  }
  id_ = std::max(id_, header.id);
  if (theirs == voted_ || round_ == kHello) return true;
  are_same_ = false;
  if (round_ == kHeard) {
    others_heard_.emplace_back(from, std::move(theirs));
  } else {
    for (std::size_t i = 0; i < gone_.size(); ++i) gone_[i] |= theirs[i];
  }
  return true;
}

void Survivors::on_loss(Rank rank) {
  insert(lost_, rank);
  remove(awaited_, rank);
  if (round_ > kHeard && !has_decision_ && !decided_) insert(gone_, rank);
}

bool Survivors::end_round() {
  const bool awaits_any =
      std::ranges::any_of(awaited_, [](std::uint64_t word) { return word != 0; });
  if (decided_ || (awaits_any && !has_decision_)) return false;
  if (round_ == kHello) {
    voted_ = came_;
  } else {
    if (round_ == kHeard) {
      give_up_unheard();
    } else {
      decided_ = has_decision_ || (are_same_ && gone_ == voted_);
    }
    voted_ = gone_;
    std::ranges::fill(came_, ~std::uint64_t{0});  // from now on, all that are not given up
  }
  ++round_;
  if (!decided_) begin_round();
  return true;
}

// Whom this rank doesn't hear it gives up, even if others do. Of the rest, the one that hears the
// fewest others goes first, and of equal ones that with the higher number, until all hear each
// other.
void Survivors::give_up_unheard() {
  std::vector<const Set*> heard_by(ranks_, nullptr);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (is_in(came_, rank)) heard_by[rank] = &voted_;
  }
  for (const auto& [rank, theirs] : others_heard_) heard_by[rank] = &theirs;
  std::vector<Rank> living;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (heard_by[rank] == nullptr) insert(gone_, rank);
    if (!is_in(gone_, rank)) living.push_back(rank);
  }
  const auto hears = [&](Rank a, Rank b) { return a == b || is_in(*heard_by[a], b); };
  std::size_t most = others_heard_.empty() ? 0 : 1;
  while (most > 0) {
    most = 0;
    std::size_t worst = 0;
    for (std::size_t i = 0; i < living.size(); ++i) {
      const auto unheard =
          static_cast<std::size_t>(std::ranges::count_if(living, [&, one = living[i]](Rank other) {
            return !hears(one, other) || !hears(other, one);
          }));
      if (unheard < std::max<std::size_t>(most, 1)) continue;
      most = unheard;
      worst = i;
    }
    if (most == 0) break;
    insert(gone_, living[worst]);
    living.erase(living.begin() + static_cast<std::ptrdiff_t>(worst));
  }
  others_heard_.clear();
  // Whom this rank has lost since then. If it has given up itself, the others know better.
  if (is_in(gone_, own_)) return;
  for (std::size_t i = 0; i < gone_.size(); ++i) gone_[i] |= lost_[i];
}

}  // namespace hawser::coll
