// SPDX-License-Identifier: Apache-2.0
#include "engine/inline_endpoint.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/cancellation.hpp"
#include "engine/clock.hpp"
#include "engine/deadlines.hpp"
#include "engine/log.hpp"
#include "engine/registration/calls.hpp"
#include "engine/requests.hpp"

namespace hawser::engine {

using proto::Time;
using proto::TurnResult;

InlineEndpoint::InlineEndpoint(const EngineSettings& settings, const EndpointConfig& config,
                               EndpointRegistry& registry)
    : registry_(registry),
      body_(settings, config),
      names_(settings.tunables.max_operations),
      injected_(settings.tunables.max_operations, config.inject_bytes),
      lists_(settings.tunables.max_operations),
      waiting_(static_cast<std::uint32_t>(2 * settings.tunables.max_operations)),
      idle_(settings.tunables),
      loop_(sources_) {
  for (const int fd : body_->descriptors()) sources_.add(fd);
  sources_.add(bell_.descriptor());
  registry_.add(*this);
}

InlineEndpoint::~InlineEndpoint() {
  if (!body_.is_here()) return;
  registry_.remove(*this);
  InlineEndpoint::close();
}

Status InlineEndpoint::connect(std::span<const std::byte> address, PeerId& peer) {
  if (!body_.is_here()) return Status::endpoint_closed;
  const CancellationHold hold;
  const Time now = monotonic_now();
  const Status status = body_->protocol().connect(now, address, peer);
  loop_.wake_at(now, now);
  return status;
}

template <class Submit>
Status InlineEndpoint::post(OperationId& name, Submit submit) {
  const Time now = monotonic_now();
  // Without a free name the operation can't be accepted. Other errors of the call are still
  // reported first.
  const bool may_begin = names_.any_free();
  name = may_begin ? names_.take() : kNoOperation;
  const Status status = submit(now);
  if (status == Status::ok) {
    loop_.wake_at(now, now);
  } else if (may_begin) {
    names_.give(name);
  }
  return status;
}

Status InlineEndpoint::send(const SendRequest& request, OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  proto::SendRequest asked = to_protocol(request);
  const Status status = post(asked.operation, [&](Time now) {
    lists_.keep(asked, request.pieces);
    return body_->send(now, asked);
  });
  if (status == Status::ok) operation = asked.operation;
  return status;
}

Status InlineEndpoint::inject(const SendRequest& request) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request) || !injected_.takes(request)) return Status::invalid_argument;
  proto::SendRequest asked = to_protocol(request);
  return post(asked.operation, [&](Time now) {
    if (asked.operation == kNoOperation) return body_->protocol().send(now, asked);
    const std::uint32_t index = index_of(asked.operation);
    injected_.copy(index, request, asked);
    const Status status = body_->protocol().send(now, asked);
    if (status != Status::ok) injected_.forget(index);
    return status;
  });
}

Status InlineEndpoint::receive(const ReceiveRequest& request, OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  return receive(to_protocol(request), request.pieces, operation);
}

Status InlineEndpoint::receive_claimed(MessageId message, const ClaimedRequest& request,
                                       OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  if (!is_valid(request)) return Status::invalid_argument;
  if (message == kNoMessage) return Status::unknown_operation;
  return receive(to_protocol(message, request), request.pieces, operation);
}

Status InlineEndpoint::receive(proto::ReceiveRequest request, std::span<const ReceivePiece> pieces,
                               OperationId& operation) {
  const Status status = post(request.operation, [&](Time now) {
    lists_.keep(request, pieces);
    return body_->protocol().receive(now, request);
  });
  if (status == Status::ok) operation = request.operation;
  return status;
}

Status InlineEndpoint::probe(const ProbeRequest& request, Envelope& envelope) {
  if (is_closed()) return Status::endpoint_closed;
  if (!names_own_channel(request)) return Status::invalid_argument;
  return body_->protocol().probe(request.peer, request.channel, request.tag, ~request.ignore,
                                 envelope);
}

Status InlineEndpoint::claim(const ProbeRequest& request, Envelope& envelope, MessageId& message) {
  if (is_closed()) return Status::endpoint_closed;
  if (!names_own_channel(request)) return Status::invalid_argument;
  return body_->protocol().claim(request.peer, request.channel, request.tag, ~request.ignore,
                                 envelope, message);
}

Status InlineEndpoint::put_back(MessageId message) {
  if (!body_.is_here()) return Status::endpoint_closed;
  const Time now = monotonic_now();
  const Status status = body_->protocol().put_back(now, message);
  loop_.wake_at(now, now);
  return status;
}

Status InlineEndpoint::expose(const ExposeRequest& request, RegionId& region) {
  return is_closed() ? Status::endpoint_closed : body_->expose(request, region);
}

Status InlineEndpoint::region_key(RegionId region, RegionKey& key) const {
  return body_.is_here() ? body_->protocol().region_key(region, key) : Status::endpoint_closed;
}

