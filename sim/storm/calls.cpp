// SPDX-License-Identifier: Apache-2.0
// The other calls of programs: statistics, and all mistakes that a caller can make. None of them
// may change anything, and each call must get its one right answer.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/storm/application.hpp"

namespace hawser::sim {

namespace {

constexpr PeerId kNobody{0x00ffffff};
constexpr std::size_t kBlobHead = 32;    // of an address blob (proto/endpoint/endpoint.cpp)
constexpr std::size_t kBlobRecord = 48;  // of each of its NICs
using Blob = std::array<std::byte, proto::Endpoint::kMaxAddressBytes>;

}  // namespace

void Application::do_call(std::uint32_t index) {
  const CallPlan& call = plan_.calls[index];
  if (!world_.is_running(call.host) || world_.host(call.host).is_paused()) return;
  switch (call.kind) {
    case CallKind::look: look(call); break;
    case CallKind::connect_again: connect_again(call); break;
    case CallKind::connect_nowhere: connect_nowhere(call); break;
    case CallKind::connect_nobody: connect_nobody(call); break;
    case CallKind::send_wrong: send_wrong(call); break;
    case CallKind::receive_wrong: receive_wrong(call); break;
    case CallKind::ask_wrong: ask_wrong(call); break;
    case CallKind::cancel_again: cancel_again(call); break;
    case CallKind::old_name: use_old_name(call); break;
    case CallKind::close_again: {
      Host& host = world_.host(call.host);
      if (process(call.host).closing) host.endpoint().close(host.now());
      break;
    }
    case CallKind::count_: break;
  }
  world_.host(call.host).wake();
}

void Application::expect(const CallPlan& call, Status got, Status wanted) {
  if (got == wanted) return;
  oracle_.accuse("host " + std::to_string(call.host) + " got " + std::string(to_string(got)) +
                 " from the call " + std::string(kCallNames[static_cast<std::size_t>(call.kind)]) +
                 ", but expected " + std::string(to_string(wanted)));
}

void Application::look(const CallPlan& call) {
  Host& host = world_.host(call.host);
  const Process& here = process(call.host);
  const EndpointStats stats = host.endpoint().stats();
  const std::uint64_t open = here.operations.size() - here.free.size();
  if (stats.operations_pending > open || stats.messages_claimed > stats.messages_unmatched ||
      stats.peers_awake + stats.peers_at_rest > plan_.tunables.max_peers) {
    oracle_.accuse("the statistics of host " + std::to_string(call.host) + " are impossible");
  }
  std::array<Verdict, 64> verdicts;
  if (host.endpoint().verdicts(std::span(verdicts).first(call.dice % 65)) > call.dice % 65) {
    oracle_.accuse("more verdicts than there is room for");
  }
  std::vector<NicStats> nics(plan_.hosts[call.host].nics.size());
  host.endpoint().nic_stats(nics);
  PeerStats peer;
  const PeerId known = world_.peer(call.host, call.other);
  if (known != kAnyPeer && !has_forgotten(call.host, call.other)) {
    expect(call, host.endpoint().peer_stats(host.now(), known, peer), Status::ok);
    if (peer.endpoint_id != call.other + 1 || (peer.at_rest && !peer.paths.empty())) {
      oracle_.accuse("what host " + std::to_string(call.host) +
                     " reports about a peer is impossible");
    }
  }
  expect(call, host.endpoint().peer_stats(host.now(), kNobody, peer), Status::unknown_peer);
}

// A known host keeps its name.
void Application::connect_again(const CallPlan& call) {
  const PeerId before = world_.peer(call.host, call.other);
  if (before == kAnyPeer || !world_.is_running(call.other)) return;
  if (has_forgotten(call.host, call.other)) return;
  connect(call.host, call.other);
  if (world_.peer(call.host, call.other) != before) oracle_.accuse("a peer has two names");
}

void Application::connect_nowhere(const CallPlan& call) {
  if (!world_.is_running(call.other)) return;
  Host& host = world_.host(call.host);
  Blob blob;
  std::size_t bytes = world_.host(call.other).endpoint().write_address(blob);
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(blob.data() + at, &value, sizeof value);
  };
  switch (call.dice % 8) {
    case 0: bytes = call.dice / 8 % kBlobHead; break;
    case 1: blob[call.dice / 8 % 8] ^= std::byte{1}; break;
    case 2: put(8, std::uint64_t{0}); break;
    case 3: put(8, std::uint64_t{call.host} + 1); break;
    case 4: put(24, std::uint32_t{0}); break;
    case 5: put(24, std::uint32_t{17}); break;
    case 6: bytes -= 1; break;
    default: put(kBlobHead + kBlobRecord - 2, std::uint8_t{9}); break;
  }
  PeerId peer = kAnyPeer;
  expect(call, host.endpoint().connect(host.now(), std::span(blob).first(bytes), peer),
         Status::invalid_argument);
}

