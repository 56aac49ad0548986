// SPDX-License-Identifier: Apache-2.0
#include "test/support/loopback_endpoints.hpp"

#include <algorithm>
#include <cstring>

#include "test/support/endpoint_double.hpp"

namespace hawser::test {
namespace {

constexpr std::byte kJunk{0xe5};

std::uint64_t hash_of(const std::byte* data, std::uint64_t bytes) {
  std::uint64_t hash = bytes;
  std::uint64_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  for (; at < bytes; ++at) hash = (hash ^ static_cast<std::uint64_t>(data[at])) * 0x100000001b3;
  return hash;
}

bool same_hint(const Hint& a, const Hint& b) {
  return a.group == b.group && a.members == b.members && a.step == b.step && a.steps == b.steps &&
         a.collective == b.collective;
}

}  // namespace

class LoopbackEndpoint final : public EndpointDouble {
 public:
  LoopbackEndpoint(LoopbackNetwork& network, std::size_t index)
      : network_(network), index_(index) {}

  [[nodiscard]] Status send(const SendRequest& request, OperationId& operation) override {
    const PeerId peer = request.peer;
    auto& node = network_.nodes_[index_];
    const std::size_t other = network_.index_of(index_, peer);
    if (other >= network_.nodes_.size() || other == index_) return Status::unknown_peer;
    if (node.closed) return Status::endpoint_closed;
    const Status ended = network_.session_end(index_, other);
    if (ended != Status::ok) return ended;
    const auto to_peer =
        std::count_if(node.pending.begin(), node.pending.end(), [other](const auto& one) {
          return one->kind == OperationKind::send && one->other == other;
        });
    if (is_refused(node) ||
        static_cast<std::size_t>(to_peer) >= network_.options_.max_messages_per_peer) {
      return Status::again;
    }
    auto one = accept(OperationKind::send, other, request.channel, request.tag, request.bytes);
    one->source = static_cast<const std::byte*>(request.data);
    one->hash = hash_of(one->source, request.bytes);
    one->send = request;
    operation = one->id;
    network_.most_sends_ = std::max(network_.most_sends_, ++node.sends);
    node.bytes_sent += request.bytes;
    node.queued.push_back(one);
    return Status::ok;
  }

  [[nodiscard]] Status receive(const ReceiveRequest& request, OperationId& operation) override {
    const PeerId peer = request.peer;
    auto& node = network_.nodes_[index_];
    const std::size_t other =
        peer == kAnyPeer ? LoopbackNetwork::kAny : network_.index_of(index_, peer);
    if (peer != kAnyPeer && (other >= network_.nodes_.size() || other == index_)) {
      return Status::unknown_peer;
    }
    if (node.closed) return Status::endpoint_closed;
    if (is_refused(node)) return Status::again;
    const auto one = accept_receive(request, other);
    operation = one->id;
    for (auto at = node.unexpected.begin(); at != node.unexpected.end(); ++at) {
      if (!matches(*one, *at->send)) continue;
      if (at->stored) node.unexpected_bytes -= at->payload.size();
      network_.match(one, *at);
      node.unexpected.erase(at);
      return Status::ok;
    }
    node.receives.push_back(one);
    return Status::ok;
  }

  [[nodiscard]] std::vector<NicStats> nic_stats() const override {
    return network_.nodes_[index_].nics;
  }

  [[nodiscard]] Status cancel(OperationId operation) override {
    auto& node = network_.nodes_[index_];
    for (const auto& one : node.pending) {
      if (one->id != operation) continue;
      if (one->kind == OperationKind::send) {
        network_.cancels_.emplace(network_.now_ + network_.delay(), one);
        return Status::ok;
      }
      node.receives.remove(one);
      network_.end(one, Status::cancelled, network_.delay());
      return Status::ok;
    }
    for (const auto& [due, ending] : node.endings) {
      if (ending.operation->id == operation) return Status::too_late;
    }
    return Status::unknown_operation;
  }

  [[nodiscard]] Status disconnect(PeerId peer) override {
    const std::size_t other = network_.index_of(index_, peer);
    if (other >= network_.nodes_.size() || other == index_) return Status::unknown_peer;
    network_.end_session(index_, other, false);
    return Status::ok;
  }

  [[nodiscard]] Status peer_stats(PeerId peer, PeerStats& stats) const override {
    const std::size_t other = network_.index_of(index_, peer);
    if (other >= network_.nodes_.size() || other == index_) return Status::unknown_peer;
    stats.failure_reason = network_.failure_reason(index_, other);
    return Status::ok;
  }

