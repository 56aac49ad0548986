// SPDX-License-Identifier: Apache-2.0
// Communicators of some of a communicator's ranks.
#include <algorithm>

#include "coll/launch.hpp"
#include "hawser/collectives.hpp"

namespace hawser::coll {

// A rank's words to all others in a split.
struct Communicator::SplitOffer {
  std::uint32_t colour = 0;
  std::uint32_t key = 0;
  std::uint32_t id = 0;  // the lowest that none of its communicators has had
};

// Ends with this rank's offer in the offers of all ranks.
Status Communicator::share_offers(std::span<SplitOffer> offers, SplitOffer own) {
  offers[rank()] = own;
  Status status = Status::again;
  while ((status = state_->admit()) == Status::again) router_.wait(kWait_ns);
  if (status != Status::ok || ranks() == 1) return status;
  const Request request = launch_ring(*state_, {.kind = CollectiveKind::split, .count = sizeof own},
                                      {.collective = Collective::all_gather,
                                       .count = sizeof own,
                                       .in = reinterpret_cast<const std::byte*>(&offers[rank()]),
                                       .out = reinterpret_cast<std::byte*>(offers.data())});
  return wait(request);
}

Status Communicator::split(std::uint32_t colour, std::uint32_t key,
                           std::unique_ptr<Communicator>& made) {
  std::unique_ptr<Communicator> child;
  try {
    Router& router = *router_.router_;
    const auto offers = std::make_shared<std::vector<SplitOffer>>(ranks());
    state_->keep(offers);  // if a wait fails or is cancelled, the engine may still write to them
    const Status status = share_offers(*offers, {colour, key, router.next_id()});
    if (status != Status::ok) return status;
    state_->let_go();
    CommunicatorConfig config{.options = state_->options()};
    std::vector<Rank> members;
    for (Rank one = 0; one < ranks(); ++one) {
      config.id = std::max(config.id, (*offers)[one].id);
      if ((*offers)[one].colour == colour) members.push_back(one);
    }
    router.note_id(config.id);
    if (colour != kNoColour) {
      std::stable_sort(members.begin(), members.end(),
                       [&](Rank a, Rank b) { return (*offers)[a].key < (*offers)[b].key; });
      for (const Rank one : members) {
        if (one == rank()) config.rank = static_cast<Rank>(config.peers.size());
        config.peers.push_back(state_->channel().peers[one]);
      }
      child = std::make_unique<Communicator>(router_, config);
    }
  } catch (...) {
    // The others may have theirs, and would wait in it for this rank.
    abort(rank(), Status::cancelled);
    throw;
  }
  made = std::move(child);  // `made` may own this communicator
  return Status::ok;
}

// The survivors alone make the new communicator, so nothing of the old one is needed but its peers.
Status Communicator::shrink(std::span<const Rank> without, std::unique_ptr<Communicator>& made) {
  const auto is_wrong = [&](Rank one) { return one >= ranks(); };
  if (failure() == nullptr || std::ranges::any_of(without, is_wrong) ||
      !state_->begin_shrinking(without)) {
    return Status::invalid_argument;
  }
  const Shrinking& shrinking = *state_->shrinking();
  while (shrinking.status() == Status::again) router_.wait(kWait_ns);
  if (shrinking.status() != Status::ok) return shrinking.status();
  const Survivors& survivors = shrinking.survivors();
  if (!survivors.is_left(rank()) || survivors.are_given_up()) return Status::cancelled;
  CommunicatorConfig config{.id = survivors.id(), .options = state_->options()};
  for (Rank one = 0; one < ranks(); ++one) {
    if (one == rank()) config.rank = static_cast<Rank>(config.peers.size());
    if (survivors.is_left(one)) config.peers.push_back(state_->channel().peers[one]);
  }
  made = std::make_unique<Communicator>(router_, config);  // `made` may own this communicator
  return Status::ok;
}

}  // namespace hawser::coll
