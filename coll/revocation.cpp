// SPDX-License-Identifier: Apache-2.0
#include "coll/revocation.hpp"

#include <algorithm>

namespace hawser::coll {

Revocation::Revocation(const Channel& channel) {
  const std::uint64_t ranks = channel.ranks();
  for (std::uint64_t distance = 1; distance < ranks; distance *= 2) {
    neighbours_.push_back(static_cast<Rank>((channel.rank + distance) % ranks));
    neighbours_.push_back(static_cast<Rank>((channel.rank + ranks - distance) % ranks));
  }
  std::sort(neighbours_.begin(), neighbours_.end());
  neighbours_.erase(std::unique(neighbours_.begin(), neighbours_.end()), neighbours_.end());
}

std::uint32_t Revocation::listeners() const noexcept {
  return static_cast<std::uint32_t>(std::count_if(listeners_.begin(), listeners_.end(),
                                                  [](const Listener& one) { return one.posted; }));
}

void Revocation::listen(const Channel& channel, std::uint32_t index) {
  Listener& listener = listeners_[index];
  if (listener.posted || closed_) return;
  // The id's part of the tag must always match, because other communicators share the channel.
  const std::uint64_t counts = kTagIdMask | kTagControl | (index == kAborts ? kTagMessage : 0);
  const Status status = channel.endpoint().receive(
      {.peer = kAnyPeer,
       .channel = channel.number(),
       .tag = index == kAborts ? abort_tag(channel.id) : tag_base(channel.id),
       .ignore = ~counts,
       .user_data = channel.route | Mark{.kind = Mark::Kind::listener, .index = index}.pack(),
       .owner = ChannelOwner::collectives},
      listener.operation);
  listener.posted = status == Status::ok;
  listener.cancel_asked = false;
  if (status == Status::again) {
    held_back_ = true;
  } else if (status != Status::ok) {
    closed_ = true;
  }
}

void Revocation::tell(const Channel& channel) {
  for (; next_ < neighbours_.size(); ++next_) {
    const Rank to = neighbours_[next_];
    // A rank that is taken for dead may only have been unreachable. It may wait for members that
    // have given it up, so tell it, too.
    const bool dead = to == notice_.rank && is_peer_failure(notice_.status);
    OperationId operation = kNoOperation;
    const Status status = channel.router.send(
        {.peer = channel.peers[to],
         .channel = channel.number(),
         .tag = abort_tag(channel.id),
         .immediate = pack(notice_),
         .user_data = channel.route | Mark{.kind = Mark::Kind::abort_send, .index = dead}.pack(),
         .owner = ChannelOwner::collectives},
        operation);
    if (status == Status::again) {
      held_back_ = true;
      return;
    }
    // Any other status: this neighbour can't be told, because it or our endpoint is gone.
    if (status == Status::ok) ++(dead ? sends_to_dead_ : sends_);
  }
}

void Revocation::advance(const Channel& channel) {
  held_back_ = false;
  if (retired_) {
    cancel_listeners(channel);
  } else {
    listen(channel, kAborts);
    if (revoked_) listen(channel, kStragglers);
  }
  if (revoked_) tell(channel);
}

void Revocation::revoke(const AbortNotice& notice) {
  if (revoked_) return;
  revoked_ = true;
  notice_ = notice;
}

std::optional<AbortNotice> Revocation::on_completion(const Mark& mark,
                                                     const Completion& completion) {
  if (mark.kind == Mark::Kind::abort_send) {
    // A lost message does no harm, because other members tell the neighbour, too.
    if (completion.released) --(mark.index != 0 ? sends_to_dead_ : sends_);
    return std::nullopt;
  }
  listeners_[mark.index].posted = !completion.released;
  if (mark.index != kAborts || completion.status != Status::ok || revoked_) return std::nullopt;
  if (control_of(completion.tag) != Control::abort) return std::nullopt;
  return unpack_abort(completion.immediate);
}

void Revocation::cancel_listeners(const Channel& channel) {
  for (Listener& listener : listeners_) {
    if (!listener.posted || listener.cancel_asked) continue;
    listener.cancel_asked = channel.endpoint().cancel(listener.operation) != Status::again;
  }
}

}  // namespace hawser::coll
