// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/application.hpp"

#include <algorithm>
#include <array>

#include "proto/base/assert.hpp"
#include "proto/base/random.hpp"

namespace hawser::sim {

using proto::Duration;

namespace {

constexpr std::uint8_t kMostTries = 9;  // after this many the wait grows no more
constexpr std::byte kUntouched{0xa5};
constexpr std::uint16_t kChannels[] = {0, 1, kCollectiveChannel};

// Cuts the bytes at places that follow from the seed. Some pieces are empty.
template <class Piece>
std::vector<Piece> cut(std::span<std::byte> bytes, std::uint32_t count, std::uint64_t seed) {
  proto::Random random(seed);
  std::vector<Piece> pieces;
  while (pieces.size() + 1 < count) {
    const auto size = static_cast<std::size_t>(random.below(bytes.size() + 1));
    pieces.push_back({bytes.data(), size});
    bytes = bytes.subspan(size);
  }
  pieces.push_back({bytes.data(), bytes.size()});
  return pieces;
}

}  // namespace

Application::Application(const Plan& plan, World& world, Oracle& oracle)
    : plan_(plan),
      world_(world),
      oracle_(oracle),
      one_sided_(plan, world, oracle),
      processes_(plan.hosts.size()),
      record_of_(plan.receives.size(), kNoRecord),
      send_tries_(plan.messages.size(), 0),
      receive_tries_(plan.receives.size(), 0),
      drain_tries_(plan.hosts.size(), 0),
      one_sided_tries_(plan.one_sided.size(), 0),
      sent_as_(plan.messages.size(), kNoOperation),
      undecided_(plan.messages.size() + plan.receives.size() + plan.one_sided.size()),
      answers_(plan.hosts.size() * plan.hosts.size(), 0) {
  for (std::uint32_t i = 0; i < plan.messages.size(); ++i) later(Act::send, i, plan.messages[i].at);
  for (std::uint32_t i = 0; i < plan.receives.size(); ++i) {
    later(Act::receive, i, plan.receives[i].at);
  }
  for (std::uint32_t i = 0; i < plan.hosts.size(); ++i) later(Act::drain, i, plan.heals_at);
  for (std::uint32_t i = 0; i < plan.closings.size(); ++i)
    later(Act::close, i, plan.closings[i].at);
  for (std::uint32_t i = 0; i < plan.calls.size(); ++i) later(Act::call, i, plan.calls[i].at);
  for (std::uint32_t i = 0; i < plan.one_sided.size(); ++i)
    later(Act::one_sided, i, plan.one_sided[i].at);
}

void Application::later(Act act, std::uint32_t index, Duration in) {
  world_.events().at(world_.events().now() + in, *this,
                     static_cast<std::uint64_t>(act) << 32 | index);
}

void Application::again(Act act, std::uint32_t index, std::uint8_t& tries) {
  later(act, index, kAgain * (std::int64_t{1} << tries));
  if (tries < kMostTries) ++tries;
}

// The host whose program does that; kAnyHost: the judge does it.
std::uint32_t Application::caller(Act act, std::uint32_t index) {
  switch (act) {
    case Act::send:
    case Act::cancel_send: return plan_.messages[index].from;
    case Act::receive:
    case Act::end_claim: return plan_.receives[index].host;
    case Act::cancel_receive: return oracle_.receives()[index].plan.host;
    case Act::drain: return index;
    case Act::close: return plan_.closings[index].host;
    case Act::call: return plan_.calls[index].host;
    case Act::one_sided: return plan_.one_sided[index].from;
    case Act::has_closed:
    case Act::has_heard: break;
  }
  return kAnyHost;
}

void Application::on_event(proto::Time, std::uint64_t what) {
  const auto index = static_cast<std::uint32_t>(what);
  const auto act = static_cast<Act>(what >> 32);
  const std::uint32_t host = caller(act, index);
  if (host != kAnyHost && world_.is_running(host) && world_.host(host).stands()) {
    return later(act, index, kAgain * 8);
  }
  switch (act) {
    case Act::send: return do_send(index);
    case Act::receive: return do_receive(index);
    case Act::cancel_send: return do_cancel_send(index);
    case Act::cancel_receive: return do_cancel_receive(index);
    case Act::drain: return drain(index);
    case Act::close: return do_close(index);
    case Act::has_closed: return demand_closed(index);
    case Act::call: return do_call(index);
    case Act::end_claim: return end_claim(index);
    case Act::has_heard: return demand_hearing(index);
    case Act::one_sided: return do_one_sided(index);
  }
}

// The state of the process that runs now; that of an older process is gone with it.
Application::Process& Application::process(std::uint32_t host) {
  Process& process = processes_[host];
  if (process.operations.empty() || process.life != world_.life(host)) {
    process = {};
    process.life = world_.life(host);
    process.operations.resize(plan_.tunables.max_operations);
    for (auto i = static_cast<std::uint32_t>(process.operations.size()); i-- > 0;) {
      process.free.push_back(i);
    }
  }
  return process;
}

// The name stays free until the endpoint has taken the call.
OperationId Application::name(Process& process, bool is_send, std::uint32_t record) {
  if (process.free.empty()) return kNoOperation;
  const std::uint32_t index = process.free.back();
  process.operations[index] = {.is_send = is_send, .record = record};
  return OperationId{++process.made << 32 | index};
}

void Application::connect(std::uint32_t from, std::uint32_t to) {
  answers_[from * world_.hosts() + to] = 0;
  const Status status = world_.connect(from, to);
  if (status == Status::ok) {
    learn_name(from, world_.peer(from, to), to);
    // The call may have ended the session with an earlier process.
    take_events(from);
    take_completions(from);
    oracle_.on_calling(from, to, world_.since_start());
  } else if (status == Status::again) {
    world_.scribe().count_place(PlaceCell::none_here);
    std::string unjust = oracle_.places().on_none(from, to, world_.since_start());
    if (!unjust.empty()) oracle_.accuse(std::move(unjust));
  }
}

// The name of the peer, connected anew if it has failed or was started again.
PeerId Application::reach(std::uint32_t from, std::uint32_t to) {
  if (!world_.is_running(to)) return world_.peer(from, to);
  if (world_.peer(from, to) == kAnyPeer) connect(from, to);
  return world_.peer(from, to);
}

proto::SendRequest Application::request_of(std::uint32_t index, PeerId peer) {
  const MessagePlan& message = plan_.messages[index];
  SendRecord& record = oracle_.send(index);
  if (record.bytes.size() != message.bytes) {
    record.bytes = bytes_of_message(plan_.seed, index, message.bytes);
  }
  proto::SendRequest request;
  request.operation = name(process(message.from), true, index);
  request.peer = peer;
  request.channel = message.channel;
  request.tag = message.tag;
  request.data = record.bytes.data();
  request.bytes = record.bytes.size();
  if (message.pieces > 0) {
    request.pieces = &gathers_[index];
    request.pieces->assign(cut<SendPiece>(record.bytes, message.pieces, plan_.seed + index));
  }
  request.options.level = message.level;
  request.options.immediate = index;
  request.options.hint = message.hint;
  return request;
}

void Application::do_send(std::uint32_t index) {
  const MessagePlan& message = plan_.messages[index];
  SendRecord& record = oracle_.send(index);
  if (!world_.is_running(message.from)) {
    if (world_.is_healed())
      --undecided_;  // it never will be posted
    else
      again(Act::send, index, send_tries_[index]);
    return;
  }
  const PeerId peer = reach(message.from, message.to);
  if (peer == kAnyPeer) {
    if ((world_.is_healed() && !world_.is_running(message.to)) || gives_up(message.at))
      --undecided_;
    else
      again(Act::send, index, send_tries_[index]);
    return;
  }
  Process& sender = process(message.from);
  const proto::SendRequest request = request_of(index, peer);
  Host& host = world_.host(message.from);
  const Status status =
      request.operation == kNoOperation ? Status::again : host.endpoint().send(host.now(), request);
  host.wake();
  if (status == Status::ok) {
    sender.free.pop_back();
    record.posted = true;
    record.life = sender.life;
    record.order = sender.posts++;
    record.session = oracle_.sessions().ends(message.from, message.to);
    record.at = world_.since_start();
    oracle_.places().on_posted(message.from, message.to, record.at);
    sent_as_[index] = request.operation;
    note_send(index, request.operation);
    note_message_size(message.from, message.to, peer);
    --undecided_;
    ++open_;
    if (message.cancelled_after.ns > 0) later(Act::cancel_send, index, message.cancelled_after);
    return;
  }
  const bool ended =
      is_peer_failure(status) || status == Status::endpoint_closed ||
      (status == Status::unknown_peer && is_forgotten(message.from, message.to, peer));
  const bool is_vain = sender.closing || !world_.is_running(message.to) || gives_up(message.at);
  if (ended && world_.is_healed() && is_vain) {
    --undecided_;
    return;
  }
  if (ended && !sender.closing && world_.is_running(message.to)) {
    connect(message.from, message.to);
  } else if (status != Status::again && !ended) {
    oracle_.accuse("a send returned " + std::string(to_string(status)));
  }
  again(Act::send, index, send_tries_[index]);
}

void Application::do_receive(std::uint32_t index) {
  const ReceivePlan& plan = plan_.receives[index];
  const bool gone = !world_.is_running(plan.host);
  if (gone || (plan.claims && world_.is_healed())) {
    if (gone && !world_.is_healed()) return again(Act::receive, index, receive_tries_[index]);
    --undecided_;
    return;
  }
  proto::Endpoint& endpoint = world_.host(plan.host).endpoint();
  const PeerId from = plan.from == kAnyHost ? kAnyPeer : reach(plan.host, plan.from);
  if (plan.from != kAnyHost && from == kAnyPeer) {
    if (!world_.is_healed()) return again(Act::receive, index, receive_tries_[index]);
    --undecided_;
    return;
  }
  MessageId claimed = kNoMessage;
  Envelope envelope;
  if (plan.claims || plan.puts_back) {
    const Status status =
        endpoint.claim(from, plan.channel, plan.tag, plan.mask, envelope, claimed);
    if (status == Status::ok) check_name(plan.host, envelope);
    if (status == Status::unknown_peer && is_forgotten(plan.host, plan.from, from) &&
        world_.is_running(plan.from)) {
      connect(plan.host, plan.from);
    }
    if (status == Status::ok && plan.held.ns > 0) return hold_claim(index, envelope, claimed);
    if (status == Status::ok && plan.puts_back) {
      (void)endpoint.put_back(world_.host(plan.host).now(), claimed);
      world_.host(plan.host).wake();
    }
    if (plan.puts_back) {
      --undecided_;
      return;
    }
    if (status != Status::ok) return again(Act::receive, index, receive_tries_[index]);
  }
  if (record_of_[index] == kNoRecord) make_record(index);
  if (!post_receive(record_of_[index], claimed)) {
    if (claimed != kNoMessage) (void)endpoint.put_back(world_.host(plan.host).now(), claimed);
    return again(Act::receive, index, receive_tries_[index]);
  }
  --undecided_;
  if (plan.cancelled_after.ns > 0 && claimed == kNoMessage) {
    later(Act::cancel_receive, record_of_[index], plan.cancelled_after);
  }
}

void Application::make_record(std::uint32_t index) {
  record_of_[index] = static_cast<std::uint32_t>(oracle_.receives().size());
  oracle_.receives().emplace_back().plan = plan_.receives[index];
  received_as_.push_back(kNoOperation);
}

// Returns false if the receive can't be posted now.
bool Application::post_receive(std::uint32_t index, MessageId claimed) {
  ReceiveRecord& record = oracle_.receives()[index];
  const ReceivePlan& plan = record.plan;
  Process& receiver = process(plan.host);
  if (!record.buffer.is_made()) record.buffer.make(plan.bytes, kUntouched);
  proto::ReceiveRequest request;
  request.operation = name(receiver, false, index);
  if (request.operation == kNoOperation) return false;
  request.peer = plan.from == kAnyHost ? kAnyPeer : world_.peer(plan.host, plan.from);
  request.channel = plan.channel;
  request.tag = plan.tag;
  request.mask = plan.mask;
  request.data = record.buffer.bytes().data();
  request.bytes = record.buffer.bytes().size();
  if (plan.pieces > 0) {
    proto::ScatterList& list = scatters_[index];
    list.assign(cut<ReceivePiece>(record.buffer.bytes(), plan.pieces, plan_.seed - index));
    request.pieces = &list;
  }
  request.claimed = claimed;
  Host& host = world_.host(plan.host);
  const Status status = host.endpoint().receive(host.now(), request);
  host.wake();
  if (status != Status::ok) {
    const bool ended =
        is_peer_failure(status) || status == Status::endpoint_closed ||
        (status == Status::unknown_peer && is_forgotten(plan.host, plan.from, request.peer));
    if (ended && world_.is_healed() && gives_up(plan.at)) return true;
    if (ended && !receiver.closing && plan.from != kAnyHost && world_.is_running(plan.from)) {
      connect(plan.host, plan.from);
    } else if (ended && world_.is_healed()) {
      return true;  // it never will be posted, and nobody needs it
    } else if (status != Status::again && !ended &&
               !(status == Status::unknown_operation && claimed != kNoMessage)) {
      oracle_.accuse("a receive returned " + std::string(to_string(status)));
    }
    return false;
  }
  receiver.free.pop_back();
  oracle_.on_receive_posted(plan.host, world_.since_start());
  record.posted = true;
  record.life = receiver.life;
  record.order = receiver.posts++;
  record.at = world_.since_start();
  if (plan.from != kAnyHost) {
    record.session = oracle_.sessions().ends(plan.host, plan.from);
    oracle_.places().on_posted(plan.host, plan.from, record.at);
  }
  record.clock = host.now();
  received_as_[index] = request.operation;
  note(Happening::Kind::posted_receive, plan.host, index,
       {.endpoint_id = plan.from == kAnyHost ? 0 : std::uint64_t{plan.from} + 1,
        .operation = static_cast<std::uint64_t>(request.operation),
        .message = plan.tag,
        .bytes = static_cast<std::uint32_t>(plan.bytes)});
  ++open_;
  return true;
}

void Application::do_cancel_send(std::uint32_t index) {
  const MessagePlan& message = plan_.messages[index];
  SendRecord& record = oracle_.send(index);
  if (record.completion || record.gone || !world_.is_running(message.from)) return;
  if (record.life != world_.life(message.from)) return;
  Host& host = world_.host(message.from);
  record.cancel_asked = true;
  note(Happening::Kind::cancels_send, message.from, index);
  (void)host.endpoint().cancel(host.now(), sent_as_[index]);
  host.wake();
}

void Application::do_cancel_receive(std::uint32_t index) {
  ReceiveRecord& record = oracle_.receives()[index];
  const std::uint32_t at = record.plan.host;
  if (record.completion || record.gone || !world_.is_running(at)) return;
  if (record.life != world_.life(at)) return;
  Host& host = world_.host(at);
  record.cancel_asked = true;
  note(Happening::Kind::cancels_receive, at, index);
  (void)host.endpoint().cancel(host.now(), received_as_[index]);
  host.wake();
}

bool Application::all_sends_ended() const {
  for (std::uint32_t i = 0; i < plan_.messages.size(); ++i) {
    const SendRecord& send = oracle_.send(i);
    if (send.posted && !send.gone && !send.released) return false;
  }
  return true;
}

// After the faults, posts a receive for every message that lies there without one. When no send is
// pending any more, it cancels the remaining receives.
void Application::drain(std::uint32_t at) {
  if (is_done()) return;
  if (!world_.is_running(at) || world_.host(at).is_paused() || process(at).closing) {
    return again(Act::drain, at, drain_tries_[at]);
  }
  const bool found = receive_unexpected(at);
  if (found) drain_tries_[at] = 0;
  again(Act::drain, at, drain_tries_[at]);
  if (found || undecided_ > 0 || !all_sends_ended()) return;
  for (std::uint32_t i = 0; i < oracle_.receives().size(); ++i) {
    const ReceiveRecord& receive = oracle_.receives()[i];
    if (receive.plan.host == at && receive.posted && !receive.cancel_asked) do_cancel_receive(i);
  }
}

bool Application::drain_rest() {
  bool found = false;
  for (std::uint32_t at = 0; at < world_.hosts(); ++at) {
    if (!world_.is_running(at) || world_.host(at).is_paused() || process(at).closing) continue;
    while (receive_unexpected(at)) found = true;
  }
  return found;
}

// Posts a receive for the oldest message of each channel that lies at the host.
bool Application::receive_unexpected(std::uint32_t at) {
  Host& host = world_.host(at);
  bool found = false;
  for (const std::uint16_t channel : kChannels) {
    Envelope envelope;
    if (host.endpoint().probe(kAnyPeer, channel, 0, 0, envelope) != Status::ok) continue;
    check_name(at, envelope);
    ReceivePlan plan;
    plan.host = at;
    plan.channel = channel;
    plan.mask = 0;
    plan.bytes = envelope.bytes;
    const auto record = static_cast<std::uint32_t>(oracle_.receives().size());
    oracle_.receives().emplace_back().plan = plan;
    received_as_.push_back(kNoOperation);
    (void)post_receive(record, kNoMessage);
    if (oracle_.receives()[record].posted) {
      found = true;
    } else {  // not now: all its operations are taken
      oracle_.receives().pop_back();
      received_as_.pop_back();
    }
  }
  return found;
}

void Application::turned(std::uint32_t host) {
  take_events(host);  // a session's events come before the operations that end in it
  take_completions(host);
  take_notices(host);
  if (has_few_places(plan_)) note_what_is_left(host);
  if (processes_[host].closing) consider_leaving(host);
}

void Application::take_completions(std::uint32_t at) {
  Host& host = world_.host(at);
  Process& here = process(at);
  for (std::size_t n = done_.size(); n == done_.size();) {
    n = host.endpoint().poll_completions(done_);
    for (const Completion& completion : std::span(done_).first(n)) {
      ++completions_;
      here.is_noted = false;
      mix(at, completion);
      const auto index = static_cast<std::uint32_t>(completion.operation);
      const Operation operation = here.operations[index];
      if (completion.released) {
        here.free.push_back(index);
        --open_;
      }
      if (operation.is_one_sided) {
        on_one_sided(operation.record, completion);
      } else if (operation.is_send) {
        const std::vector<std::byte>& bytes = oracle_.send(operation.record).bytes;
        const bool read = std::ranges::any_of(
            host.nics(), [&](const auto& nic) { return nic->reads(bytes.data(), bytes.size()); });
        const std::uint32_t to = plan_.messages[operation.record].to;
        const bool stands = world_.is_running(to) && world_.host(to).stands();
        oracle_.on_send_completed(operation.record, completion, read, stands, world_.since_start());
      } else {
        oracle_.receives()[operation.record].done = world_.since_start();
        oracle_.on_receive_completed(operation.record, completion,
                                     world_.host_of(at, completion.peer), host.now());
      }
    }
  }
}

void Application::mix(std::uint32_t at, const Completion& completion) {
  digest_.mix(static_cast<std::uint64_t>(world_.since_start().ns));
  digest_.mix(static_cast<std::uint64_t>(completion.operation));
  digest_.mix(std::uint64_t{at} << 32 | static_cast<std::uint64_t>(completion.kind) << 16 |
              static_cast<std::uint64_t>(completion.status) << 8 |
              static_cast<std::uint64_t>(completion.released) << 1 |
              static_cast<std::uint64_t>(completion.outcome_unknown));
  digest_.mix(completion.bytes);
  digest_.mix(completion.immediate);
}

void Application::take_events(std::uint32_t at) {
  for (std::size_t n = events_.size(); n == events_.size();) {
    n = world_.host(at).endpoint().poll_events(events_);
    for (const Event& event : std::span(events_).first(n)) {
      world_.scribe().on_event(at, event);
      const proto::Duration when = world_.time_of(at, event);
      const auto other = static_cast<std::uint32_t>(event.endpoint_id - 1);
      note_event(at, event);
      if (event.endpoint_id >= kStrangers) {
        if (event.kind == Event::Kind::peer_established) {
          oracle_.accuse("host " + std::to_string(at) + " has a session with a stranger");
        }
        continue;
      }
      if (event.kind == Event::Kind::peer_established) {
        oracle_.on_established(at, other, when);
        note_size(at, other, event.peer);
        watch_other_end(other, at);
      } else if (event.kind == Event::Kind::peer_failed) {
        oracle_.on_failure(at, other, event.status, event.reason, when);
        note_answers(at, other);
        watch_other_end(at, other);
      }
    }
  }
}

// Takes note of the length of a new session's full packets.
void Application::note_size(std::uint32_t at, std::uint32_t other, PeerId peer) {
  Host& host = world_.host(at);
  PeerStats stats;
  const bool is_there = host.endpoint().peer_stats(host.now(), peer, stats) == Status::ok;
  if (!is_there || !stats.established) return;
  if (!oracle_.on_size(at, other, stats.session_bytes, world_.since_start())) return;
  world_.scribe().count_way(WayCell::narrow_session);
  constexpr std::uint32_t kLeast = 256;
  if (stats.session_bytes == kLeast) world_.scribe().count_way(WayCell::narrowest_session);
}

// Takes note of the length of a new message's full packets, if its endpoint knows its ways.
void Application::note_message_size(std::uint32_t at, std::uint32_t other, PeerId peer) {
  Host& host = world_.host(at);
  if (std::ranges::any_of(host.nics(), [](const auto& nic) { return nic->has_untold(); })) return;
  PeerStats stats;
  const bool is_there = host.endpoint().peer_stats(host.now(), peer, stats) == Status::ok;
  if (!is_there || !stats.established) return;
  oracle_.on_message_size(at, other, stats.fragment_bytes, stats.session_bytes,
                          world_.since_start());
  const bool is_short = stats.fragment_bytes < stats.session_bytes;
  const std::size_t pair = std::size_t{at} * world_.hosts() + other;
  sends_short_.resize(std::max(sends_short_.size(), pair + 1));
  if (is_short) world_.scribe().count_way(WayCell::shorter_messages);
  if (!is_short && sends_short_[pair]) world_.scribe().count_way(WayCell::long_again);
  sends_short_[pair] = is_short;
}

bool Application::is_done() const {
  if (!world_.is_healed() || undecided_ > 0 || open_ > 0 || closing_ > 0) return false;
  for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
    if (world_.is_running(i) && world_.host(i).endpoint().stats().messages_unmatched > 0) {
      return false;
    }
  }
  return true;
}

}  // namespace hawser::sim
