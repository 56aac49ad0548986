// SPDX-License-Identifier: Apache-2.0
#include "engine/threaded_endpoint.hpp"

#include <sched.h>

#include <array>
#include <chrono>

#include "engine/cancellation.hpp"
#include "engine/clock.hpp"
#include "engine/deadlines.hpp"
#include "engine/log.hpp"
#include "engine/registration/calls.hpp"
#include "engine/requests.hpp"
#include "proto/base/assert.hpp"

namespace hawser::engine {

using proto::Time;
using proto::TurnResult;

namespace {

// Entries of the command ring beyond one per operation: for calls in progress.
constexpr std::size_t kCallRoom = 256;
constexpr std::size_t kEvents = 1024;
constexpr std::size_t kBatch = 64;

// A command is the index of an operation, marked by its lowest bit, or the address of a Call.
constexpr std::uint64_t kOperationMark = 1;
std::uint64_t command_for(OperationId operation) {
  return std::uint64_t{index_of(operation)} << 1 | kOperationMark;
}

// A value that is neither a peer nor kAnyPeer.
constexpr PeerId kNobody{0xfffffffeu};

}  // namespace

ThreadedEndpoint::ThreadedEndpoint(const EngineSettings& settings, const EndpointConfig& config,
                                   EndpointRegistry& registry, EngineThread& thread)
    : registry_(registry),
      thread_(thread),
      body_(settings, config),
      operations_(settings.tunables.max_operations),
      injected_(settings.tunables.max_operations, config.inject_bytes),
      admission_(settings.tunables.max_peers, settings.tunables.max_messages_per_peer),
      commands_(settings.tunables.max_operations + kCallRoom, WordRing::Consumers::one),
      known_(std::make_unique<std::atomic<PeerId>[]>(settings.tunables.max_peers)),
      waiting_(settings.tunables.max_peers, settings.tunables.max_operations),
      // An operation whose buffer is released late has a second completion.
      completions_(2 * settings.tunables.max_operations),
      idle_(settings.tunables),
      events_(kEvents) {
  for (std::size_t i = 0; i < settings.tunables.max_peers; ++i) known_[i] = kNobody;
  thread_.add(*this, body_->descriptors());
  registry_.add(*this);
}

ThreadedEndpoint::~ThreadedEndpoint() {
  if (!body_.is_here()) return;
  registry_.remove(*this);
  ThreadedEndpoint::close();
  thread_.remove(*this, body_->descriptors());
}

// ---- application threads

template <class Function>
void ThreadedEndpoint::on_engine_thread(Function function) const {
  Call call;
  call.context = &function;
  call.run = [](void* context, Time now) { (*static_cast<Function*>(context))(now); };
  carry(call);
}

void ThreadedEndpoint::carry(Call& call) const {
  static_assert(alignof(Call) > kOperationMark);
  const CancellationHold hold;
  const auto command = reinterpret_cast<std::uint64_t>(&call);
  // The ring is full only while more than kCallRoom threads are in calls. The engine thread empties
  // it.
  while (!commands_.push(command)) ::sched_yield();
  thread_.ring();
  std::unique_lock lock(calls_mutex_);
  calls_changed_->wait(lock, [&] { return call.done; });
}

// Returns the function by which Registrations runs its calls on the engine thread.
auto ThreadedEndpoint::there() const {
  return [this](auto function) { on_engine_thread([&](Time) { function(); }); };
}

Status ThreadedEndpoint::connect(std::span<const std::byte> address, PeerId& peer) {
  if (!body_.is_here()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time now) {
    status = body_->protocol().connect(now, address, peer);
    if (status == Status::ok) set_known(peer, true);
  });
  return status;
}

