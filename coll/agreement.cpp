// SPDX-License-Identifier: Apache-2.0
#include "coll/agreement.hpp"

#include <algorithm>

namespace hawser::coll {
namespace {

constexpr std::uint32_t sequence_of(std::uint64_t tag) { return static_cast<std::uint32_t>(tag); }

const Agreement::Running* find(std::span<const Agreement::Running> running,
                               std::uint32_t sequence) {
  const auto at = std::find_if(running.begin(), running.end(),
                               [&](const auto& one) { return one.sequence == sequence; });
  return at == running.end() ? nullptr : &*at;
}

}  // namespace

// Sequence numbers wrap.
bool Agreement::is_early(std::uint32_t sequence) const noexcept {
  return static_cast<std::int32_t>(sequence - next_) >= 0;
}

// A collective that is complete here has all its messages. Another one is one too many.
bool Agreement::is_wrong(const Envelope& envelope,
                         std::span<const Running> running) const noexcept {
  const std::uint32_t sequence = sequence_of(envelope.tag);
  if (is_early(sequence)) return false;
  const Running* const own = find(running, sequence);
  return own == nullptr || own->signature != envelope.immediate;
}

std::optional<Agreement::Disagreement> Agreement::probe(const Channel& channel, PeerId peer,
                                                        std::uint64_t tag, std::uint64_t ignore,
                                                        std::span<const Running> running) const {
  Envelope envelope;
  const Status status = channel.endpoint().probe({.peer = peer,
                                                  .channel = channel.number(),
                                                  .tag = tag,
                                                  .ignore = ignore,
                                                  .owner = ChannelOwner::collectives},
                                                 envelope);
  if (status != Status::ok || !is_wrong(envelope, running)) return std::nullopt;
  const std::optional<Rank> rank = channel.rank_of(envelope.peer);
  if (!rank) return std::nullopt;
  return Disagreement{sequence_of(envelope.tag), *rank};
}

PeerId Agreement::next_peer(const Channel& channel) noexcept {
  looked_at_ = (looked_at_ + 1) % channel.ranks();
  if (looked_at_ == channel.rank) looked_at_ = (looked_at_ + 1) % channel.ranks();
  return channel.peers[looked_at_];
}

std::optional<Agreement::Disagreement> Agreement::look(const Channel& channel,
                                                       std::span<const Running> running) {
  if (channel.ranks() == 1) return std::nullopt;
  const std::uint64_t any = data_tag(channel.id, 0, 0);
  if (auto found =
          probe(channel, kAnyPeer, any, ~(kTagIdMask | kTagControl | kTagMessage), running)) {
    return found;
  }
  if (running.empty()) return std::nullopt;
  // A probe finds only the oldest message, and an early or a good one may stand before the wrong
  // one. Therefore a second probe is for the oldest collective, every other time of one rank.
  const PeerId peer = ++looks_ % 2 == 0 ? next_peer(channel) : kAnyPeer;
  const std::uint64_t tag = data_tag(channel.id, running.front().sequence, 0);
  if (auto found = probe(channel, peer, tag, kTagNumberMask << kTagNumberShift, running)) {
    return found;
  }
  return ask(channel, running);
}

std::optional<Agreement::Disagreement> Agreement::ask(const Channel& channel,
                                                      std::span<const Running> running) {
  const auto oldest = std::find_if(running.begin(), running.end(),
                                   [](const Running& one) { return one.awaits.has_value(); });
  if (oldest == running.end()) return std::nullopt;
  // Another message may have got its receive only now, so its completion may still be on its way.
  if (suspect_ && suspect_->sequence == oldest->sequence && suspect_->rank == *oldest->awaits &&
      asked_ == oldest->message) {
    return suspect_;
  }
  if (queries_ == 0) (void)send(channel, Kind::query, channel.peers[*oldest->awaits], *oldest);
  return std::nullopt;
}

std::optional<Agreement::Disagreement> Agreement::on_arrival(const Channel& channel,
                                                             const Completion& completion,
                                                             std::span<const Running> running) {
  const std::optional<Rank> rank = channel.rank_of(completion.peer);
  if (!rank) return std::nullopt;
  const Disagreement about{sequence_of(completion.tag), *rank};
  if (control_of(completion.tag) == Control::done) {
    suspect_ = about;
    return std::nullopt;
  }
  if (is_early(about.sequence)) return std::nullopt;  // a later query compares
  if (const Running* const own = find(running, about.sequence)) {
    return own->signature == completion.immediate ? std::nullopt : std::optional(about);
  }
  // It is complete here, so nothing more will come, whatever it was.
  if (answers_ < kMostAnswers) {
    (void)send(channel, Kind::answer, completion.peer, {about.sequence, completion.immediate, {}});
  }
  return std::nullopt;
}

// `again` is no matter: the next look asks again.
Status Agreement::send(const Channel& channel, Kind kind, PeerId to, const Running& about) {
  const Control control = kind == Kind::answer ? Control::done : Control::query;
  const Mark mark{.kind = Mark::Kind::agreement, .index = static_cast<std::uint32_t>(kind)};
  OperationId operation = kNoOperation;
  const Status status =
      channel.router.send({.peer = to,
                           .channel = channel.number(),
                           .tag = control_tag(channel.id, control, about.sequence),
                           .immediate = about.signature,
                           .user_data = channel.route | mark.pack(),
                           .owner = ChannelOwner::collectives},
                          operation);
  if (status != Status::ok) return status;
  ++count_of(kind);
  if (kind == Kind::query) {
    asked_ = about.message;
    suspect_.reset();
  }
  return status;
}

namespace {

// A rank that has closed in order may have done all its work. One that this end has disconnected
// counts as dead.
bool is_death(const Channel& channel, Status status) {
  return (is_peer_failure(status) && status != Status::peer_closed) ||
         (status == Status::endpoint_closed && !channel.is_closed());
}

}  // namespace

std::optional<Agreement::Death> Agreement::ask_whether_alive(const Channel& channel) {
  if (channel.ranks() == 1) return std::nullopt;
  const Running about{.sequence = next_ + kFarAhead};
  for (std::uint32_t left = std::min(channel.ranks() - 1, kMostLives - lives_); left > 0; --left) {
    const Status status = send(channel, Kind::life, next_peer(channel), about);
    if (is_death(channel, status)) return Death{looked_at_, status};
  }
  return std::nullopt;
}

std::uint32_t& Agreement::count_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::query: return queries_;
    case Kind::answer: return answers_;
    case Kind::life: break;
  }
  return lives_;
}

std::optional<Rank> Agreement::on_sent(const Channel& channel,
                                       const Completion& completion) noexcept {
  const auto kind = static_cast<Kind>(Mark::unpack(completion.user_data).index);
  if (completion.released) --count_of(kind);
  const bool is_dead = kind == Kind::life && is_death(channel, completion.status);
  return is_dead ? channel.rank_of(completion.peer) : std::nullopt;
}

}  // namespace hawser::coll