  [[nodiscard]] Status probe(const ProbeRequest& request, Envelope& envelope) override {
    if (network_.nodes_[index_].closed) return Status::endpoint_closed;
    const auto found = find(request);
    if (found == network_.nodes_[index_].unexpected.end()) return Status::again;
    envelope = envelope_of(*found);
    return Status::ok;
  }

  [[nodiscard]] Status claim(const ProbeRequest& request, Envelope& envelope,
                             MessageId& message) override {
    auto& node = network_.nodes_[index_];
    const auto found = find(request);
    if (found == node.unexpected.end()) return Status::again;
    envelope = envelope_of(*found);
    message = MessageId{network_.next_message_++};
    node.claimed.emplace(message, std::move(*found));
    node.unexpected.erase(found);
    return Status::ok;
  }

  [[nodiscard]] Status receive_claimed(MessageId message, const ClaimedRequest& request,
                                       OperationId& operation) override {
    auto& node = network_.nodes_[index_];
    const auto found = node.claimed.find(message);
    if (found == node.claimed.end()) return Status::unknown_operation;
    if (node.closed) return Status::endpoint_closed;
    if (is_refused(node)) return Status::again;
    const auto& send = *found->second.send;
    if (!found->second.stored && send.ended) return Status::unknown_operation;
    const auto one = accept_receive({.channel = send.channel,
                                     .tag = send.tag,
                                     .data = request.data,
                                     .bytes = request.bytes,
                                     .user_data = request.user_data,
                                     .hint = request.hint},
                                    send.owner);
    operation = one->id;
    if (found->second.stored) node.unexpected_bytes -= found->second.payload.size();
    network_.match(one, found->second);
    node.claimed.erase(found);
    return Status::ok;
  }

  [[nodiscard]] Status put_back(MessageId message) override {
    auto& node = network_.nodes_[index_];
    auto found = node.claimed.extract(message);
    if (found.empty()) return Status::unknown_operation;
    node.unexpected.push_front(std::move(found.mapped()));
    return Status::ok;
  }

  void flush() override { network_.leave(index_); }

  std::size_t poll(std::span<Completion> completions) override {
    network_.leave(index_);
    network_.tick();
    auto& node = network_.nodes_[index_];
    std::size_t count = 0;
    while (count < completions.size() && !node.endings.empty() &&
           node.endings.begin()->first <= network_.now_) {
      const auto ending = std::move(node.endings.extract(node.endings.begin()).mapped());
      network_.finish(ending);
      completions[count++] = ending.completion;
    }
    return count;
  }

  std::size_t wait(std::span<Completion> completions, std::uint64_t) override {
    network_.leave(index_);
    if (network_.on_wait) network_.on_wait(index_);
    return poll(completions);
  }

  void close() override {
    auto& node = network_.nodes_[index_];
    node.closed = true;
    node.receives.clear();
    const auto pending = node.pending;
    for (const auto& one : pending) network_.end(one, Status::endpoint_closed, network_.delay());
  }

  template <typename Receive, typename Send>
  static bool matches(const Receive& receive, const Send& send) {
    return (receive.other == LoopbackNetwork::kAny || receive.other == send.owner) &&
           receive.channel == send.channel && ((receive.tag ^ send.tag) & receive.mask) == 0;
  }

 private:
  using Node = LoopbackNetwork::Node;

  bool is_refused(const Node& node) {
    return network_.chance(network_.options_.again) ||
           node.operations >= network_.options_.max_operations;
  }

  std::list<LoopbackNetwork::Message>::iterator find(const ProbeRequest& request) {
    auto& unexpected = network_.nodes_[index_].unexpected;
    LoopbackNetwork::Operation wanted;
    wanted.other =
        request.peer == kAnyPeer ? LoopbackNetwork::kAny : network_.index_of(index_, request.peer);
    wanted.channel = request.channel;
    wanted.tag = request.tag;
    wanted.mask = ~request.ignore;
    return std::find_if(unexpected.begin(), unexpected.end(),
                        [&](const auto& one) { return matches(wanted, *one.send); });
  }

  Envelope envelope_of(const LoopbackNetwork::Message& message) {
    const auto& send = *message.send;
    return {.peer = network_.peer(index_, send.owner),
            .tag = send.tag,
            .bytes = send.bytes,
            .immediate = send.send.immediate};
  }