Status InlineEndpoint::region_stats(RegionId region, RegionStats& stats) const {
  return body_.is_here() ? body_->protocol().region_stats(region, stats) : Status::endpoint_closed;
}

Status InlineEndpoint::withdraw(RegionId region, std::uint64_t user_data, OperationId& operation) {
  if (is_closed()) return Status::endpoint_closed;
  OperationId name = kNoOperation;
  const Status status = post(
      name, [&](Time now) { return body_->protocol().withdraw(now, region, name, user_data); });
  if (status == Status::ok) operation = name;
  return status;
}

template <class Request, class Submit>
Status InlineEndpoint::post_one_sided(const Request& request, OperationId& operation,
                                      Submit submit) {
  if (is_closed()) return Status::endpoint_closed;
  if (!names_own_channel(request)) return Status::invalid_argument;
  OperationId name = kNoOperation;
  const Status status = post(name, [&](Time now) { return submit(now, name); });
  if (status == Status::ok) operation = name;
  return status;
}

Status InlineEndpoint::write(const WriteRequest& request, OperationId& operation) {
  return post_one_sided(request, operation, [&](Time now, OperationId name) {
    return body_->write(now, name, request);
  });
}

Status InlineEndpoint::read(const ReadRequest& request, OperationId& operation) {
  return post_one_sided(request, operation, [&](Time now, OperationId name) {
    return body_->protocol().read(now, name, request);
  });
}

Status InlineEndpoint::atomic(const AtomicRequest& request, OperationId& operation) {
  return post_one_sided(request, operation, [&](Time now, OperationId name) {
    return body_->protocol().atomic(now, name, request);
  });
}

Status InlineEndpoint::flush_channel(const FlushRequest& request, OperationId& operation) {
  return post_one_sided(request, operation, [&](Time now, OperationId name) {
    return body_->protocol().flush_channel(now, name, request);
  });
}

Status InlineEndpoint::cancel(OperationId operation) {
  if (!body_.is_here()) return Status::endpoint_closed;
  const Time now = monotonic_now();
  const Status status = body_->protocol().cancel(now, operation);
  loop_.wake_at(now, now);
  return status;
}

void InlineEndpoint::flush() {
  if (!body_.is_here()) return;
  const Time now = monotonic_now();
  body_->transmit(now);
  loop_.wake_at(now, now);
}

Status InlineEndpoint::disconnect(PeerId peer) {
  if (!body_.is_here()) return Status::endpoint_closed;
  const Time now = monotonic_now();
  const Status status = body_->protocol().disconnect(now, peer);
  loop_.wake_at(now, now);
  return status;
}

bool InlineEndpoint::is_untold(const Completion& completion) const {
  return injected_.holds(index_of(completion.operation)) && !InjectedSends::is_told(completion);
}

void InlineEndpoint::finish(const Completion& completion) {
  if (!completion.released) return;
  injected_.forget(index_of(completion.operation));
  names_.give(completion.operation);
}

std::size_t InlineEndpoint::poll_completions(std::span<Completion> room) {
  std::size_t count = 0;
  while (count < room.size() && !waiting_.empty()) room[count++] = waiting_.pop();
  return count + body_->protocol().poll_completions(room.subspan(count));
}

void InlineEndpoint::finish_untold() {
  Completion next;
  while (body_->protocol().poll_completions(std::span(&next, 1)) == 1) {
    if (is_untold(next)) {
      finish(next);
    } else {
      waiting_.put(next);
    }
  }
}

std::size_t InlineEndpoint::take_completions(std::span<Completion> completions) {
  if (completions.empty()) finish_untold();
  std::size_t kept = 0;
  for (std::size_t count = 1; count > 0 && kept < completions.size();) {
    const std::span<Completion> room = completions.subspan(kept);
    count = poll_completions(room);
    for (const Completion& completion : room.first(count)) {
      const bool is_told = !is_untold(completion);
      const bool is_injected = injected_.holds(index_of(completion.operation));
      finish(completion);
      if (!is_told) continue;
      completions[kept] = completion;
      if (is_injected) completions[kept].operation = kNoOperation;
      ++kept;
    }
    if (count < room.size()) break;
  }
  return kept + body_->protocol().poll_notices(completions.subspan(kept));
}

TurnResult InlineEndpoint::progress(Time now) {
  const TurnResult result = body_->progress(now);
  if (!ignores_nics_ && body_->protocol().closed()) {
    ignores_nics_ = true;
    // No turn reads the NICs any more. Late packets would keep their descriptors readable.
    for (const int fd : body_->descriptors()) sources_.remove(fd);
  }
  return result;
}

std::size_t InlineEndpoint::turn(Time now, std::span<Completion> completions, TurnResult& result) {
  if (!body_->protocol().is_through()) result = progress(now);
  return take_completions(completions);
}

