// SPDX-License-Identifier: Apache-2.0
#include "coll/shrinking.hpp"

#include <algorithm>
#include <optional>

namespace hawser::coll {

Shrinking::Shrinking(const Channel& channel, std::uint32_t first_id, std::span<const Rank> without)
    : survivors_(channel.ranks(), channel.rank, first_id, without),
      own_(channel.rank),
      ranks_(channel.ranks()),
      sends_(channel.ranks()),
      unsent_(channel.ranks() - 1) {
  votes_.push_back(survivors_.vote());
}

Status Shrinking::status() const noexcept {
  if (failure_ != Status::ok) return failure_;
  return survivors_.is_over() ? Status::ok : Status::again;
}

std::uint64_t Shrinking::in_flight() const noexcept {
  const auto receives = std::count_if(places_.begin(), places_.end(), [](const Place& one) {
    return one.state == Place::State::posted;
  });
  return sends_in_flight_ + unsent_ + static_cast<std::uint64_t>(receives);
}

std::uint64_t Shrinking::untold() const noexcept {
  std::uint64_t count = 0;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (rank == own_ || !survivors_.is_left(rank)) continue;
    if (failure_ == Status::ok) count += votes_.size() - sends_[rank].posted;
    count += sends_[rank].in_flight;
  }
  return count;
}

void Shrinking::advance(const Channel& channel) {
  held_back_ = false;
  do {
    // Where room is scarce, neither sends nor receives may take all of it.
    if (goes_on()) receive_votes(channel, 1);
    const bool all_were_taken = send_votes(channel);
    if (goes_on() && all_were_taken) receive_votes(channel, kMostReceives);
  } while (goes_on() && end_round());
  if (!goes_on()) discard_votes(channel);
  end_sessions(channel);
}

bool Shrinking::end_round() {
  if (!survivors_.end_round()) return false;
  votes_.push_back(survivors_.vote());
  unsent_ += ranks_ - 1;
  receive_step_ = 1;
  for (Rank rank = 0; rank < ranks_ && survivors_.decided(); ++rank) {
    if (rank != own_ && survivors_.was_given_up(rank) && !survivors_.is_lost(rank)) {
      sessions_to_end_.push_back(rank);
    }
  }
  return true;
}

void Shrinking::end_sessions(const Channel& channel) {
  std::erase_if(sessions_to_end_, [&](Rank rank) {
    const Sends& sends = sends_[rank];
    if (sends.posted < votes_.size() || sends.in_flight > 0) return false;
    (void)channel.endpoint().disconnect(channel.peers[rank]);
    return true;
  });
}

// The session has also ended if this endpoint has disconnected the peer.
bool Shrinking::is_session_end(const Channel& channel, Status status) {
  return is_peer_failure(status) || status == Status::unknown_peer ||
         (status == Status::endpoint_closed && !channel.is_closed());
}

void Shrinking::on_failure(const Channel& channel, Rank rank, Status status) {
  if (is_session_end(channel, status)) {
    PeerStats stats;
    const bool is_known = channel.endpoint().peer_stats(channel.peers[rank], stats) == Status::ok;
    survivors_.on_loss(rank, is_known && stats.failure_reason == Reason::gave_up);
  } else if (failure_ == Status::ok) {
    failure_ = status == Status::endpoint_closed ? status : Status::nic_error;
  }
}

// A rank that was given up may only have been unreachable. It gets the votes, too, and learns that
// it is left out.
bool Shrinking::send_next(const Channel& channel, Rank to) {
  Sends& sends = sends_[to];
  const std::vector<std::byte>& vote = votes_[sends.posted];
  OperationId operation = kNoOperation;
  // If the program has connected anew, the new session must not get votes of the former one.
  const bool is_lost = survivors_.is_lost(to);
  const Status status =
      is_lost ? Status::peer_closed
              : channel.router.send(
                    {.peer = channel.peers[to],
                     .channel = channel.number(),
                     .tag = vote_tag(channel.id),
                     .data = vote.data(),
                     .bytes = vote.size(),
                     .user_data = channel.route |
                                  Mark{.kind = Mark::Kind::vote, .slot = to, .index = kSend}.pack(),
                     .owner = ChannelOwner::collectives},
                    operation);
  if (status == Status::again) return false;
  ++sends.posted;
  --unsent_;
  if (status == Status::ok) {
    ++sends.in_flight;
    ++sends_in_flight_;
  } else if (!is_session_end(channel, status) && failure_ == Status::ok) {
    failure_ = status == Status::endpoint_closed ? status : Status::nic_error;
  }
  return true;
}