Status ThreadedEndpoint::admit(const SendRequest& request, OperationSlot*& slot) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  if (!is_known(request.peer)) return Status::unknown_peer;
  OperationId name = kNoOperation;
  slot = operations_.take(name);
  if (slot == nullptr) return Status::again;
  if (!admission_.admit(request.peer)) {
    const std::uint64_t index = index_of(name);
    operations_.give(std::span(&index, 1));
    return Status::again;
  }
  proto::SendRequest& asked = slot->request.emplace<proto::SendRequest>(to_protocol(request));
  asked.operation = name;
  return Status::ok;
}

Status ThreadedEndpoint::send(const SendRequest& request, OperationId& operation) {
  OperationSlot* slot = nullptr;
  if (const Status status = admit(request, slot); status != Status::ok) return status;
  operation = std::get<proto::SendRequest>(slot->request).operation;
  return post(operation);
}

Status ThreadedEndpoint::inject(const SendRequest& request) {
  if (request.bytes > injected_.most_bytes() && !is_closed()) return Status::invalid_argument;
  OperationSlot* slot = nullptr;
  if (const Status status = admit(request, slot); status != Status::ok) return status;
  auto& asked = std::get<proto::SendRequest>(slot->request);
  asked.data = injected_.copy(index_of(asked.operation), asked.data, asked.bytes);
  return post(asked.operation);
}

Status ThreadedEndpoint::receive(const ReceiveRequest& request, OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  if (request.peer != kAnyPeer && !is_known(request.peer)) return Status::unknown_peer;
  return post(to_protocol(request), operation);
}

Status ThreadedEndpoint::receive_claimed(MessageId message, const ClaimedRequest& request,
                                         OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  if (message == kNoMessage) return Status::unknown_operation;
  return post(to_protocol(message, request), operation);
}

Status ThreadedEndpoint::post(proto::ReceiveRequest request, OperationId& operation) {
  OperationSlot* const slot = operations_.take(request.operation);
  if (slot == nullptr) return Status::again;
  slot->request = request;
  operation = request.operation;
  return post(operation);
}

Status ThreadedEndpoint::post(OperationId operation) {
  const bool pushed = commands_.push(command_for(operation));
  HAWSER_ASSERT(pushed, "every operation has its entry");
  thread_.ring();
  return Status::ok;
}

Status ThreadedEndpoint::probe(const ProbeRequest& request, Envelope& envelope) {
  if (is_closed()) return Status::endpoint_closed;
  if (!names_own_channel(request)) return Status::invalid_argument;
  Status status = Status::ok;
  on_engine_thread([&](Time) {
    status = body_->protocol().probe(request.peer, request.channel, request.tag, ~request.ignore,
                                     envelope);
    if (status == Status::ok) set_known(envelope.peer, true);
  });
  return status;
}

Status ThreadedEndpoint::claim(const ProbeRequest& request, Envelope& envelope,
                               MessageId& message) {
  if (is_closed()) return Status::endpoint_closed;
  if (!names_own_channel(request)) return Status::invalid_argument;
  Status status = Status::ok;
  on_engine_thread([&](Time) {
    status = body_->protocol().claim(request.peer, request.channel, request.tag, ~request.ignore,
                                     envelope, message);
    if (status == Status::ok) set_known(envelope.peer, true);
  });
  return status;
}

Status ThreadedEndpoint::put_back(MessageId message) {
  if (!body_.is_here()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time now) { status = body_->protocol().put_back(now, message); });
  return status;
}

Status ThreadedEndpoint::cancel(OperationId operation) {
  if (!body_.is_here()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time now) { status = cancel(operation, now); });
  return status;
}

Status ThreadedEndpoint::disconnect(PeerId peer) {
  if (!body_.is_here()) return Status::endpoint_closed;
  if (!admission_.in_range(peer)) return Status::unknown_peer;
  Status status = Status::ok;
  // The peer stays known: what it has delivered can still be received under its name.
  on_engine_thread([&](Time now) { status = body_->protocol().disconnect(now, peer); });
  return status;
}

Status ThreadedEndpoint::register_memory(const void* data, std::uint64_t bytes,
                                         RegistrationId& registration, std::string* why) {
  if (is_closed()) return told_closed(why);
  const proto::MemoryRange range{static_cast<const std::byte*>(data), bytes};
  return add_registration(body_->registrations(), range, there(), registration, why);
}

