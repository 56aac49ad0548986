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

constexpr OperationKind kind_of(const WriteRequest&) { return OperationKind::write; }
constexpr OperationKind kind_of(const ReadRequest&) { return OperationKind::read; }
constexpr OperationKind kind_of(const AtomicRequest&) { return OperationKind::atomic; }
constexpr OperationKind kind_of(const FlushRequest&) { return OperationKind::flush; }

// Entries of the command ring beyond one per operation: for calls in progress.
constexpr std::size_t kCallRoom = 256;
constexpr std::size_t kEvents = 1024;

}  // namespace

ThreadedEndpoint::ThreadedEndpoint(const EngineSettings& settings, const EndpointConfig& config,
                                   EndpointRegistry& registry, EngineThread& thread)
    : registry_(registry),
      thread_(thread),
      body_(settings, config),
      operations_(settings.tunables.max_operations),
      injected_(settings.tunables.max_operations, config.inject_bytes),
      lists_(settings.tunables.max_operations),
      admission_(settings.tunables.max_peers, settings.tunables.max_messages_per_peer),
      commands_(settings.tunables.max_operations + kCallRoom, WordRing::Consumers::one),
      known_(std::make_unique<std::atomic<PeerId>[]>(settings.tunables.max_peers)),
      waiting_(settings.tunables.max_peers, settings.tunables.max_operations),
      waiting_one_sided_(settings.tunables.max_peers, settings.tunables.max_operations),
      // An operation whose buffer is released late has a second completion.
      completions_(2 * settings.tunables.max_operations + kNotices),
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

Status ThreadedEndpoint::admit(PeerId peer, OperationSlot*& slot, OperationId& operation) {
  if (!is_known(peer)) return Status::unknown_peer;
  slot = operations_.take(operation);
  if (slot == nullptr) return Status::again;
  if (admission_.admit(peer)) return Status::ok;
  const std::uint64_t index = index_of(operation);
  operations_.give(std::span(&index, 1));
  return Status::again;
}

Status ThreadedEndpoint::admit(const SendRequest& request, OperationSlot*& slot) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  OperationId name = kNoOperation;
  const Status status = admit(request.peer, slot, name);
  if (status != Status::ok) return status;
  proto::SendRequest& asked = slot->request.emplace<proto::SendRequest>(to_protocol(request));
  asked.operation = name;
  lists_.keep(asked, request.pieces);
  return Status::ok;
}

Status ThreadedEndpoint::send(const SendRequest& request, OperationId& operation) {
  OperationSlot* slot = nullptr;
  if (const Status status = admit(request, slot); status != Status::ok) return status;
  operation = std::get<proto::SendRequest>(slot->request).operation;
  return post(operation);
}

Status ThreadedEndpoint::inject(const SendRequest& request) {
  if (!is_closed() && !injected_.takes(request)) return Status::invalid_argument;
  OperationSlot* slot = nullptr;
  if (const Status status = admit(request, slot); status != Status::ok) return status;
  auto& asked = std::get<proto::SendRequest>(slot->request);
  injected_.copy(index_of(asked.operation), request, asked);
  asked.pieces = nullptr;
  return post(asked.operation);
}

Status ThreadedEndpoint::receive(const ReceiveRequest& request, OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  if (request.peer != kAnyPeer && !is_known(request.peer)) return Status::unknown_peer;
  return post(to_protocol(request), request.pieces, operation);
}

Status ThreadedEndpoint::receive_claimed(MessageId message, const ClaimedRequest& request,
                                         OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  if (message == kNoMessage) return Status::unknown_operation;
  return post(to_protocol(message, request), request.pieces, operation);
}

Status ThreadedEndpoint::post(proto::ReceiveRequest request, std::span<const ReceivePiece> pieces,
                              OperationId& operation) {
  OperationSlot* const slot = operations_.take(request.operation);
  if (slot == nullptr) return Status::again;
  lists_.keep(request, pieces);
  slot->request = request;
  operation = request.operation;
  return post(operation);
}

Status ThreadedEndpoint::post(OperationId operation) {
  const bool pushed = commands_.push(std::uint64_t{index_of(operation)} << 1 | kOperationMark);
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

Status ThreadedEndpoint::expose(const ExposeRequest& request, RegionId& region) {
  if (is_closed()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time) { status = body_->expose(request, region); });
  return status;
}

Status ThreadedEndpoint::region_key(RegionId region, RegionKey& key) const {
  if (!body_.is_here()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time) { status = body_->protocol().region_key(region, key); });
  return status;
}

Status ThreadedEndpoint::region_stats(RegionId region, RegionStats& stats) const {
  if (!body_.is_here()) return Status::endpoint_closed;
  Status status = Status::ok;
  on_engine_thread([&](Time) { status = body_->protocol().region_stats(region, stats); });
  return status;
}

// The region is withdrawn when this returns.
Status ThreadedEndpoint::withdraw(RegionId region, std::uint64_t user_data,
                                  OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  OperationId name = kNoOperation;
  OperationSlot* const slot = operations_.take(name);
  if (slot == nullptr) return Status::again;
  slot->request =
      OneSidedMark{.operation = name, .user_data = user_data, .kind = OperationKind::withdraw};
  Status status = Status::ok;
  on_engine_thread(
      [&](Time now) { status = body_->protocol().withdraw(now, region, name, user_data); });
  if (status == Status::ok) {
    operation = name;
  } else {
    const std::uint64_t index = index_of(name);
    operations_.give(std::span(&index, 1));
  }
  return status;
}

template <class Request>
Status ThreadedEndpoint::post_one_sided(const Request& request, OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!names_own_channel(request) || !proto::can_be_executed(request))
    return Status::invalid_argument;
  OperationSlot* slot = nullptr;
  OperationId name = kNoOperation;
  const Status status = admit(request.peer, slot, name);
  if (status != Status::ok) return status;
  slot->request =
      OneSidedMark{name, request.user_data, request.peer, request.channel, kind_of(request)};
  operations_.put_request(index_of(name), request);
  operation = name;
  return post(operation);
}

Status ThreadedEndpoint::write(const WriteRequest& request, OperationId& operation) {
  return post_one_sided(request, operation);
}
Status ThreadedEndpoint::read(const ReadRequest& request, OperationId& operation) {
  return post_one_sided(request, operation);
}
Status ThreadedEndpoint::atomic(const AtomicRequest& request, OperationId& operation) {
  return post_one_sided(request, operation);
}
Status ThreadedEndpoint::flush_channel(const FlushRequest& request, OperationId& operation) {
  return post_one_sided(request, operation);
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
  std::uint64_t notices = 0;
  for (Completion& completion : completions.first(count)) {
    if (completion.kind == OperationKind::notice) ++notices;
    if (completion.kind == OperationKind::notice || !completion.released) continue;
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
  if (notices > 0) {
    notices_taken_.fetch_add(notices, std::memory_order_seq_cst);
    if (notices_wait_.exchange(false, std::memory_order_seq_cst)) thread_.ring();
  }
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

}  // namespace hawser::engine