// An older vote goes first, because its receivers may not await the next one yet. Returns false if
// the endpoint takes some of them later.
bool Shrinking::send_votes(const Channel& channel) {
  if (failure_ != Status::ok) unsent_ = 0;
  std::uint32_t refusals = 0;
  for (std::size_t vote = sending_; vote < votes_.size() && unsent_ > 0; ++vote) {
    for (Rank step = vote == sending_ ? send_step_ : 1; step < ranks_; ++step) {
      const Rank to = (own_ + step) % ranks_;
      if (sends_[to].posted != vote) continue;
      if (send_next(channel, to)) {
        if (refusals == 0) send_step_ = step;
      } else if (++refusals == kMostRefusals) {
        held_back_ = true;
        return false;
      }
    }
    if (refusals > 0) continue;
    sending_ = vote + 1;
    send_step_ = 1;
  }
  held_back_ = held_back_ || refusals > 0;
  return refusals == 0;
}

Status Shrinking::post(const Channel& channel, Place& place, std::uint32_t index) {
  place.cancel_asked = false;
  if (index != kDiscard) place.vote.resize(survivors_.vote_bytes());
  const Mark mark{.kind = Mark::Kind::vote, .slot = place.from, .index = index};
  const Status status =
      channel.endpoint().receive({.peer = index == kDiscard ? kAnyPeer : channel.peers[place.from],
                                  .channel = channel.number(),
                                  .tag = vote_tag(channel.id),
                                  .data = place.vote.data(),
                                  .bytes = place.vote.size(),
                                  .user_data = channel.route | mark.pack(),
                                  .owner = ChannelOwner::collectives},
                                 place.operation);
  if (status == Status::ok) place.state = Place::State::posted;
  if (status == Status::again) held_back_ = true;
  return status;
}

// Whether the rank has no receive.
bool Shrinking::is_awaited_in_vain(Rank rank) const noexcept {
  return survivors_.awaits(rank) && std::ranges::none_of(places_, [rank](const Place& one) {
           return one.state != Place::State::free && one.from == rank;
         });
}

// Fills the first `places`.
void Shrinking::receive_votes(const Channel& channel, std::uint32_t places) {
  for (std::uint32_t index = 0; index < places; ++index) {
    Place& place = places_[index];
    if (place.state == Place::State::posted) {
      // The others' decision may have given up a rank that was awaited.
      if (!survivors_.awaits(place.from)) cancel(channel, place);
      continue;
    }
    for (;;) {
      while (place.state == Place::State::free && receive_step_ < ranks_) {
        const Rank from = (own_ + ranks_ - receive_step_++) % ranks_;
        if (!is_awaited_in_vain(from)) continue;
        place.from = from;
        place.state = Place::State::taken;
      }
      if (place.state == Place::State::free) break;
      const Status status = post(channel, place, index);
      if (status == Status::again) return;
      if (status == Status::ok) break;
      place.state = Place::State::free;
      on_failure(channel, place.from, status);
    }
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
  if (rest.state == Place::State::free) (void)post(channel, rest, kDiscard);
}

void Shrinking::on_completion(const Channel& channel, const Mark& mark,
                              const Completion& completion) {
  if (mark.index == kSend) {
    if (!completion.released) return;
    --sends_[mark.slot].in_flight;
    --sends_in_flight_;
    return;
  }
  Place& place = places_[mark.index];
  if (completion.released) place.state = Place::State::free;
  if (mark.index == kDiscard) return on_late_vote(channel, completion);
  if (!goes_on()) return;
  if (completion.status == Status::store_full && ++refused_votes_ < kMostRefusedVotes) {
    place.state = Place::State::taken;  // a vote may have been turned away: receive again
  } else if (completion.status == Status::store_full) {
    failure_ = completion.status;
  } else if (completion.status != Status::ok) {
    if (completion.status != Status::cancelled) on_failure(channel, mark.slot, completion.status);
  } else if (!survivors_.on_vote(mark.slot, std::span(place.vote).first(completion.bytes))) {
    failure_ = Status::nic_error;
  } else if (survivors_.decided() && survivors_.awaits(mark.slot)) {
    place.state = Place::State::taken;  // its decision follows
  }
}

// A rank that was given up may have connected anew, and would wait for votes.
void Shrinking::on_late_vote(const Channel& channel, const Completion& completion) {
  if (!survivors_.decided() ||
      (completion.status != Status::ok && completion.status != Status::truncated)) {
    return;
  }
  const std::optional<Rank> from = channel.rank_of(completion.peer);
  if (!from || !survivors_.was_given_up(*from)) return;
  if (std::ranges::count(sessions_to_end_, *from) == 0) sessions_to_end_.push_back(*from);
}

}  // namespace hawser::coll