  LoopbackNetwork::OperationPointer accept_receive(const ReceiveRequest& request,
                                                   std::size_t other) {
    auto one = accept(OperationKind::receive, other, request.channel, request.tag, request.bytes);
    one->mask = ~request.ignore;
    one->target = static_cast<std::byte*>(request.data);
    one->receive = request;
    one->before.assign(one->target, one->target + request.bytes);
    std::fill_n(one->target, request.bytes, kJunk);
    one->hash = hash_of(one->target, request.bytes);
    const auto& node = network_.nodes_[index_];
    network_.most_receives_ = std::max(network_.most_receives_, node.operations - node.sends);
    return one;
  }

  LoopbackNetwork::OperationPointer accept(OperationKind kind, std::size_t other,
                                           std::uint16_t channel, std::uint64_t tag,
                                           std::uint64_t bytes) {
    auto one = std::make_shared<LoopbackNetwork::Operation>();
    one->id = OperationId{network_.next_operation_++};
    one->kind = kind;
    one->owner = index_;
    one->other = other;
    one->channel = channel;
    one->tag = tag;
    one->bytes = bytes;
    auto& node = network_.nodes_[index_];
    node.pending.push_back(one);
    ++node.operations;
    return one;
  }

  LoopbackNetwork& network_;
  std::size_t index_;
};

LoopbackNetwork::LoopbackNetwork(std::size_t endpoints, const LoopbackOptions& options)
    : options_(options),
      random_(options.seed),
      flying_(endpoints * endpoints),
      cuts_(endpoints * endpoints) {
  for (std::size_t i = 0; i < endpoints; ++i) {
    nodes_.emplace_back().endpoint = std::make_unique<LoopbackEndpoint>(*this, i);
  }
}

LoopbackNetwork::~LoopbackNetwork() = default;

Endpoint& LoopbackNetwork::endpoint(std::size_t index) { return *nodes_[index].endpoint; }

PeerId LoopbackNetwork::peer(std::size_t from, std::size_t to) const {
  return PeerId{static_cast<std::uint32_t>((to + from + 1) % nodes_.size())};
}

std::size_t LoopbackNetwork::index_of(std::size_t from, PeerId peer) const {
  const std::size_t count = nodes_.size();
  const auto value = static_cast<std::size_t>(peer);
  return value >= count ? count : (value + 2 * count - from - 1) % count;
}

bool LoopbackNetwork::chance(double probability) {
  return probability > 0 && std::uniform_real_distribution<>(0, 1)(random_) < probability;
}

std::uint64_t LoopbackNetwork::delay() {
  return options_.max_delay == 0 ? 0 : random_() % (options_.max_delay + 1);
}

void LoopbackNetwork::set_nics(std::size_t index, std::size_t count, std::size_t down) {
  nodes_[index].nics.assign(count, {});
  for (std::size_t i = 0; i < down; ++i) nodes_[index].nics[i].state = PathState::down;
}

std::uint64_t LoopbackNetwork::bytes_sent(std::size_t index) const {
  return nodes_[index].bytes_sent;
}

void LoopbackNetwork::complain(const std::string& text) {
  if (complaints_.size() < 20) complaints_.push_back(text);
}

// Lets the queued messages of an endpoint leave, in order.
void LoopbackNetwork::leave(std::size_t index) {
  for (const OperationPointer& send : nodes_[index].queued) {
    auto& queue = flying_[index * nodes_.size() + send->other];
    std::uint64_t arrives_at = now_ + delay();
    if (!queue.empty()) arrives_at = std::max(arrives_at, queue.back().arrives_at);
    queue.push_back({.send = send, .arrives_at = arrives_at});
  }
  nodes_[index].queued.clear();
}

void LoopbackNetwork::tick() {
  ++now_;
  deliver_arrivals();
  decide_cancels();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].alive && !nodes_[i].closed) fail_operations(i);
  }
}

void LoopbackNetwork::deliver_arrivals() {
  for (auto& queue : flying_) {
    while (!queue.empty() && queue.front().arrives_at <= now_) {
      Message message = std::move(queue.front());
      queue.pop_front();
      arrive(std::move(message));
    }
  }
}