Status ThreadedEndpoint::register_dmabuf(const DmabufRange& range, RegistrationId& registration,
                                         std::string* why) {
  if (is_closed()) return told_closed(why);
  return add_registration(body_->registrations(), range, there(), registration, why);
}

Status ThreadedEndpoint::deregister_memory(RegistrationId registration, std::string* why) {
  if (!body_.is_here()) return Status::endpoint_closed;
  return end_registration(body_->registrations(), registration, Registrations::End::now, there(),
                          why);
}

void ThreadedEndpoint::release_memory(RegistrationId registration) {
  if (!body_.is_here()) return;
  (void)end_registration(body_->registrations(), registration, Registrations::End::when_unread,
                         there(), nullptr);
}

std::size_t ThreadedEndpoint::take_completions(std::span<Completion> completions) {
  const std::size_t count = completions_.pop(completions.data(), completions.size());
  std::array<std::uint64_t, kBatch> indices;
  std::size_t finished = 0;
  for (Completion& completion : completions.first(count)) {
    if (!completion.released) continue;
    const std::uint32_t index = index_of(completion.operation);
    if (injected_.holds(index)) {
      injected_.forget(index);
      completion.operation = kNoOperation;
    }
    indices[finished++] = index;
    if (finished == indices.size()) {
      operations_.give(indices);
      finished = 0;
    }
  }
  operations_.give(std::span(indices).first(finished));
  return count;
}

// Arms the descriptor again. It is readable at once if completions are waiting, or else with the
// next one.
void ThreadedEndpoint::arm_descriptor() {
  if (!descriptor_used_.load(std::memory_order_relaxed)) return;
  consumer_bell_.disarm();
  consumer_bell_.arm();
  if (completions_.read_available() > 0) consumer_bell_.ring();
}

std::size_t ThreadedEndpoint::poll(std::span<Completion> completions) {
  if (!body_.is_here()) return 0;
  const std::size_t count = take_completions(completions);
  arm_descriptor();
  return count;
}

std::size_t ThreadedEndpoint::wait(std::span<Completion> completions, std::uint64_t timeout_ns) {
  ::pthread_testcancel();
  if (!body_.is_here()) return 0;
  const DescriptorArming armed_at_end(*this);
  std::size_t count = take_completions(completions);
  Time now = monotonic_now();
  const Time deadline = deadline_after(now, timeout_ns);
  idle_.progressed();  // time before this call does not count as idle
  while (count == 0 && now < deadline && !completions.empty()) {
    const IdleClock::Advice advice = idle_.pause(now);
    if (advice != IdleClock::Advice::block) {
      pause_briefly(advice, idle_);
    } else {
      const ArmedDoorbell bell(consumer_bell_);
      if (bell.is_armed() && completions_.read_available() == 0) {
        wait_readable(consumer_bell_.descriptor(), now, deadline);
      }
    }
    count = take_completions(completions);
    now = monotonic_now();
  }
  return count;
}

int ThreadedEndpoint::fd() const noexcept {
  // Completions from before this call rang no bell. Ring it now, so that the caller polls once.
  if (!descriptor_used_.exchange(true)) {
    consumer_bell_.arm();
    consumer_bell_.ring();
  }
  return consumer_bell_.descriptor();
}

void ThreadedEndpoint::close() {
  if (!body_.is_here()) return;
  const CancellationHold hold;
  closing_.store(true, std::memory_order_relaxed);
  on_engine_thread([&](Time now) { body_->protocol().close(now); });
  std::unique_lock lock(calls_mutex_);
  const std::chrono::nanoseconds turn(kMostOfATurn.ns);
  for (std::int64_t left = closing_limit(body_->tunables()).ns; left > 0; left -= turn.count()) {
    if (calls_changed_->wait_for(lock, turn, [&] { return closed_; })) return;
  }
  log_error("An endpoint was still not closed long after close_timeout");
}

