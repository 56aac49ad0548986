// SPDX-License-Identifier: Apache-2.0
#include "coll/shrinking.hpp"

#include <algorithm>
#include <utility>

namespace hawser::coll {

Shrinking::Shrinking(const Channel& channel, std::uint32_t first_id, std::span<const Rank> without)
    : survivors_(channel.ranks(), channel.rank, first_id, without),
      own_(channel.rank),
      ranks_(channel.ranks()) {
  votes_.push_back(survivors_.vote());
}

Status Shrinking::status() const noexcept {
  if (failure_ != Status::ok) return failure_;
  return survivors_.decided() ? Status::ok : Status::again;
}

std::uint64_t Shrinking::unsent() const noexcept {
  if (failure_ != Status::ok || sending_ == votes_.size()) return 0;
  return (votes_.size() - sending_) * (ranks_ - 1) - (next_step_ - 1);
}

std::uint64_t Shrinking::in_flight() const noexcept {
  const auto receives = std::count_if(places_.begin(), places_.end(), [](const Place& one) {
    return one.state == Place::State::posted;
  });
  return sends_ + sends_to_gone_ + unsent() + static_cast<std::uint64_t>(receives);
}

std::uint64_t Shrinking::untold() const noexcept { return sends_ + unsent(); }

void Shrinking::advance(const Channel& channel) {
  held_back_ = false;
  if (status() == Status::again && !retired_) {
    receive_votes(channel);
    while (survivors_.end_round()) {
      votes_.push_back(survivors_.vote());
      receive_step_ = 1;
      if (!survivors_.decided()) receive_votes(channel);
    }
  }
  send_votes(channel);
  if (status() != Status::again || retired_) discard_votes(channel);
  if (survivors_.decided() && unsent() + sends_to_gone_ == 0) end_sessions(channel);
}

void Shrinking::end_sessions(const Channel& channel) {
  if (std::exchange(are_sessions_ended_, true)) return;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (rank == own_ || !survivors_.was_given_up(rank) || survivors_.is_lost(rank)) continue;
    (void)channel.endpoint().disconnect(channel.peers[rank]);
  }
}

void Shrinking::on_failure(Rank rank, Status status) {
  if (is_peer_failure(status) || status == Status::unknown_peer) {
    survivors_.on_loss(rank);
  } else if (this->status() == Status::again) {
    failure_ = status;
  }
}

void Shrinking::send_votes(const Channel& channel) {
  while (unsent() > 0) {
    const Rank to = (own_ + next_step_) % ranks_;
    Status status = Status::ok;
    if (!survivors_.is_lost(to)) {
      // Who was given up may only have been unreachable. It then learns that it is left out.
      const bool is_gone = !survivors_.is_left(to);
      const Mark mark{.kind = Mark::Kind::vote, .slot = to, .index = kSend + (is_gone ? 1 : 0)};
      OperationId operation = kNoOperation;
      status = channel.router.send({.peer = channel.peers[to],
                                    .channel = channel.number(),
                                    .tag = vote_tag(channel.id),
                                    .data = votes_[sending_].data(),
                                    .bytes = votes_[sending_].size(),
                                    .user_data = channel.route | mark.pack(),
                                    .owner = ChannelOwner::collectives},
                                   operation);
      if (status == Status::again) {
        held_back_ = true;
        return;
      }
      if (status == Status::ok) ++(is_gone ? sends_to_gone_ : sends_);
    }
    if (status != Status::ok) on_failure(to, status);
    if (++next_step_ < ranks_) continue;
    next_step_ = 1;
    ++sending_;
  }
}

Status Shrinking::post(const Channel& channel, Place& place, std::uint32_t index,
                       std::uint64_t bytes) {
  const Status status = channel.endpoint().receive(
      {.peer = index == kDiscard ? kAnyPeer : channel.peers[place.from],
       .channel = channel.number(),
       .tag = vote_tag(channel.id),
       .data = bytes > 0 ? place.vote.data() : nullptr,
       .bytes = bytes,
       .user_data = channel.route |
                    Mark{.kind = Mark::Kind::vote, .slot = place.from, .index = index}.pack(),
       .owner = ChannelOwner::collectives},
      place.operation);
  if (status == Status::ok) place.state = Place::State::posted;
  if (status == Status::again) held_back_ = true;
  place.cancel_asked = false;
  return status;
}

void Shrinking::receive_votes(const Channel& channel) {
  for (std::uint32_t index = 0; index < kMostReceives; ++index) {
    Place& place = places_[index];
    if (place.state == Place::State::posted) continue;
    while (place.state == Place::State::free && receive_step_ < ranks_) {
      place.from = (own_ + ranks_ - receive_step_++) % ranks_;
      if (survivors_.awaits(place.from)) place.state = Place::State::taken;
    }
    if (place.state == Place::State::free) continue;
    place.vote.resize(survivors_.vote_bytes());
    const Status status = post(channel, place, index, place.vote.size());
    if (status == Status::again) return;
    if (status == Status::ok) continue;
    place.state = Place::State::free;
    on_failure(place.from, status);
  }
}

void Shrinking::cancel(const Channel& channel, Place& place) {
  if (place.state == Place::State::taken) place.state = Place::State::free;
  if (place.state != Place::State::posted || place.cancel_asked) return;
  place.cancel_asked = channel.endpoint().cancel(place.operation) != Status::again;
}

void Shrinking::discard_votes(const Channel& channel) {
  for (Place& place : std::span(places_).first(kMostReceives)) cancel(channel, place);
  Place& rest = places_[kDiscard];
  if (retired_) return cancel(channel, rest);
  if (rest.state == Place::State::free) (void)post(channel, rest, kDiscard, 0);
}

void Shrinking::on_completion(const Mark& mark, const Completion& completion) {
  if (mark.index >= kSend) {
    if (completion.released) --(mark.index > kSend ? sends_to_gone_ : sends_);
    if (completion.status != Status::ok && completion.status != Status::truncated) {
      on_failure(mark.slot, completion.status);
    }
    return;
  }
  Place& place = places_[mark.index];
  if (completion.released) place.state = Place::State::free;
  // A session may end before the caller has been told of a message that it brought.
  if (mark.index == kDiscard || survivors_.is_lost(mark.slot) || status() != Status::again) return;
  if (completion.status == Status::store_full) {
    place.state = Place::State::taken;  // it may have been turned away: receive again
  } else if (completion.status != Status::ok) {
    on_failure(mark.slot, completion.status);
  } else if (!survivors_.on_vote(mark.slot, std::span(place.vote).first(completion.bytes))) {
    failure_ = Status::invalid_argument;
  }
}

}  // namespace hawser::coll
