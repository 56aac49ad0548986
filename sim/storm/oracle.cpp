#include "sim/storm/oracle.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/random.hpp"

namespace hawser::sim {

namespace {

constexpr std::byte kUntouched{0xa5};
constexpr std::byte kPoison{0xee};

bool got_bytes(Status status) { return status == Status::ok || status == Status::truncated; }

bool is_all(std::span<const std::byte> bytes, std::byte value) {
  return bytes.empty() ||
         (bytes[0] == value && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

std::string name_of(const MessagePlan& message, std::uint32_t index) {
  return "message " + std::to_string(index) + " (" + std::to_string(message.from) + " to " +
         std::to_string(message.to) + ", tag " + std::to_string(message.tag) + ", " +
         std::to_string(message.bytes) + " bytes)";
}

}  // namespace

namespace {

// A prime: two places of a message that hold the same bytes are never whole fragments apart.
constexpr std::size_t kPeriod = 65521;

const std::array<std::byte, kPeriod>& noise() {
  static const auto kNoise = [] {
    std::array<std::byte, kPeriod> bytes;
    proto::Random random(1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
  }();
  return kNoise;
}

// Calls `piece` with each stretch of the message's bytes that lies in one piece, and its offset,
// until it returns false. Returns whether it never did.
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
  return plan.host == message.to && plan.context == message.context &&
         (plan.from == kAnyHost || plan.from == message.from) &&
         ((plan.tag ^ message.tag) & plan.mask) == 0;
}

bool Oracle::failed(std::uint32_t a, std::uint32_t b) const {
  return std::ranges::any_of(failures_, [&](const Failure& failure) {
    return (failure.host == a && failure.other == b) || (failure.host == b && failure.other == a);
  });
}

void Oracle::on_send_completed(std::uint32_t index, const Completion& completion, bool nic_reads) {
  SendRecord& send = sends_[index];
  const std::string name = name_of(plan_.messages[index], index);
  if (send.released) return accuse(name + " completed again after its release");
  if (send.completion && (send.completion->released || !completion.released ||
                          send.completion->status != completion.status)) {
    return accuse(name + " completed twice, and not to be released");
  }
  send.completion = completion;
  const MessagePlan& message = plan_.messages[index];
  if (completion.kind != OperationKind::send || completion.context != message.context ||
      completion.tag != message.tag || completion.bytes != message.bytes ||
      completion.immediate != index) {
    return accuse(name + " completed as another one");
  }
  if (got_bytes(completion.status) &&
      !sessions_.succeeded(message.from, message.to, send.session)) {
    return accuse(name + " ended well in a session that was not said to be established");
  }
  if (!completion.released) return;
  send.released = true;
  if (nic_reads) return accuse(name + " is released, and a NIC still reads it");
  if (completion.status == Status::cancelled && !send.cancel_asked) {
    return accuse(name + " was cancelled by nobody");
  }
  std::ranges::fill(send.bytes, kPoison);
  check_word(index, completion.status);
}

// What a sender is told of its receiver. A receive of a session that was lost since may have ended
// otherwise.
void Oracle::check_word(std::uint32_t index, Status status) {
  const MessagePlan& message = plan_.messages[index];
  const SendRecord& send = sends_[index];
  if (!got_bytes(status) || failed(message.from, message.to)) return;
  if (message.level != Level::delivered) {
    if (status == Status::truncated) accuse(name_of(message, index) + " is told how it was cut");
    return;
  }
  if (send.received == 0) {
    return accuse(name_of(message, index) + " is delivered to nobody, as its sender is told");
  }
  if (send.cut != (status == Status::truncated)) {
    accuse(name_of(message, index) + (send.cut ? " was cut, and" : " was not cut, and") +
           " its sender is told otherwise");
  }
}

void Oracle::check_bytes(const ReceiveRecord& receive, const Completion& completion) {
  const MessagePlan& message = plan_.messages[receive.message];
  const std::string name = name_of(message, receive.message);
  const std::uint64_t expected = std::min<std::uint64_t>(message.bytes, receive.plan.bytes);
  const Status status = message.bytes > receive.plan.bytes ? Status::truncated : Status::ok;
  if (completion.status != status) {
    return accuse(name + " came as " + std::string(to_string(completion.status)));
  }
  if (completion.bytes != expected || completion.message_bytes != message.bytes) {
    return accuse(name + " came with other lengths");
  }
  if (!is_message(plan_.seed, receive.message, std::span(receive.buffer).first(expected))) {
    return accuse(name + " came with other bytes");
  }
  if (!is_all(std::span(receive.buffer).subspan(expected), kUntouched)) {
    accuse(name + " was written beyond its length");
  }
}

void Oracle::on_receive_completed(std::uint32_t index, const Completion& completion,
                                  std::uint32_t from) {
  ReceiveRecord& receive = receives_[index];
  const std::string name =
      "receive " + std::to_string(index) + " of host " + std::to_string(receive.plan.host);
  if (receive.completion) return accuse(name + " completed twice");
  receive.completion = completion;
  if (!completion.released) return accuse(name + " completed without its buffer");
  const bool of_whom_it_waited = receive.plan.from == kAnyHost || from == receive.plan.from ||
                                 from == kAnyHost;  // no name for it: since its restart
  if (completion.kind != OperationKind::receive || completion.context != receive.plan.context ||
      !of_whom_it_waited || (completion.peer == kAnyPeer && receive.plan.from != kAnyHost)) {
    return accuse(name + " completed as another one");
  }
  if (got_bytes(completion.status)) {
    if (completion.immediate >= sends_.size()) return accuse(name + " got what nobody sent");
    receive.message = static_cast<std::uint32_t>(completion.immediate);
    const MessagePlan& message = plan_.messages[receive.message];
    SendRecord& send = sends_[receive.message];
    if (!send.posted || !matches(receive, message) || message.tag != completion.tag) {
      return accuse(name + " got " + name_of(message, receive.message) +
                    ", which it doesn't match");
    }
    if (from != message.from && from != kAnyHost) {
      return accuse(name + " got " + name_of(message, receive.message) + " from another host");
    }
    send.cut = completion.status == Status::truncated;
    if (++send.received > 1) return accuse(name_of(message, receive.message) + " came twice");
    if (send.completion && send.completion->status == Status::cancelled) {
      return accuse(name_of(message, receive.message) + " was cancelled, and came");
    }
    check_bytes(receive, completion);
  } else {
    if (completion.status == Status::cancelled && !receive.cancel_asked) {
      return accuse(name + " was cancelled by nobody");
    }
    const bool written = !is_all(receive.buffer, kUntouched);
    if (written &&
        (completion.status == Status::cancelled || completion.status == Status::store_full)) {
      return accuse(name + " got no message, and was written");
    }
  }
  std::ranges::fill(receive.buffer, kPoison);
}

void Oracle::judge_sends() {
  for (std::uint32_t i = 0; i < sends_.size(); ++i) {
    const SendRecord& send = sends_[i];
    const MessagePlan& message = plan_.messages[i];
    if (!send.posted || send.gone) continue;
    if (!send.completion || !send.released) return accuse(name_of(message, i) + " never completed");
    const Status status = send.completion->status;
    const bool session_lost = failed(message.from, message.to);
    if (status == Status::cancelled && send.received > 0) {
      return accuse(name_of(message, i) + " was cancelled, and came");
    }
    const bool ended_well = got_bytes(status);
    if (ended_well && send.received == 0 && !session_lost) {
      return accuse(name_of(message, i) + " is ok to its sender, and never came");
    }
    const bool closed = status == Status::endpoint_closed && may_close(message.from, message.to);
    const bool surely = !send.completion->outcome_unknown;
    if ((is_peer_failure(status) || closed) && surely && send.received > 0) {
      return accuse(name_of(message, i) + " has surely not come, says its sender, and came");
    }
    if (!ended_well && status != Status::cancelled && !is_peer_failure(status) && !closed) {
      return accuse(name_of(message, i) + " ended with " + std::string(to_string(status)));
    }
  }
}

// See the rule; n is small.
void Oracle::judge_order() {
  std::vector<std::uint32_t> receiver(sends_.size(), ~0u);
  for (std::uint32_t i = 0; i < receives_.size(); ++i) {
    if (receives_[i].message != ~0u) receiver[receives_[i].message] = i;
  }
  for (std::uint32_t later = 0; later < sends_.size(); ++later) {
    if (receiver[later] == ~0u) continue;
    const ReceiveRecord& got = receives_[receiver[later]];
    const MessagePlan& young = plan_.messages[later];
    if (failed(young.from, young.to)) continue;
    for (std::uint32_t earlier = 0; earlier < sends_.size(); ++earlier) {
      const MessagePlan& old = plan_.messages[earlier];
      const SendRecord& send = sends_[earlier];
      if (!send.posted || old.from != young.from || old.to != young.to) continue;
      if (send.order >= sends_[later].order || !matches(got, old)) continue;
      if (send.completion && send.completion->status == Status::cancelled) continue;
      if (receiver[earlier] != ~0u && receives_[receiver[earlier]].order < got.order) continue;
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
    if (!receive.completion) continue;
    if (!is_all(receive.buffer, kPoison)) {
      return accuse("receive " + std::to_string(i) + " was written after its completion");
    }
  }
}

void Oracle::judge() {
  judge_sends();
  judge_order();
  judge_buffers();
  judge_partings();
  for (std::uint32_t i = 0; i < receives_.size(); ++i) {
    const ReceiveRecord& receive = receives_[i];
    if (receive.posted && !receive.gone && !receive.completion) {
      accuse("receive " + std::to_string(i) + " never completed");
    }
    if (!receive.completion) continue;
    const Status status = receive.completion->status;
    const bool closed =
        status == Status::endpoint_closed && may_close(receive.plan.host, receive.plan.from);
    if (!got_bytes(status) && status != Status::cancelled && status != Status::store_full &&
        !is_peer_failure(status) && !closed) {
      accuse("receive " + std::to_string(i) + " ended with " + std::string(to_string(status)));
    }
  }
}

}  // namespace hawser::sim