EndpointStats ThreadedEndpoint::stats() const {
  if (!body_.is_here()) return {};
  EndpointStats stats;
  on_engine_thread([&](Time) { stats = body_->stats(); });
  return stats;
}

std::vector<NicStats> ThreadedEndpoint::nic_stats() const {
  if (!body_.is_here()) return {};
  std::vector<NicStats> stats;
  on_engine_thread([&](Time) { stats = body_->nic_stats(); });
  return stats;
}

std::vector<Verdict> ThreadedEndpoint::verdicts() const {
  if (!body_.is_here()) return {};
  std::vector<Verdict> verdicts;
  on_engine_thread([&](Time) { verdicts = body_->verdicts(); });
  return verdicts;
}

Status ThreadedEndpoint::peer_stats(PeerId peer, PeerStats& stats) const {
  if (!body_.is_here()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time now) { status = body_->protocol().peer_stats(now, peer, stats); });
  return status;
}

std::size_t ThreadedEndpoint::poll_events(std::span<Event> events) {
  if (!body_.is_here()) return 0;
  const std::lock_guard lock(events_mutex_);
  return events_.pop(events.data(), events.size());
}

void ThreadedEndpoint::inject_fault(std::size_t nic, std::string_view spec) {
  body_->post_fault(nic, spec);
  thread_.ring();
}

// ---- the engine thread

TurnResult ThreadedEndpoint::serve(Time now) {
  const bool commanded = execute_commands(now);
  TurnResult result;
  if (!body_->protocol().is_through()) result = body_->progress(now);
  const bool retried = waiting_.retry([&](std::uint32_t index) { return try_send(index, now); });
  const bool delivered = deliver();
  if (delivered) consumer_bell_.ring();
  if (body_->protocol().closed() && !closed_told_) {
    closed_told_ = true;
    // No turn reads the NICs any more. Late packets would keep their descriptors readable.
    thread_.ignore(body_->descriptors());
    const std::lock_guard lock(calls_mutex_);
    closed_ = true;
    calls_changed_->notify_all();
  }
  result.progressed |= commanded || retried || delivered;
  return result;
}

bool ThreadedEndpoint::has_commands() const {
  if (!commands_.empty()) return true;
  // Only a turn applies faults.
  return body_->has_posted_faults() && !body_->protocol().is_through();
}

bool ThreadedEndpoint::execute_commands(Time now) {
  std::array<std::uint64_t, kBatch> commands;
  std::uint64_t left = body_->tunables().command_budget;
  bool any = false;
  while (left > 0) {
    const std::size_t count =
        commands_.pop(std::span(commands).first(std::min<std::size_t>(left, commands.size())));
    if (count == 0) break;
    any = true;
    left -= count;
    for (const std::uint64_t command : std::span(commands).first(count)) {
      if ((command & kOperationMark) != 0) {
        execute(static_cast<std::uint32_t>(command >> 1), now);
      } else {
        auto* const call = reinterpret_cast<Call*>(command);
        call->run(call->context, now);
        const std::lock_guard lock(calls_mutex_);
        call->done = true;
        calls_changed_->notify_all();
      }
    }
  }
  return any;
}

void ThreadedEndpoint::execute(std::uint32_t index, Time now) {
  OperationSlot& slot = operations_.at(index);
  if (const auto* receive = std::get_if<proto::ReceiveRequest>(&slot.request)) {
    const Status status = body_->protocol().receive(now, *receive);
    if (status != Status::ok) refuse(slot, status);
    return;
  }
  const PeerId peer = std::get<proto::SendRequest>(slot.request).peer;
  if (waiting_.waits(peer) || !try_send(index, now)) waiting_.push(peer, index);
}

