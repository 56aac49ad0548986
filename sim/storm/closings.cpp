// SPDX-License-Identifier: Apache-2.0
// How processes and sessions of a storm end: by closing, by disconnecting, by dying. The checks
// here make sure that the other ends hear of it.
#include <algorithm>

#include "sim/storm/application.hpp"

namespace hawser::sim {

using proto::Duration;
using proto::milliseconds;

namespace {

bool moves(const FaultPlan& fault) {
  return fault.kind == FaultKind::nic_moves || fault.kind == FaultKind::both_move;
}
}  // namespace

void Application::do_close(std::uint32_t index) {
  const ClosingPlan& plan = plan_.closings[index];
  if (!world_.is_running(plan.host)) return;
  if (world_.host(plan.host).is_paused()) return later(Act::close, index, kAgain * 8);
  if (process(plan.host).closing) return;
  if (plan.other == kAnyHost) return close_endpoint(plan.host);
  disconnect(plan.host, plan.other);
}

void Application::disconnect(std::uint32_t at, std::uint32_t other) {
  const PeerId peer = world_.peer(at, other);
  if (peer == kAnyPeer) return;
  Host& host = world_.host(at);
  oracle_.on_closing(at, other, world_.since_start());
  note(Happening::Kind::disconnects, at, other);
  (void)host.endpoint().disconnect(host.now(), peer);
  host.wake();
  turned(at);  // its program knows at once which operations that ended
}

void Application::close_endpoint(std::uint32_t at) {
  Process& here = process(at);
  Host& host = world_.host(at);
  oracle_.on_closing(at, kAnyHost, world_.since_start());
  note(Happening::Kind::closes, at, 0);
  here.closing = true;
  here.closing_since = host.now();
  ++closing_;
  host.endpoint().close(host.now());
  host.wake();
  later(Act::has_closed, at, longest_closing(at));
}

void Application::close_all() {
  for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
    if (world_.is_running(i) && !process(i).closing) close_endpoint(i);
  }
}

bool Application::all_have_peers() const {
  if (std::ranges::any_of(plan_.faults, moves)) return false;  // neither may find the other one
  for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
    if (!world_.is_running(i) || world_.life(i) > 0) return false;
    for (std::uint32_t j = 0; j < world_.hosts(); ++j) {
      if (oracle_.sessions().lives(i, j) != oracle_.sessions().lives(j, i)) return false;
    }
  }
  return true;
}

// The longest time that closing may take. Sends that NICs hold delay it by that time, and so do
// absences.
Duration Application::longest_closing(std::uint32_t host) const {
  Duration longest = milliseconds(2 * plan_.tunables.close_timeout_ms + 10);
  for (const FaultPlan& fault : plan_.faults) {
    if (fault.host != host) continue;
    longest = longest + fault.delay * 4;
    const bool away = fault.kind == FaultKind::pause || fault.kind == FaultKind::absence ||
                      fault.kind == FaultKind::announced || fault.kind == FaultKind::stands;
    if (away && world_.since_start() <= fault.at + fault.lasts) longest = longest + fault.lasts;
  }
  return longest;
}

// Called after a turn. A process that has closed is gone.
void Application::consider_leaving(std::uint32_t at) {
  Host& host = world_.host(at);
  if (!host.endpoint().closed()) return;
  const Duration timeout = milliseconds(plan_.tunables.close_timeout_ms);
  // `early` goes by the clock at the end of the turn.
  const Duration turn = plan_.hosts[at].turn;
  const bool early = host.now() + turn < processes_[at].closing_since + timeout + timeout / 2;
  const EndpointStats stats = host.endpoint().stats();
  // A process that needs more than 1.5 close_timeout may leave sends that a NIC still holds.
  // Replies are among these, and are no operations of its program.
  const bool only_held =
      stats.operations_pending <= stats.sends_unreleased &&
      stats.sends_unreleased - stats.operations_pending <= one_sided_.count_fetches(at);
  if (!only_held || (early && stats.sends_unreleased > 0)) {
    oracle_.accuse("host " + std::to_string(at) + " has closed, but operations are left");
  }
  any_closed_late_ |= !early;
  count_places(at);
  std::vector<bool> stands(plan_.hosts.size());
  for (std::uint32_t i = 0; i < stands.size(); ++i) {
    stands[i] = world_.is_running(i) && world_.host(i).stands();
  }
  oracle_.on_closed(at, early, world_.since_start(), stands);
  note(Happening::Kind::left, at, 0);
  processes_[at].closing = false;
  --closing_;
  give_up_operations(at);
  world_.leave(at);
}