// The receiver of a send decides whether to cancel it: not once it is matched, claimed or stored. A
// dead or closed receiver does not answer.
void LoopbackNetwork::decide_cancels() {
  while (!cancels_.empty() && cancels_.begin()->first <= now_) {
    const OperationPointer send = cancels_.extract(cancels_.begin()).mapped();
    Node& node = nodes_[send->other];
    if (send->ended || !node.alive || node.closed) continue;
    const auto is_claimed = [&](const auto& one) { return one.second.send == send; };
    if (std::any_of(node.claimed.begin(), node.claimed.end(), is_claimed)) continue;
    const auto is_it = [&](const Message& one) { return one.send == send; };
    const auto at = std::find_if(node.unexpected.begin(), node.unexpected.end(), is_it);
    if (at != node.unexpected.end()) {
      if (at->stored) continue;
      node.unexpected.erase(at);
    }
    end(send, Status::cancelled, delay());
  }
}

void LoopbackNetwork::arrive(Message&& message) {
  Node& node = nodes_[message.send->other];
  if (!node.alive || node.closed || message.send->ended) return;
  if (session_end(message.send->other, message.send->owner) != Status::ok) return;
  for (auto at = node.receives.begin(); at != node.receives.end(); ++at) {
    if (!LoopbackEndpoint::matches(**at, *message.send)) continue;
    const OperationPointer receive = *at;
    node.receives.erase(at);
    match(receive, message);
    return;
  }
  Operation& send = *message.send;
  if (node.unexpected_bytes + send.bytes <= options_.unexpected_bytes) {
    check_buffer(send);
    message.payload.assign(send.source, send.source + send.bytes);
    message.stored = true;
    node.unexpected_bytes += send.bytes;
    if (send.send.level == Level::accepted) end(message.send, Status::ok, delay());
  }
  node.unexpected.push_back(std::move(message));
}

void LoopbackNetwork::match(const OperationPointer& receive, Message& message) {
  Operation& send = *message.send;
  if (!message.stored) {
    if (send.ended) {  // the sender has given up, so the bytes never come, as if lost
      nodes_[receive->owner].receives.push_back(receive);
      return;
    }
    check_buffer(send);
    message.payload.assign(send.source, send.source + send.bytes);
  }
  receive->matched = true;
  count_group(*receive, send);
  const bool fits = send.bytes <= receive->bytes;
  Ending ending{.operation = receive,
                .completion = {.operation = receive->id,
                               .user_data = receive->receive.user_data,
                               .kind = OperationKind::receive,
                               .status = fits ? Status::ok : Status::truncated,
                               .channel = receive->channel,
                               .peer = peer(receive->owner, send.owner),
                               .tag = send.tag,
                               .bytes = std::min(send.bytes, receive->bytes),
                               .message_bytes = send.bytes,
                               .immediate = send.send.immediate},
                .payload = std::move(message.payload)};
  receive->ended = true;
  nodes_[receive->owner].pending.remove(receive);
  nodes_[receive->owner].endings.emplace(now_ + delay(), std::move(ending));
  if (!send.ended) end(message.send, Status::ok, delay());
}

void LoopbackNetwork::count_group(const Operation& receive, const Operation& send) {
  const Hint& envelope = send.send.hint;
  const Hint& own = receive.receive.hint;
  if (envelope.group == 0 && own.group == 0) return;
  const Hint& hint = envelope.group != 0 ? envelope : own;
  if (envelope.group != 0 && own.group != 0 && !same_hint(envelope, own)) {
    complain("sender and receiver give different hints");
  }
  if (hint.members == 0 || hint.step >= hint.steps || hint.collective == Collective::none) {
    complain("senseless hint");
  }
  Group& group = nodes_[receive.owner].groups.try_emplace(hint.group, Group{hint}).first->second;
  if (!same_hint(group.hint, hint)) complain("a group's messages have different hints");
  if (++group.count > group.hint.members) complain("more messages in a group than members");
}

void LoopbackNetwork::check_groups() {
  for (const Node& node : nodes_) {
    for (const auto& [number, group] : node.groups) {
      if (group.count < group.hint.members) complain("fewer messages in a group than members");
    }
  }
}

void LoopbackNetwork::kill(std::size_t index) {
  nodes_[index].alive = false;
  nodes_[index].killed_at = now_;
  nodes_[index].queued.clear();
  for (std::size_t other = 0; other < nodes_.size(); ++other) {
    flying_[index * nodes_.size() + other].clear();
    // Remove its unfinished sends, whose payload is gone with it.
    nodes_[other].unexpected.remove_if([index](const Message& message) {
      return message.send->owner == index && !message.stored;
    });
  }
}

