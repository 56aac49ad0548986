// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/oracle.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/base/random.hpp"

namespace hawser::sim {

namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::byte kPoison{0xee};

bool got_bytes(Status status) { return status == Status::ok || status == Status::truncated; }

// Statuses with which an operation ends together with its session.
bool is_ending(Status status) {
  return is_peer_failure(status) || status == Status::endpoint_closed;
}

// The place among all posts of a host, whose processes follow each other.
template <class Record>
std::pair<std::uint64_t, std::uint64_t> place(const Record& record) {
  return {record.life, record.order};
}
std::pair<std::uint64_t, std::uint32_t> place_of_session(const SendRecord& send) {
  return {send.life, send.session};
}

bool is_all(std::span<const std::byte> bytes, std::byte value) {
  return bytes.empty() ||
         (bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::string name_of(const MessagePlan& message, std::uint32_t index) {
  return "message " + std::to_string(index) + " (" + std::to_string(message.from) + " to " +
         std::to_string(message.to) + ", tag " + std::to_string(message.tag) + ", " +
         std::to_string(message.bytes) + " bytes)";
}

std::string receive_name(const ReceiveRecord& receive, std::uint32_t index) {
  return "receive " + std::to_string(index) + " of host " + std::to_string(receive.plan.host);
}

}  // namespace

namespace {

// A prime, so that two places of a message with equal bytes are never whole fragments apart.
constexpr std::size_t kPeriod = 65521;

using Noise = std::array<std::byte, kPeriod>;

// A named function, since g++ spends 14 s on evaluating a lambda that initializes a static.
Noise make_noise() {
  Noise bytes;
  proto::Random random(1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

const Noise& noise() {
  static const Noise kNoise = make_noise();
  return kNoise;
}

// Calls `piece` with each contiguous stretch of the message's bytes and its offset, until it
// returns false. Returns whether it never did.
template <class Piece>
bool for_each_piece(std::uint64_t seed, std::uint32_t message, std::size_t bytes, Piece&& piece) {
  std::size_t from = (seed * 31 + std::uint64_t{message} * 4099) % kPeriod;
  for (std::size_t done = 0; done < bytes; from = 0) {
    const std::size_t count = std::min(bytes - done, kPeriod - from);
    if (!piece(done, std::span(noise()).subspan(from, count))) return false;
    done += count;
  }
  return true;
}

bool is_message(std::uint64_t seed, std::uint32_t message, std::span<const std::byte> bytes) {
  return for_each_piece(seed, message, bytes.size(),
                        [&](std::size_t at, std::span<const std::byte> piece) {
                          return std::memcmp(bytes.data() + at, piece.data(), piece.size()) == 0;
                        });
}

}  // namespace

std::vector<std::byte> bytes_of_message(std::uint64_t seed, std::uint32_t message,
                                        std::size_t bytes) {
  std::vector<std::byte> made;
  made.reserve(bytes);
  for_each_piece(seed, message, bytes, [&](std::size_t, std::span<const std::byte> piece) {
    made.insert(made.end(), piece.begin(), piece.end());
    return true;
  });
  return made;
}

bool Oracle::matches(const ReceiveRecord& receive, const MessagePlan& message) const {
  const ReceivePlan& plan = receive.plan;
  return plan.host == message.to && plan.channel == message.channel &&
         (plan.from == kAnyHost || plan.from == message.from) &&
         ((plan.tag ^ message.tag) & plan.mask) == 0;
}

// The receiver's end of a session with the sender is over. Messages that no receive had got by then
// may be lost with it.
bool Oracle::lost_by_receiver(std::uint32_t index) const {
  return gone_[plan_.messages[index].to] >= sends_[index].at;
}

void Oracle::on_send_completed(std::uint32_t index, const Completion& completion, bool nic_reads,
                               bool receiver_stands, proto::Duration at) {
  SendRecord& send = sends_[index];
  const std::string name = name_of(plan_.messages[index], index);
  if (send.released) return accuse(name + " completed again after its release");
  if (send.completion && (send.completion->released || !completion.released ||
                          send.completion->status != completion.status)) {
    return accuse(name + " completed twice, the second time not for its release");
  }
  const MessagePlan& message = plan_.messages[index];
  if (!send.completion && completion.status == Status::cancelled) {
    note_freed_descriptors(message.to, at);
  }
  if (!send.completion) send.done = at;
  send.completion = completion;
  if (completion.kind != OperationKind::send || completion.channel != message.channel ||
      completion.tag != message.tag || completion.bytes != message.bytes ||
      completion.immediate != index) {
    return accuse(name + " completed as another operation");
  }
  if (got_bytes(completion.status) &&
      !sessions_.succeeded(message.from, message.to, send.session)) {
    return accuse(name + " completed ok in a session that was not reported as established");
  }
  if (!got_bytes(completion.status) && completion.status != Status::cancelled &&
      !sessions_.ended_with(message.from, message.to, send.session, completion.status)) {
    return accuse(name + " ended with " + std::string(to_string(completion.status)) +
                  ", but its session did not");
  }
  if (!completion.released) return;
  send.released = true;
  if (nic_reads) return accuse(name + " is released, but a NIC still reads it");
  if (completion.status == Status::cancelled && !send.cancel_asked) {
    return accuse(name + " ended as cancelled, but nobody cancelled it");
  }
  std::ranges::fill(send.bytes, kPoison);
  if (receiver_stands && send.received == 0) {
    send.early_word = completion.status;
  } else {
    check_word(index, completion.status);
  }
}

// Checks a sender's status against what its receiver's program was told before, whatever happens to
// their session.
void Oracle::check_word(std::uint32_t index, Status status) {
  const MessagePlan& message = plan_.messages[index];
  const SendRecord& send = sends_[index];
  if (!got_bytes(status)) return;
  if (message.level != Level::delivered) {
    if (status == Status::truncated)
      accuse(name_of(message, index) +
             " reports a truncation, though its level is not `delivered`");
    return;
  }
  if (send.received == 0) {
    return accuse(name_of(message, index) +
                  " was delivered to nobody, but its sender was told that it was");
  }
  if (send.cut != (status == Status::truncated)) {
    accuse(name_of(message, index) +
           (send.cut ? " was truncated, but" : " was not truncated, but") +
           " its sender was told otherwise");
  }
}

void Oracle::check_bytes(const ReceiveRecord& receive, const Completion& completion) {
  const MessagePlan& message = plan_.messages[receive.message];
  const std::string name = name_of(message, receive.message);
  const std::uint64_t expected = std::min<std::uint64_t>(message.bytes, receive.plan.bytes);
  const Status status = message.bytes > receive.plan.bytes ? Status::truncated : Status::ok;
  if (completion.status != status) {
    return accuse(name + " arrived as " + std::string(to_string(completion.status)));
  }
  if (completion.bytes != expected || completion.message_bytes != message.bytes) {
    return accuse(name + " arrived with other lengths");
  }
  if (!is_message(plan_.seed, receive.message, receive.buffer.bytes().first(expected))) {
    return accuse(name + " arrived with other bytes");
  }
  if (!is_all(receive.buffer.bytes().subspan(expected), kUntouched)) {
    accuse(name + " was written beyond its length");
  }
}

void Oracle::on_receive_completed(std::uint32_t index, const Completion& completion,
                                  std::uint32_t from, proto::Time clock) {
  ReceiveRecord& receive = receives_[index];
  const std::string name = receive_name(receive, index);
  if (receive.completion) return accuse(name + " completed twice");
  receive.completion = completion;
  if (!completion.released) return accuse(name + " completed without its buffer");
  const bool of_whom_it_waited = receive.plan.from == kAnyHost || from == receive.plan.from ||
                                 from == kAnyHost;  // unnamed since its restart
  if (completion.kind != OperationKind::receive || completion.channel != receive.plan.channel ||
      !of_whom_it_waited || (completion.peer == kAnyPeer && receive.plan.from != kAnyHost)) {
    return accuse(name + " completed as another operation");
  }
  if (got_bytes(completion.status)) {
    check_got(index, completion, from);
  } else {
    check_got_nothing(index, completion, from, clock);
  }
  if (!receive.buffer.is_intact()) return accuse(name + " was written beside its buffer");
  std::ranges::fill(receive.buffer.bytes(), kPoison);
}

void Oracle::check_got(std::uint32_t index, const Completion& completion, std::uint32_t from) {
  ReceiveRecord& receive = receives_[index];
  const std::string name = receive_name(receive, index);
  if (completion.immediate >= sends_.size())
    return accuse(name + " got a message that nobody sent");
  receive.message = static_cast<std::uint32_t>(completion.immediate);
  const MessagePlan& message = plan_.messages[receive.message];
  SendRecord& send = sends_[receive.message];
  if (!send.posted || !matches(receive, message) || message.tag != completion.tag) {
    return accuse(name + " got " + name_of(message, receive.message) + ", which it doesn't match");
  }
  if (from != message.from && from != kAnyHost) {
    return accuse(name + " got " + name_of(message, receive.message) + " from another host");
  }
  send.cut = completion.status == Status::truncated;
  if (++send.received > 1) return accuse(name_of(message, receive.message) + " arrived twice");
  if (send.completion && send.completion->status == Status::cancelled) {
    return accuse(name_of(message, receive.message) + " was cancelled, but arrived");
  }
  check_bytes(receive, completion);
  check_time(receive);
  if (send.early_word) check_word(receive.message, *send.early_word);
}

void Oracle::check_time(const ReceiveRecord& receive) {
  const SendRecord& send = sends_[receive.message];
  const MessagePlan& message = plan_.messages[receive.message];
  proto::Duration posted = std::max(send.at, receive.at);
  // The wait of a newcomer for its place is judged by places.hpp. A process with the epoch of the
  // one before it waits until chance lets it in.
  const proto::Duration established = std::max(sessions_.established(message.from, message.to),
                                               sessions_.established(message.to, message.from));
  if (has_few_places(plan_) || had_same_epoch(message.from, message.to) ||
      had_same_epoch(message.to, message.from)) {
    posted = std::max(posted, established);
  }
  posted = std::max(posted, send.held_up_until);
  if (any_cancel_is_under_way(message.to) && waits_behind_full_store(receive.message)) {
    posted = receive.done;
  }
  const bool ended = sessions_.any_ended(message.from, message.to, posted, receive.done) ||
                     sessions_.any_ended(message.to, message.from, posted, receive.done);
  const bool judged = !receive.plan.claims && send.held.empty() && !ended;
  std::string late = liveness_.on_received({.message = receive.message,
                                            .posted = posted,
                                            .established = established,
                                            .now = receive.done,
                                            .judged = judged});
  if (!late.empty()) accuse(std::move(late));
}

void Oracle::check_got_nothing(std::uint32_t index, const Completion& completion,
                               std::uint32_t from, proto::Time clock) {
  const ReceiveRecord& receive = receives_[index];
  const std::string name = receive_name(receive, index);
  const Status status = completion.status;
  const bool nothing_matched = status == Status::cancelled || status == Status::store_full;
  if (status == Status::cancelled && !receive.cancel_asked) {
    return accuse(name + " ended as cancelled, but nobody cancelled it");
  }
  if (status == Status::store_full && !store_was_full(receive, clock)) {
    return accuse(name + " ended with store_full, but the store can't be full");
  }
  if (!nothing_matched && !session_ended_so(receive, completion, from)) {
    return accuse(name + " ended with " + std::string(to_string(status)) +
                  ", but none of its sessions did");
  }
  if (nothing_matched && !is_all(receive.buffer.bytes(), kUntouched)) {
    return accuse(name + " got no message, but its buffer was written");
  }
}

// Whether the session that this receive depends on ended with this status. For a receive from one
// host that is the session that it was posted in, or for. For a receive from any host it is the
// session of the message that it had matched; without one the endpoint must have closed.
bool Oracle::session_ended_so(const ReceiveRecord& receive, const Completion& completion,
                              std::uint32_t from) const {
  const std::uint32_t host = receive.plan.host;
  const Status status = completion.status;
  if (receive.plan.from != kAnyHost) {
    return sessions_.ended_with(host, receive.plan.from, receive.session, status);
  }
  if (completion.peer == kAnyPeer) {
    return status == Status::endpoint_closed && closings_[host].began;
  }
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    if (from != kAnyHost && from != other) continue;
    if (sessions_.any_ended_with(host, other, status, receive.at)) return true;
  }
  return false;
}

void Oracle::judge_sends() {
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    const MessagePlan& message = plan_.messages[i];
    if (!send.posted || send.gone) continue;
    if (!send.completion || !send.released) return accuse(name_of(message, i) + " never completed");
    const Status status = send.completion->status;
    if (status == Status::cancelled && send.received > 0) {
      return accuse(name_of(message, i) + " was cancelled, but arrived");
    }
    const bool ended_well = got_bytes(status);
    if (ended_well && send.received == 0 && !lost_by_receiver(i)) {
      return accuse(name_of(message, i) + " completed ok at its sender, but never arrived");
    }
    if (!ended_well && status != Status::cancelled && !send.completion->outcome_unknown &&
        send.received > 0) {
      return accuse(name_of(message, i) +
                    " surely did not arrive, according to its sender, but it did");
    }
  }
}

// Whether the message may have been gone when `got`, which matches it too, got a younger one of its
// session. That is so if it was cancelled. It may also have ended with its session, which leaves
// only whole messages to later receives, or with an older receive that had it. A message that its
// sender knows to be whole is never gone before a younger one.
bool Oracle::had_its_turn(std::uint32_t index, const ReceiveRecord& got) const {
  const SendRecord& send = sends_[index];
  const MessagePlan& message = plan_.messages[index];
  if (send.completion && got_bytes(send.completion->status)) return false;
  if (send.cancel_asked) return true;
  if (sessions_.any_ended(message.to, message.from, send.at, got.done)) return true;
  return std::ranges::any_of(receives_, [&](const ReceiveRecord& receive) {
    const bool ended_early =
        receive.gone || (receive.completion && is_ending(receive.completion->status));
    return receive.posted && ended_early && receive.life == got.life && receive.order < got.order &&
           matches(receive, message);
  });
}

// Judges the rule about order; the number of messages is small enough for a quadratic loop.
void Oracle::judge_order() {
  std::vector<std::uint32_t> receiver(sends_.size(), ~0u);
  for (std::uint32_t i = 0; i < receives_.size(); ++i) {
    if (receives_[i].message != ~0u) receiver[receives_[i].message] = i;
  }
  for (std::uint32_t later = 0; later < sends_.size(); ++later) {
    if (receiver[later] == ~0u) continue;
    const ReceiveRecord& got = receives_[receiver[later]];
    const MessagePlan& young = plan_.messages[later];
    for (std::uint32_t earlier = 0; earlier < sends_.size(); ++earlier) {
      const MessagePlan& old = plan_.messages[earlier];
      const SendRecord& send = sends_[earlier];
      if (!send.posted || old.from != young.from || old.to != young.to) continue;
      if (place(send) >= place(sends_[later]) || !matches(got, old)) continue;
      const bool came = receiver[earlier] != ~0u;
      if (came && place(receives_[receiver[earlier]]) < place(got)) continue;
      // It was of an older session, and may have ended with it.
      if (!came && place_of_session(send) != place_of_session(sends_[later])) continue;
      if (!came && had_its_turn(earlier, got)) continue;
      const bool was_held = std::ranges::any_of(send.held, [&](const auto& span) {
        return span.first <= got.order && got.order < span.second;
      });
      if (was_held) continue;
      return accuse(name_of(young, later) + " overtook " + name_of(old, earlier));
    }
  }
}

void Oracle::judge_buffers() {
  for (std::uint32_t i = 0; i < receives_.size(); ++i) {
    const ReceiveRecord& receive = receives_[i];
    if (!receive.buffer.is_intact()) {
      return accuse(receive_name(receive, i) + " was written beside its buffer");
    }
    if (receive.completion && !is_all(receive.buffer.bytes(), kPoison)) {
      return accuse(receive_name(receive, i) + " was written after its completion");
    }
  }
}

void Oracle::judge() {
  judge_sends();
  judge_order();
  judge_partings();
  for (std::uint32_t i = 0; i < receives_.size(); ++i) {
    const ReceiveRecord& receive = receives_[i];
    if (receive.posted && !receive.gone && !receive.completion) {
      accuse("receive " + std::to_string(i) + " never completed");
    }
  }
}

}  // namespace hawser::sim