void Application::demand_closed(std::uint32_t host) {
  if (!world_.is_running(host) || !process(host).closing) return;
  // This check was scheduled for a process before this one.
  const Duration timeout = milliseconds(plan_.tunables.close_timeout_ms);
  if (world_.host(host).now() < process(host).closing_since + timeout * 2) return;
  oracle_.accuse("host " + std::to_string(host) + " does not finish closing");
}

// The operations of a process are gone with it.
void Application::give_up_operations(std::uint32_t host) {
  for (std::uint32_t i = 0; i < plan_.messages.size(); ++i) {
    SendRecord& send = oracle_.send(i);
    if (plan_.messages[i].from != host || !send.posted || send.gone || send.released) continue;
    send.gone = true;
    --open_;
  }
  for (ReceiveRecord& receive : oracle_.receives()) {
    if (receive.plan.host != host || !receive.posted || receive.gone || receive.completion)
      continue;
    receive.gone = true;
    --open_;
  }
  one_sided_.crashed(host);
  open_ -= one_sided_.give_up(host);
}

void Application::crashed(std::uint32_t host) {
  turned(host);                          // what had completed, the process knew
  if (!world_.is_running(host)) return;  // it had just closed
  count_places(host);
  if (processes_[host].closing) --closing_;
  processes_[host].closing = false;
  give_up_operations(host);
  oracle_.on_died(host, world_.since_start());
  for (std::uint32_t other = 0; other < world_.hosts(); ++other) {
    if (other != host) watch_other_end(host, other);
  }
}

// ---- the other end of a session

// The longest time until an end that waits in an ended session must hear of the end. At the latest
// it fails by the other end's silence. That may be put off once, and old packets count as signs of
// life. If the process that ended the session still answers by RESET, keepalives get that answer
// within half of this time.
Duration Application::longest_hearing(std::uint32_t host, std::uint32_t other) const {
  const Tunables& t = plan_.tunables;
  const Duration patience = milliseconds(t.peer_timeout_ms + t.longest_absence_ms);
  const Duration some = milliseconds(100);
  const bool answers = answers_[other * world_.hosts() + host] == world_.life(other) + 1;
  if (answers && world_.is_running(other)) return patience / 2 + some;
  Duration old{};
  for (const FaultPlan& fault : plan_.faults) {
    if (fault.kind == FaultKind::straggle) old = std::max(old, fault.delay * 2);
  }
  return patience * 2 + some + old;
}

// Notes that the host will answer by RESET: it has ended a session that both had, and neither can
// have moved.
void Application::note_answers(std::uint32_t host, std::uint32_t other) {
  const Sessions& sessions = oracle_.sessions();
  const bool known = sessions.succeeded(host, other, sessions.ends(host, other) - 1);
  // An endpoint that has given the place away doesn't answer.
  const bool stays =
      std::ranges::none_of(plan_.faults, moves) && !oracle_.places().can_run_out(host);
  answers_[host * world_.hosts() + other] = known && stays ? world_.life(host) + 1 : 0;
}

// `host` has no part any more in earlier sessions with `other`.
void Application::watch_other_end(std::uint32_t host, std::uint32_t other) {
  if (!oracle_.sessions().is_half(other, host)) return;
  const Duration healing = std::max(plan_.heals_at - world_.since_start(), Duration{});
  later(Act::has_heard, other * world_.hosts() + host, healing + longest_hearing(other, host));
}

void Application::demand_hearing(std::uint32_t hosts) {
  const std::uint32_t host = hosts / world_.hosts();
  const std::uint32_t other = hosts % world_.hosts();
  if (!world_.is_running(host) || !oracle_.sessions().is_half(host, other) || is_done()) return;
  const std::optional<Duration> since = oracle_.waits_in_vain(host, other);
  const Duration begins = std::max(since.value_or(world_.since_start()), plan_.heals_at);
  const Duration due = begins + longest_hearing(host, other);
  if (since && due <= world_.since_start()) {
    return oracle_.accuse("host " + std::to_string(host) + " waits in a session that host " +
                          std::to_string(other) + " has ended");
  }
  later(Act::has_heard, hosts, std::max(due - world_.since_start(), milliseconds(10)));
}

}  // namespace hawser::sim
