// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/places.hpp"

#include <algorithm>

namespace hawser::sim {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

namespace {

// A call's interval grows up to this part of peer_timeout, and its jitter is up to half of it.
constexpr std::int64_t kIntervals = 16;
constexpr std::int64_t kFirstCalls = 8;
// A call may begin this long before it is reported.
constexpr Duration kOneTurn = milliseconds(1);
// A program that finds no place asks again after 10 ms at most.
constexpr Duration kAsksAgain = milliseconds(25);

bool ends_processes(const FaultPlan& fault) {
  return fault.kind == FaultKind::crash || fault.kind == FaultKind::restart ||
         fault.kind == FaultKind::stale_epoch;
}

std::string us(Duration time) { return std::to_string(time.ns / 1000) + " us"; }

}  // namespace

bool may_lack_places(const Plan& plan, std::uint32_t host) {
  auto callers = static_cast<double>(plan.hosts.size() - 1);
  // No host believes a stranger that does not know the job's secret.
  for (const FaultPlan& fault : plan.faults) {
    const bool comes_in = fault.kind == FaultKind::strangers && !plan.has_secret;
    if (comes_in && fault.host == host) callers += fault.amount;
  }
  std::vector<std::uint32_t> nobodies;
  for (const CallPlan& call : plan.calls) {
    if (call.kind != CallKind::connect_nobody || call.host != host) continue;
    const std::uint32_t nobody = call.dice % kNobodies;
    if (std::ranges::find(nobodies, nobody) == nobodies.end()) nobodies.push_back(nobody);
  }
  callers += static_cast<double>(nobodies.size());
  return callers > static_cast<double>(plan.tunables.max_peers);
}

Places::Places(const Plan& plan, const Reasons& reasons, const Sessions& sessions)
    : plan_(plan),
      reasons_(reasons),
      sessions_(sessions),
      judges_(has_few_places(plan)),
      is_calm_(std::ranges::all_of(plan.faults, ends_processes)),
      sides_(plan.hosts.size() * plan.hosts.size()),
      gone_at_(plan.hosts.size(), Duration{-1}),
      free_of_living_(plan.hosts.size(), Duration{}),
      free_(plan.hosts.size(), Vacancy{}),
      dead_until_(plan.hosts.size()) {
  for (std::uint32_t host = 0; host < plan.hosts.size(); ++host) {
    can_run_out_.push_back(may_lack_places(plan, host));
  }
  const Tunables& t = plan.tunables;
  const Duration timeout = milliseconds(t.peer_timeout_ms);
  const Duration retry = microseconds(t.handshake_retry_us);
  patience_ = timeout + milliseconds(t.longest_absence_ms);
  interval_ = std::max(timeout / kIntervals, retry) * 3 / 2;
  timers_ = retry * kFirstCalls +
            microseconds(4 * (t.initial_rtt_us + t.timer_granularity_us + t.late_wakeup_us));
}

void Places::on_started(std::uint32_t host, Duration at) {
  gone_at_[host] = Duration{-1};
  free_of_living_[host] = at;
  free_[host] = Vacancy{at, false};
  refresh_all(at);
}

void Places::on_gone(std::uint32_t host, Duration at) {
  gone_at_[host] = at;
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    side(other, host).called |= side(host, other).calls;
    side(host, other) = {};
  }
  refresh_all(at);
}

void Places::on_calling(std::uint32_t host, std::uint32_t other, Duration at) {
  Side& here = side(host, other);
  here.asked_at.reset();
  if (here.calls || sessions_.lives(host, other)) return;
  here.calls = true;
  here.called_at = at;
  refresh(host, at);
}

void Places::on_change(std::uint32_t host, std::uint32_t other, Duration at) {
  const bool was_full = !free_[host];
  const Duration silent = silent_from(host, other);
  side(host, other).calls = side(host, other).called = false;
  refresh(host, at);
  // The place was free before its host noticed.
  if (!is_gone(other)) return;
  dead_until_[host] = std::max(dead_until_[host], std::min(silent, at));
  if (was_full && free_[host]) free_[host] = Vacancy{std::min(silent, at), true};
}

void Places::set_left(std::uint32_t host, std::uint32_t other, bool is_left, Duration at) {
  if (side(host, other).is_left == is_left) return;
  side(host, other).is_left = is_left;
  refresh(host, at);
}

// Counts peers that have places, and will not lose them by being silent.
std::uint64_t Places::count_living(std::uint32_t host, std::uint32_t but) const {
  std::uint64_t count = 0;
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    if (other == host || other == but) continue;
    const Side& here = side(host, other);
    const bool has_session = sessions_.lives(host, other) || here.calls;
    count += here.is_left || (has_session && !is_gone(other));
  }
  return count;
}

// Whether the other one is gone without a word, and nothing of it is left.
bool Places::holds_as_dead(std::uint32_t host, std::uint32_t other) const {
  const Side& here = side(host, other);
  return is_gone(other) && !here.is_left &&
         (sessions_.lives(host, other) || here.calls || here.called);
}