// Messages that were sent before the end may still arrive at the other end, until that notices.
void LoopbackNetwork::end_session(std::size_t from, std::size_t to, bool is_given_up) {
  if (cuts_[from * nodes_.size() + to].by != kAny) return;
  const Cut cut{
      .by = from, .noticed_at = now_ + options_.max_delay + delay(), .is_given_up = is_given_up};
  cuts_[from * nodes_.size() + to] = cuts_[to * nodes_.size() + from] = cut;
  leave(from);
  const auto forget = [this](std::size_t owner, std::size_t other) {
    nodes_[other].unexpected.remove_if([owner](const Message& message) {
      return message.send->owner == owner && !message.stored;
    });
  };
  forget(from, to);
  forget(to, from);
}

Status LoopbackNetwork::session_end(std::size_t from, std::size_t to) const {
  const Node& node = nodes_[to];
  if (!node.alive && now_ >= node.killed_at + options_.peer_timeout) return Status::peer_timeout;
  const Cut& cut = cuts_[from * nodes_.size() + to];
  const bool is_noticed = cut.by == from || (cut.by == to && now_ >= cut.noticed_at);
  if (!is_noticed) return Status::ok;
  if (cut.is_given_up) return Status::peer_timeout;
  return cut.by == from ? Status::endpoint_closed : Status::peer_closed;
}

Reason LoopbackNetwork::failure_reason(std::size_t from, std::size_t to) const {
  const Cut& cut = cuts_[from * nodes_.size() + to];
  const bool is_told = cut.by == to && cut.is_given_up && session_end(from, to) != Status::ok;
  return is_told && nodes_[to].alive ? Reason::gave_up : Reason::none;
}

void LoopbackNetwork::fail_operations(std::size_t index) {
  Node& node = nodes_[index];
  for (auto at = node.pending.begin(); at != node.pending.end();) {
    const OperationPointer one = *at++;
    const Status status = one->other == kAny ? Status::ok : session_end(one->owner, one->other);
    if (status == Status::ok) continue;
    node.receives.remove(one);
    // Now and then a NIC still holds on to a send that has failed.
    if (one->kind == OperationKind::send && chance(0.5)) {
      end(one, status, 0, false);
    } else {
      end(one, status, delay());
    }
  }
}

void LoopbackNetwork::end(const OperationPointer& operation, Status status, std::uint64_t after,
                          bool released) {
  const bool is_send = operation->kind == OperationKind::send;
  Ending ending{.operation = operation,
                .completion = {
                    .operation = operation->id,
                    .user_data = is_send ? operation->send.user_data : operation->receive.user_data,
                    .kind = operation->kind,
                    .status = status,
                    .channel = operation->channel,
                    .released = released,
                    .tag = operation->tag,
                    .bytes = status == Status::ok ? operation->bytes : 0}};
  if (operation->other != kAny) {
    ending.completion.peer = peer(operation->owner, operation->other);
  }
  Node& node = nodes_[operation->owner];
  node.endings.emplace(now_ + after, ending);
  if (!released) {
    ending.completion.released = true;
    node.endings.emplace(now_ + after + 1 + delay(), std::move(ending));
  }
  operation->ended = true;
  node.pending.remove(operation);
}

void LoopbackNetwork::check_buffer(const Operation& operation) {
  const std::byte* data =
      operation.kind == OperationKind::send ? operation.source : operation.target;
  if (hash_of(data, operation.bytes) != operation.hash) {
    complain(operation.kind == OperationKind::send ? "a buffer changed while it was being sent"
                                                   : "a posted receive's buffer was written to");
  }
}

void LoopbackNetwork::finish(const Ending& ending) {
  Operation& operation = *ending.operation;
  check_buffer(operation);
  if (!ending.completion.released) return;
  Node& node = nodes_[operation.owner];
  --node.operations;
  if (operation.kind == OperationKind::send) {
    --node.sends;
    return;
  }
  std::copy(operation.before.begin(), operation.before.end(), operation.target);
  const std::uint64_t bytes = std::min<std::uint64_t>(ending.payload.size(), operation.bytes);
  if (bytes > 0) std::memcpy(operation.target, ending.payload.data(), bytes);
}

std::size_t LoopbackNetwork::unmatched() const {
  std::size_t count = 0;
  for (const Node& node : nodes_) {
    if (node.alive) count += node.unexpected.size();
  }
  return count;
}

std::size_t LoopbackNetwork::operations_pending(std::size_t index) const {
  return nodes_[index].operations;
}

}  // namespace hawser::test