// The endpoint calls it until it gives up. Meanwhile it takes a place among the peers, if there is
// one.
void Application::connect_nobody(const CallPlan& call) {
  if (!world_.is_running(call.other)) return;
  // It must not take a place that a host still needs.
  for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
    if (i != call.host && world_.peer(call.host, i) == kAnyPeer) return;
  }
  Host& host = world_.host(call.host);
  Blob blob;
  const std::size_t bytes = world_.host(call.other).endpoint().write_address(blob);
  const std::uint64_t id = kStrangers + call.dice % kNobodies;
  std::memcpy(blob.data() + 8, &id, sizeof id);
  PeerId peer = kAnyPeer;
  const Status status = host.endpoint().connect(host.now(), std::span(blob).first(bytes), peer);
  if (process(call.host).closing) return expect(call, status, Status::endpoint_closed);
  if (status != Status::again) expect(call, status, Status::ok);
}

// An operation that has not completed, so that its name is surely in use.
std::optional<std::uint32_t> Application::open_operation(const Process& process) {
  for (std::uint32_t i = 0; i < process.operations.size(); ++i) {
    if (std::ranges::find(process.free, i) != process.free.end()) continue;
    const Operation& operation = process.operations[i];
    if (operation.is_one_sided) continue;
    const bool completed = operation.is_send
                               ? oracle_.send(operation.record).completion.has_value()
                               : oracle_.receives()[operation.record].completion.has_value();
    if (!completed) return i;
  }
  return std::nullopt;
}

void Application::send_wrong(const CallPlan& call) {
  Host& host = world_.host(call.host);
  Process& here = process(call.host);
  const PeerId peer = world_.peer(call.host, call.other);
  if (here.free.empty() || peer == kAnyPeer || has_forgotten(call.host, call.other)) return;
  std::byte byte{};
  proto::SendRequest request;
  request.operation = name(here, true, 0);
  request.peer = peer;
  request.data = &byte;
  request.bytes = 1;
  Status wanted = Status::invalid_argument;
  const std::uint32_t way = call.dice % 6;
  switch (way) {
    case 0: request.data = nullptr; break;
    case 1: request.bytes = kMaxMessageBytes + 1; break;
    case 2:
      request.peer = kNobody;
      wanted = Status::unknown_peer;
      break;
    case 3: request.operation = OperationId{plan_.tunables.max_operations}; break;
    case 4:  // more fragments than there can be
      if (plan_.tunables.fragment_bytes > 2048) return;
      request.bytes = kMaxMessageBytes;
      break;
    default:  // a name in use
      take_completions(call.host);
      if (const std::optional<std::uint32_t> open = open_operation(here)) {
        request.operation = OperationId{*open};
        break;
      }
      return;
  }
  const Status status = host.endpoint().send(host.now(), request);
  if (here.closing) return expect(call, status, Status::endpoint_closed);
  // The endpoint looks at the peer before it looks at the name.
  const bool peer_first = way >= 3;
  if (peer_first &&
      (is_peer_failure(status) || status == Status::endpoint_closed || status == Status::again)) {
    return;
  }
  expect(call, status, wanted);
}

void Application::receive_wrong(const CallPlan& call) {
  Host& host = world_.host(call.host);
  Process& here = process(call.host);
  if (here.free.empty()) return;
  proto::ReceiveRequest request;
  request.operation = name(here, false, 0);
  Status wanted = Status::invalid_argument;
  switch (call.dice % 4) {
    case 0: request.bytes = 1; break;
    case 1: request.operation = OperationId{plan_.tunables.max_operations + call.dice}; break;
    case 2:
      request.peer = kNobody;
      wanted = Status::unknown_peer;
      break;
    default:  // a claim that there never was
      request.claimed = MessageId{std::uint64_t{0x7fffffff} << 32 | call.dice / 4 % 2000};
      wanted = Status::unknown_operation;
      break;
  }
  if (here.closing) wanted = Status::endpoint_closed;
  expect(call, host.endpoint().receive(host.now(), request), wanted);
}