std::size_t InlineEndpoint::poll(std::span<Completion> completions) {
  if (!body_.is_here()) return 0;
  const Time now = monotonic_now();
  TurnResult result;
  std::size_t count = turn(now, completions, result);
  bool progressed = result.progressed;
  // More packets, or more completions than there was room for, may be waiting. If not, the caller
  // may block on the descriptor next.
  const auto more = [&] { return result.progressed || (count > 0 && count == completions.size()); };
  if (!more() && loop_.is_used() && body_->arm()) {
    count += turn(now, completions.subspan(count), result);
    progressed = progressed || result.progressed;
  }
  if (count > 0 || progressed) idle_.progressed();
  loop_.wake_at(now, more() ? now : result.wake_at);
  return count;
}

std::size_t InlineEndpoint::wait(std::span<Completion> completions, std::uint64_t timeout_ns) {
  ::pthread_testcancel();
  if (!body_.is_here()) return 0;
  const LoopWaking poll_is_due_at_end(loop_);
  Time now = monotonic_now();
  const Time deadline = deadline_after(now, timeout_ns);
  for (;;) {
    TurnResult result;
    const std::size_t count = turn(now, completions, result);
    if (count > 0 || result.progressed) idle_.progressed();
    if (count > 0 || now >= deadline || body_->protocol().is_through()) return count;
    if (!result.progressed) pause(now, proto::earlier(result.wake_at, deadline));
    now = monotonic_now();
  }
}

void InlineEndpoint::pause(Time now, Time until) {
  const IdleClock::Advice advice = idle_.pause(now);
  if (advice != IdleClock::Advice::block) {
    pause_briefly(advice, idle_);
    return;
  }
  if (body_->arm()) return;  // must look once more
  const ArmedDoorbell bell(bell_);
  if (bell.is_armed() && !body_->has_posted_faults()) sources_.wait(now, until);
}

void InlineEndpoint::close() {
  if (!body_.is_here()) return;
  const CancellationHold hold;
  closing_ = true;
  Time now = monotonic_now();
  body_->protocol().close(now);
  proto::Duration left = closing_limit(body_->tunables());
  for (;;) {
    const TurnResult result = progress(now);
    if (body_->protocol().closed()) break;
    if (left.ns <= 0) {
      log_error("An endpoint was still not closed long after close_timeout");
      return;
    }
    if (result.progressed) {
      idle_.progressed();
    } else {
      pause(now, proto::earlier(result.wake_at, now + left));
    }
    const Time before = std::exchange(now, monotonic_now());
    left = left - std::min(now - before, kMostOfATurn);
  }
  loop_.wake_at(now, now);
}

EndpointStats InlineEndpoint::stats() const {
  return body_.is_here() ? body_->stats() : EndpointStats{};
}

std::vector<NicStats> InlineEndpoint::nic_stats() const {
  return body_.is_here() ? body_->nic_stats() : std::vector<NicStats>{};
}

std::vector<Verdict> InlineEndpoint::verdicts() const {
  return body_.is_here() ? body_->verdicts() : std::vector<Verdict>{};
}

Status InlineEndpoint::peer_stats(PeerId peer, PeerStats& stats) const {
  if (!body_.is_here()) return Status::endpoint_closed;
  return body_->protocol().peer_stats(monotonic_now(), peer, stats);
}

std::size_t InlineEndpoint::poll_events(std::span<Event> events) {
  if (!body_.is_here()) return 0;
  return body_->protocol().poll_events(events);
}

namespace {

constexpr auto kHere = [](auto function) { function(); };

}  // namespace

Status InlineEndpoint::register_memory(const void* data, std::uint64_t bytes,
                                       RegistrationId& registration, std::string* why) {
  if (!body_.is_here() || body_->protocol().closed()) return told_closed(why);
  const proto::MemoryRange range{static_cast<const std::byte*>(data), bytes};
  return add_registration(body_->registrations(), range, kHere, registration, why);
}

Status InlineEndpoint::register_dmabuf(const DmabufRange& range, RegistrationId& registration,
                                       std::string* why) {
  if (!body_.is_here() || body_->protocol().closed()) return told_closed(why);
  return add_registration(body_->registrations(), range, kHere, registration, why);
}

Status InlineEndpoint::deregister_memory(RegistrationId registration, std::string* why) {
  if (!body_.is_here()) return Status::endpoint_closed;
  return end_registration(body_->registrations(), registration, Registrations::End::now, kHere,
                          why);
}

void InlineEndpoint::release_memory(RegistrationId registration) {
  if (!body_.is_here()) return;
  (void)end_registration(body_->registrations(), registration, Registrations::End::when_unread,
                         kHere, nullptr);
}

void InlineEndpoint::inject_fault(std::size_t nic, std::string_view spec) {
  body_->post_fault(nic, spec);
  bell_.ring();
}

}  // namespace hawser::engine