// The moment at which a peer that is gone has been silent for its patience. A peer that refused a
// call before is called for longer.
Duration Places::silent_from(std::uint32_t host, std::uint32_t other) const {
  const Side& here = side(host, other);
  const bool may_have_refused = here.calls && can_run_out_[other];
  const Duration longer =
      may_have_refused ? milliseconds(plan_.tunables.peer_timeout_ms) / 4 : Duration{};
  return std::max({gone_at_[other], here.posted_at, here.called_at}) + patience_ + longer;
}

std::optional<Places::Vacancy> Places::vacancy(std::uint32_t host, std::uint32_t caller) const {
  if (!free_of_living_[host] || is_gone(host)) return std::nullopt;
  std::vector<Duration> silent;
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    if (other == host || other == caller || !holds_as_dead(host, other)) continue;
    silent.push_back(silent_from(host, other));
  }
  const std::uint64_t taken = count_living(host, caller) + silent.size();
  if (taken < plan_.tunables.max_peers) return free_[host];
  const std::uint64_t too_many = taken - plan_.tunables.max_peers;
  if (too_many >= silent.size()) return std::nullopt;
  std::ranges::sort(silent);
  return Vacancy{std::max({*free_of_living_[host], silent[too_many], dead_until_[host]}), true};
}

void Places::refresh(std::uint32_t host, Duration at) {
  if (!judges_) return;
  std::uint64_t taken = count_living(host, host);
  const bool is_free_of_living = taken < plan_.tunables.max_peers;
  if (!is_free_of_living) free_of_living_[host].reset();
  if (is_free_of_living && !free_of_living_[host]) free_of_living_[host] = at;
  for (std::uint32_t other = 0; other < plan_.hosts.size(); ++other) {
    if (other != host) taken += holds_as_dead(host, other);
  }
  const bool is_free = taken < plan_.tunables.max_peers;
  if (!is_free) free_[host].reset();
  if (is_free && !free_[host]) free_[host] = Vacancy{at, false};
}

void Places::refresh_all(Duration at) {
  for (std::uint32_t host = 0; host < plan_.hosts.size(); ++host) refresh(host, at);
}

std::string Places::on_answer(std::uint32_t caller, std::uint32_t host, bool refused,
                              Duration at) const {
  if (!judges_ || !side(caller, host).calls) return {};
  const Duration timeout = milliseconds(plan_.tunables.peer_timeout_ms);
  const Duration called_for = at - side(caller, host).called_at;
  if (refused && is_calm_ && called_for + kOneTurn < timeout + timeout / 4) {
    return "host " + std::to_string(caller) + " has given up calling host " + std::to_string(host) +
           " after " + us(called_for);
  }
  const std::optional<Vacancy> place = vacancy(host, caller);
  if (!place) return {};
  const Duration called_at = side(caller, host).called_at;
  const Duration absence = patience_ - timeout;
  // A peer that died is probed, and has half of its patience for the answer.
  const Duration asked_until = place->is_of_dead ? called_at + timeout / 2 + absence : called_at;
  const Duration since = std::max(place->since, asked_until);
  // After that the caller listens, and calls no more.
  const Duration until = refused ? std::min(at, called_at + timeout + timeout / 4) : at;
  const Duration waited = reasons_.undisturbed(caller, host, std::min(since, until), until);
  // A stranger may have kept a place for twice that time, and then the host calls again.
  Duration most = interval_ * 3 + timers_;
  if (place->is_of_dead) most = most + absence;  // the absence counts twice
  if (!is_calm_) most = most + timeout;
  if (waited <= most) return {};
  return "host " + std::to_string(caller) + (refused ? " was refused by" : " was let in by") +
         " host " + std::to_string(host) + ", which had a place for it for " + us(waited) +
         ": at most " + us(most);
}

std::string Places::on_none(std::uint32_t host, std::uint32_t other, Duration at) {
  if (!can_run_out_[host])
    return "host " + std::to_string(host) + " reports no place, but has enough places";
  if (!judges_) return {};
  std::optional<Duration>& asked_at = side(host, other).asked_at;
  if (!asked_at) asked_at = at;
  const std::optional<Vacancy> place = vacancy(host, other);
  if (!place) return {};
  const Duration since = std::max(place->since, *asked_at);
  const Duration waited = reasons_.undisturbed(host, other, since, at);
  Duration most = kAsksAgain;
  // Its own call to a dead peer may have begun late, and listens for some round trips at its end.
  const Duration listens = microseconds(16 * plan_.tunables.initial_rtt_us);
  if (place->is_of_dead || !is_calm_) most = most + patience_ + timers_ + listens;
  if (waited <= most) return {};
  return "host " + std::to_string(host) + " has no place for host " + std::to_string(other) +
         ", but has had one for " + us(waited) + ": at most " + us(most);
}

}  // namespace hawser::sim