// A send that waits here has no message number yet, so the receiver need not hear of the
// cancellation.
Status ThreadedEndpoint::cancel(OperationId operation, Time now) {
  const Status status = body_->protocol().cancel(now, operation);
  const std::uint32_t index = index_of(operation);
  if (index >= operations_.capacity() || !waiting_.holds(index)) return status;
  OperationSlot& slot = operations_.at(index);
  if (std::get<proto::SendRequest>(slot.request).operation != operation) return status;
  waiting_.remove(index);
  refuse(slot, Status::cancelled);
  return Status::ok;
}

// Returns false if the send has to wait.
bool ThreadedEndpoint::try_send(std::uint32_t index, Time now) {
  OperationSlot& slot = operations_.at(index);
  const auto& request = std::get<proto::SendRequest>(slot.request);
  // The memory of injected sends is the endpoint's own, which the cache need not learn.
  const Status status =
      injected_.holds(index) ? body_->protocol().send(now, request) : body_->send(now, request);
  if (status == Status::again) return false;
  if (status != Status::ok) refuse(slot, status);
  return true;
}

// The protocol refuses an operation that the call has already accepted. The status therefore comes
// as its completion.
void ThreadedEndpoint::refuse(OperationSlot& slot, Status status) {
  Completion completion;
  completion.status = status;
  std::visit(
      [&](const auto& request) {
        completion.operation = request.operation;
        completion.user_data = request.options.user_data;
        completion.channel = request.channel;
        completion.peer = request.peer;
        completion.tag = request.tag;
      },
      slot.request);
  if (std::holds_alternative<proto::ReceiveRequest>(slot.request)) {
    completion.kind = OperationKind::receive;
  } else {
    completion.message_bytes = std::get<proto::SendRequest>(slot.request).bytes;
  }
  refused_ = true;
  deliver(completion);
}

bool ThreadedEndpoint::deliver() {
  bool any = std::exchange(refused_, false);
  // Events come first: a program that sees an operation fail then finds why its peer did. Events
  // that don't fit here stay in the protocol's own bounded queue.
  std::array<Event, kBatch> events;
  const std::size_t room = std::min(events.size(), events_.write_available());
  std::size_t count = body_->protocol().poll_events(std::span(events).first(room));
  any = any || count > 0;
  for (const Event& event : std::span(events).first(count)) {
    if (event.kind == Event::Kind::peer_established) set_known(event.peer, true);
    const bool pushed = events_.push(event);
    HAWSER_ASSERT(pushed);
  }
  std::array<Completion, kBatch> completions;
  while ((count = body_->protocol().poll_completions(completions)) > 0) {
    for (const Completion& completion : std::span(completions).first(count)) deliver(completion);
    any = true;
  }
  return any;
}

void ThreadedEndpoint::deliver(const Completion& completion) {
  OperationSlot& slot = operations_.at(index_of(completion.operation));
  if (!slot.finished) {
    slot.finished = true;
    if (const auto* send = std::get_if<proto::SendRequest>(&slot.request)) {
      admission_.finish(send->peer);
    }
  }
  const std::uint32_t index = index_of(completion.operation);
  if (injected_.holds(index) && !InjectedSends::is_told(completion)) {
    if (completion.released) {
      injected_.forget(index);
      const std::uint64_t free = index;
      operations_.give(std::span(&free, 1));
    }
    return;
  }
  // A caller may answer a peer whose message it has received, even before the peer's event has
  // found room.
  if (completion.kind == OperationKind::receive &&
      (completion.status == Status::ok || completion.status == Status::truncated)) {
    set_known(completion.peer, true);
  }
  const bool pushed = completions_.push(completion);
  HAWSER_ASSERT(pushed, "every operation has its places");
}

// Runs on the engine thread. A late completion or event may name a peer whose place belongs to
// another by now.
void ThreadedEndpoint::set_known(PeerId peer, bool known) {
  if (known && !body_->protocol().knows(peer)) return;
  std::atomic<PeerId>& there = known_[peer_place(peer)];
  const bool is_there = there.load(std::memory_order_relaxed) == peer;
  if (is_there != known) there.store(known ? peer : kNobody, std::memory_order_relaxed);
}

}  // namespace hawser::engine