namespace {

// The answer to a question about a message that isn't there: the session's end, if it has ended.
Status said_of_nothing(const proto::Endpoint& endpoint, proto::Time now, PeerId peer,
                       bool closing) {
  if (closing) return Status::endpoint_closed;
  if (peer == kAnyPeer) return Status::again;  // an unknown peer may still send
  PeerStats stats;
  const Status known = endpoint.peer_stats(now, peer, stats);
  if (known != Status::ok) return known;
  return stats.failure == Status::ok ? Status::again : stats.failure;
}

}  // namespace

void Application::ask_wrong(const CallPlan& call) {
  Host& host = world_.host(call.host);
  Process& here = process(call.host);
  proto::Endpoint& endpoint = host.endpoint();
  Envelope envelope;
  MessageId message = kNoMessage;
  switch (call.dice % 9) {
    case 0:
      return expect(call, endpoint.probe(kNobody, 0, 0, 0, envelope),
                    here.closing ? Status::endpoint_closed : Status::unknown_peer);
    case 1:
      return expect(call, endpoint.claim(kNobody, 0, 0, 0, envelope, message),
                    here.closing ? Status::endpoint_closed : Status::unknown_peer);
    case 2: return expect(call, endpoint.disconnect(host.now(), kNobody), Status::unknown_peer);
    case 3:
      message = MessageId{std::uint64_t{0x7fffffff} << 32 | call.dice / 8 % 2000};
      return expect(call, endpoint.put_back(host.now(), message), Status::unknown_operation);
    case 4:
      return expect(call, endpoint.cancel(host.now(), OperationId{~0u - call.dice}),
                    Status::unknown_operation);
    case 5:  // a name whose operation has ended
      if (here.free.empty()) return;
      return expect(call, endpoint.cancel(host.now(), OperationId{here.free.front()}),
                    Status::unknown_operation);
    case 8:  // the same place, another name
      for (std::uint32_t i = 0; i < here.operations.size(); ++i) {
        if (std::ranges::find(here.free, i) != here.free.end()) continue;
        return expect(call, endpoint.cancel(host.now(), OperationId{i}), Status::unknown_operation);
      }
      return;
    case 6:  // a message from one host that nobody sends
      if (has_forgotten(call.host, call.other)) return;
      return expect(
          call, endpoint.probe(world_.peer(call.host, call.other), 9, 0, 0, envelope),
          said_of_nothing(endpoint, host.now(), world_.peer(call.host, call.other), here.closing));
    default:
      return expect(call, endpoint.claim(kAnyPeer, 9, 0, 0, envelope, message),
                    here.closing ? Status::endpoint_closed : Status::again);
  }
}

// A second cancel has no further effect.
void Application::cancel_again(const CallPlan& call) {
  for (std::uint32_t i = 0; i < plan_.messages.size(); ++i) {
    const SendRecord& send = oracle_.send(i);
    const bool lives =
        send.posted && !send.completion && !send.gone && send.life == world_.life(call.host);
    if (!lives || plan_.messages[i].from != call.host) continue;
    do_cancel_send(i);
    Host& host = world_.host(call.host);
    const Status status = host.endpoint().cancel(host.now(), sent_as_[i]);
    if (status != Status::too_late && status != Status::unknown_operation) {
      expect(call, status, Status::ok);
    }
    return;
  }
}

// An old name belongs to nobody: calls with it reach nobody, whoever has the place now.
void Application::use_old_name(const CallPlan& call) {
  Host& host = world_.host(call.host);
  Process& here = process(call.host);
  const std::vector<PeerId>& names = world_.old_names(call.host);
  if (names.empty() || here.free.empty() || here.closing) return;
  world_.scribe().count_place(PlaceCell::old_name_used);
  const PeerId name = names[call.dice / 8 % names.size()];
  std::byte byte{};
  Envelope envelope;
  MessageId message = kNoMessage;
  proto::SendRequest send;
  send.peer = name;
  send.operation = this->name(here, true, 0);
  send.data = &byte;
  send.bytes = 1;
  proto::ReceiveRequest receive;
  receive.peer = name;
  receive.operation = send.operation;
  PeerStats stats;
  proto::Endpoint& endpoint = host.endpoint();
  for (const Status status :
       {endpoint.send(host.now(), send), endpoint.receive(host.now(), receive),
        endpoint.probe(name, 0, 0, 0, envelope), endpoint.claim(name, 0, 0, 0, envelope, message),
        endpoint.disconnect(host.now(), name), endpoint.peer_stats(host.now(), name, stats)}) {
    expect(call, status, Status::unknown_peer);
  }
}

}  // namespace hawser::sim
