// SPDX-License-Identifier: Apache-2.0
#include "coll/messages.hpp"

#include <string>
#include <utility>

namespace hawser::coll {

std::optional<std::uint32_t> Messages::take() {
  if (free_.empty()) {
    if (places_.size() == most_) return std::nullopt;
    places_.emplace_back();
    return static_cast<std::uint32_t>(places_.size() - 1);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

void Messages::give_back(std::uint32_t index) {
  Place& place = places_[index];
  place = {.generation = place.generation + 1};
  free_.push_back(index);
}

std::uint64_t Messages::user_data(const Channel& channel, std::uint32_t index) const noexcept {
  return channel.route | Mark{.kind = Mark::Kind::message, .slot = index}.pack();
}

Status Messages::posted(std::uint32_t index, Status status, OperationId operation, Request& name) {
  Place& place = places_[index];
  if (status != Status::ok) {
    give_back(index);
    return status;
  }
  place.state = State::posted;
  place.in_flight = true;
  if (place.other == kAnyRank) ++wildcards_;
  place.operation = operation;
  ++in_flight_;
  name = {index, place.generation};
  return status;
}

Status Messages::send(const Channel& channel, const void* data, std::uint64_t bytes, Rank to,
                      std::uint32_t tag, Request& name) {
  const auto index = take();
  if (!index) return Status::again;
  places_[*index].other = to;
  OperationId operation = kNoOperation;
  const Status status = channel.router.send({.peer = channel.peers[to],
                                             .channel = channel.number(),
                                             .tag = message_tag(channel.id, tag),
                                             .data = data,
                                             .bytes = bytes,
                                             .user_data = user_data(channel, *index),
                                             .owner = ChannelOwner::collectives},
                                            operation);
  return posted(*index, status, operation, name);
}

Status Messages::receive(const Channel& channel, void* data, std::uint64_t bytes, Rank from,
                         std::uint32_t tag, Request& name) {
  const auto index = take();
  if (!index) return Status::again;
  places_[*index].is_receive = true;
  places_[*index].other = from;
  OperationId operation = kNoOperation;
  const Status status =
      channel.endpoint().receive({.peer = from == kAnyRank ? kAnyPeer : channel.peers[from],
                                  .channel = channel.number(),
                                  .tag = message_tag(channel.id, tag),
                                  .data = data,
                                  .bytes = bytes,
                                  .user_data = user_data(channel, *index),
                                  .owner = ChannelOwner::collectives},
                                 operation);
  return posted(*index, status, operation, name);
}

std::optional<Failure> Messages::on_completion(const Channel& channel, const Mark& mark,
                                               const Completion& completion) {
  Place& place = places_[mark.slot];
  if (completion.released) {
    place.in_flight = false;
    --in_flight_;
  }
  if (place.state != State::posted) return std::nullopt;  // releases a send that failed before
  place.state = State::ended;
  place.status = completion.status;
  if (place.is_receive) {
    if (place.other == kAnyRank) {
      --wildcards_;
      place.other = channel.rank_of(completion.peer).value_or(kAnyRank);
    }
    place.received = {place.other, completion.bytes};
    if (completion.status == Status::truncated) return std::nullopt;
  }
  if (completion.status == Status::ok) return std::nullopt;
  const bool is_own = (completion.status == Status::endpoint_closed && channel.is_closed()) ||
                      place.other == kAnyRank;
  return Failure{.rank = is_own ? channel.rank : place.other,
                 .status = completion.status,
                 .text = std::string(place.is_receive ? "receive from" : "send to") + " rank " +
                         (place.other == kAnyRank ? "any" : std::to_string(place.other)) + ": " +
                         std::string(to_string(completion.status))};
}

const Messages::Place* Messages::find(const Request& name) const noexcept {
  if (name.slot >= places_.size()) return nullptr;
  const Place& place = places_[name.slot];
  return place.state != State::free && place.generation == name.generation ? &place : nullptr;
}

Status Messages::test(const Request& name, Received* received) {
  const Place* const place = find(name);
  if (place == nullptr) return Status::ok;
  if (place->state == State::posted) return Status::again;
  const Status status = place->status;
  const bool has_data = status == Status::ok || status == Status::truncated;
  if (received != nullptr && place->is_receive && has_data) *received = place->received;
  if (has_data && !place->in_flight) give_back(name.slot);
  return status;
}

bool Messages::released(const Request& name) const noexcept {
  const Place* const place = find(name);
  return place == nullptr || !place->in_flight;
}

void Messages::cancel(const Channel& channel) {
  if (in_flight_ == 0) return;
  for (Place& place : places_) {
    if (place.state != State::posted || place.cancel_asked) continue;
    if (channel.endpoint().cancel(place.operation) == Status::again) return;
    place.cancel_asked = true;
  }
}

}  // namespace hawser::coll
