// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/reasons.hpp"

#include <algorithm>

#include "sim/storm/plan_check.hpp"

namespace hawser::sim {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

namespace {

constexpr double kMuchLoss = 0.1;
constexpr double kMuchSlower = 100;
constexpr Duration kSearch = milliseconds(25);  // for each pair of NICs, to find the last
constexpr Duration kMuchLater = microseconds(500);
constexpr Duration kForEver{INT64_MAX / 4};

// Whether the fault ends or cuts off all sessions of the host.
bool strikes_host(const FaultPlan& fault) {
  switch (fault.kind) {
    case FaultKind::partition:
    case FaultKind::crash:
    case FaultKind::restart:
    case FaultKind::stale_epoch:
    case FaultKind::burst_loss: return true;
    case FaultKind::no_buffers: return true;
    case FaultKind::loss:
    case FaultKind::straggle:
    case FaultKind::corrupt:
    case FaultKind::truncate: return fault.amount >= kMuchLoss;
    case FaultKind::reorder: return fault.delay >= kMuchLater;
    default: return false;
  }
}

// Whether the process exists but doesn't run meanwhile.
bool is_absence(const FaultPlan& fault) {
  return fault.kind == FaultKind::pause || fault.kind == FaultKind::absence ||
         fault.kind == FaultKind::announced || fault.kind == FaultKind::stands ||
         ((fault.kind == FaultKind::late_host || fault.kind == FaultKind::clock_jump) &&
          fault.delay >= kMuchLater);
}

bool strikes_nic(const FaultPlan& fault, std::uint32_t host, std::uint32_t nic) {
  const bool here = fault.host == host && fault.nic == nic;
  switch (fault.kind) {
    case FaultKind::nic_silent:
    case FaultKind::nic_told:
    case FaultKind::nic_moves:
    case FaultKind::spike:
    case FaultKind::overrun:
    case FaultKind::unresolved:
    case FaultKind::mute_queue:
    case FaultKind::holds_sends: return here;
    case FaultKind::garbled:
    case FaultKind::forged: return here && fault.amount >= kMuchLoss;
    case FaultKind::slow: return here && fault.amount >= kMuchSlower;
    case FaultKind::flap: return here || fault.amount > 0;  // it may join any hosts
    case FaultKind::reaps_late: return here && fault.delay >= kMuchLater;
    case FaultKind::all_but_one: return fault.host == host && fault.nic != nic;
    case FaultKind::both_move: return here || (fault.other_host == host && fault.other_nic == nic);
    default: return false;
  }
}

bool closes_way(FaultKind kind) { return is_directed(kind) || kind == FaultKind::both_ways; }

bool moves(const FaultPlan& fault, std::uint32_t host) {
  return (fault.kind == FaultKind::nic_moves && fault.host == host) ||
         (fault.kind == FaultKind::both_move && (fault.host == host || fault.other_host == host));
}

// How long the effects of the fault may be felt.
Duration length_of(const Plan& plan, const FaultPlan& fault) {
  const Tunables& t = plan.tunables;
  const Duration timeout = milliseconds(t.peer_timeout_ms + t.longest_absence_ms);
  if (fault.kind == FaultKind::crash) return kForEver;
  if (fault.kind == FaultKind::restart || fault.kind == FaultKind::stale_epoch) {
    return fault.lasts + timeout * 3;  // old sessions last that long
  }
  if (fault.kind == FaultKind::clock_jump) return fault.delay;
  const Duration until_probed = std::max(fault.lasts, microseconds(t.path_probe_min_us)) * 2;
  return fault.lasts + std::min(until_probed, microseconds(t.path_probe_max_us) * 2);
}

}  // namespace

Reasons::Reasons(const Plan& plan)
    : plan_(plan),
      cut_(plan.hosts.size() * plan.hosts.size()),
      searches_(cut_.size()),
      away_(plan.hosts.size()) {
  for (const HostPlan& a : plan.hosts) {
    for (const HostPlan& b : plan.hosts) {
      // Both orientations give the same pairs; here the first host counts as the lower one.
      pairs_.emplace_back(
          proto::NicPairs::Ends{a.nics.size(), b.nics.size(), true}, plan.tunables.max_path_slots,
          [&](std::size_t i, std::size_t j) { return a.nics[i].network == b.nics[j].network; });
    }
  }
  std::vector<Duration> moments;
  for (const FaultPlan& fault : plan.faults) {
    moments.push_back(fault.at);
    moments.push_back(fault.at + length_of(plan, fault));
  }
  for (const ClosingPlan& closing : plan.closings) {
    if (closing.other != kAnyHost) continue;
    moments.push_back(closing.at);
    moments.push_back(closing.at + kForEver);
  }
  for (const HostPlan& host : plan.hosts) {
    if (host.starts.ns == 0) continue;
    moments.push_back({});
    moments.push_back(host.starts);
  }
  std::ranges::sort(moments);
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  for (std::uint32_t a = 0; a < hosts; ++a) {
    for (std::uint32_t b = a + 1; b < hosts; ++b) {
      for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
        const Span span{moments[i], moments[i + 1]};
        std::vector<Span>& searches = searches_[pair_of(a, b)];
        if (is_cut(a, b, span.from, false)) {
          cut_[pair_of(a, b)].push_back(span);
        } else if (is_cut(a, b, span.from, true)) {
          const bool goes_on = !searches.empty() && searches.back().to == span.from;
          if (goes_on) searches.back().to = span.to;
          if (!goes_on) searches.push_back(span);
        }
      }
    }
  }
  for (const FaultPlan& fault : plan.faults) {
    if (is_absence(fault)) away_[fault.host].push_back({fault.at, fault.at + fault.lasts});
  }
}

std::size_t Reasons::pair_of(std::uint32_t a, std::uint32_t b) const {
  return std::min(a, b) * plan_.hosts.size() + std::max(a, b);
}

Duration Reasons::within(const std::vector<Span>& spans, Span window) {
  Duration sum{};
  for (const Span& span : spans) {
    const Duration from = std::max(span.from, window.from);
    const Duration to = std::min(span.to, window.to);
    if (from < to) sum = sum + (to - from);
  }
  return sum;
}

bool Reasons::is_active(const FaultPlan& fault, Duration at) const {
  return fault.at <= at && at < fault.at + length_of(plan_, fault);
}

bool Reasons::is_nic_whole(std::uint32_t host, std::uint32_t nic, Duration at) const {
  return std::ranges::none_of(plan_.faults, [&](const FaultPlan& fault) {
    return is_active(fault, at) && strikes_nic(fault, host, nic);
  });
}

bool Reasons::are_nics_whole(std::uint32_t host, Duration at) const {
  for (std::uint32_t nic = 0; nic < plan_.hosts[host].nics.size(); ++nic) {
    if (!is_nic_whole(host, nic, at)) return false;
  }
  return true;
}

// With such a long initial round trip an endpoint has not tried many paths when patience ends.
bool Reasons::is_slow_to_ask() const {
  constexpr std::int64_t kRoundTrips = 64;
  return microseconds(plan_.tunables.initial_rtt_us) * kRoundTrips >
         milliseconds(plan_.tunables.peer_timeout_ms);
}

bool Reasons::has_moved(std::uint32_t host, Duration at) const {
  return std::ranges::any_of(plan_.faults,
                             [&](const FaultPlan& f) { return f.at <= at && moves(f, host); });
}

// Whether the other host may have moved without this one's hearing of it. A host stops telling a
// peer its new address when that peer hasn't answered for as long as patience.
bool Reasons::has_moved_unheard(std::uint32_t host, std::uint32_t other, Duration patience,
                                Duration at) const {
  return std::ranges::any_of(plan_.faults, [&](const FaultPlan& f) {
    if (f.at > at || !moves(f, other)) return false;
    const Span telling{f.at, f.at + patience};
    return within(away_[host], telling) + within(cut_[pair_of(host, other)], telling) >=
           patience * 3 / 4;
  });
}

// How long the host itself was away before `at`: it waits longer by that time.
Duration Reasons::own_absence(std::uint32_t host, Duration patience, Duration at) const {
  Duration own{};
  for (std::size_t i = 0; i <= away_[host].size(); ++i) {
    own = within(away_[host], {at - patience - own, at});
  }
  return own;
}

Duration Reasons::present_from(std::uint32_t host, Duration at) const {
  for (Duration before{-1}; before != at;) {
    before = at;
    for (const Span& away : away_[host]) {
      if (away.from <= at && at < away.to) at = away.to;
    }
  }
  return at;
}

// Whether a path of theirs can join these NICs. That may be a slot that stands for this pair. It
// may also be one of the slots above, in which each NIC tries all others, if there is time for
// that.
bool Reasons::may_meet(std::uint32_t a, std::uint32_t i, std::uint32_t b, std::uint32_t j) const {
  if (plan_.hosts[a].nics[i].network != plan_.hosts[b].nics[j].network) return false;
  const std::size_t left = plan_.hosts[a].nics.size();
  const std::size_t right = plan_.hosts[b].nics.size();
  const std::size_t slots = plan_.tunables.max_path_slots;
  const Duration patience = milliseconds(plan_.tunables.peer_timeout_ms);
  if (slots >= 2 * std::max(left, right) && search(a, b) <= patience) return true;
  return is_bound(a, i, b, j);
}

Duration Reasons::search(std::uint32_t a, std::uint32_t b) const {
  const std::size_t pairs = plan_.hosts[a].nics.size() * plan_.hosts[b].nics.size();
  return kSearch * static_cast<std::int64_t>(pairs);
}

bool Reasons::is_bound(std::uint32_t a, std::uint32_t i, std::uint32_t b, std::uint32_t j) const {
  const proto::NicPairs& pairs = pairs_[pair_of(a, b)];
  for (std::size_t slot = 0; slot < pairs.size(); ++slot) {
    if (pairs[slot].local == i && pairs[slot].remote == j) return true;
  }
  return false;
}

bool Reasons::is_cut(std::uint32_t a, std::uint32_t b, Duration at, bool bound) const {
  const auto is_way_closed = [&](std::uint32_t i, std::uint32_t j) {
    return std::ranges::any_of(plan_.faults, [&](const FaultPlan& fault) {
      if (!closes_way(fault.kind)) return false;
      const bool there =
          fault.host == a && fault.nic == i && fault.other_host == b && fault.other_nic == j;
      const bool back =
          fault.host == b && fault.nic == j && fault.other_host == a && fault.other_nic == i;
      return (there || back) && is_active(fault, at);
    });
  };
  if (at < std::max(plan_.hosts[a].starts, plan_.hosts[b].starts)) return true;
  for (const FaultPlan& fault : plan_.faults) {
    const bool theirs = fault.host == a || fault.host == b;
    if (theirs && is_active(fault, at) && strikes_host(fault)) return true;
  }
  for (const ClosingPlan& closing : plan_.closings) {
    const bool theirs = closing.host == a || closing.host == b;
    if (theirs && closing.other == kAnyHost && closing.at <= at) return true;
  }
  if (has_moved(a, at) && has_moved(b, at)) return true;  // neither may know where the other is
  if (is_slow_to_ask() && !(are_nics_whole(a, at) && are_nics_whole(b, at))) return true;
  for (std::uint32_t i = 0; i < plan_.hosts[a].nics.size(); ++i) {
    for (std::uint32_t j = 0; j < plan_.hosts[b].nics.size(); ++j) {
      if (is_nic_whole(a, i, at) && is_nic_whole(b, j, at) && !is_way_closed(i, j) &&
          (bound ? is_bound(a, i, b, j) : may_meet(a, i, b, j))) {
        return false;
      }
    }
  }
  return true;
}

Duration Reasons::undisturbed(std::uint32_t a, std::uint32_t b, Duration from, Duration to) const {
  std::vector<Span> spans = cut_[pair_of(a, b)];
  spans.insert(spans.end(), away_[a].begin(), away_[a].end());
  spans.insert(spans.end(), away_[b].begin(), away_[b].end());
  for (Span span : searches_[pair_of(a, b)]) {
    // The search stands still while a host is away.
    Duration end = span.from + search(a, b);
    for (Duration before{-1}; before != end;) {
      before = end;
      const Span searched{span.from, end};
      end = span.from + search(a, b) + within(away_[a], searched) + within(away_[b], searched);
    }
    span.to = std::min(span.to, end);
    spans.push_back(span);
  }
  std::ranges::sort(spans, {}, &Span::from);
  Duration sum{};
  for (const Span& span : spans) {
    if (span.from >= to) break;
    if (span.from > from) sum = sum + (span.from - from);
    from = std::max(from, span.to);
  }
  return sum + std::max(to - from, Duration{});
}

bool Reasons::explain_silence(std::uint32_t host, std::uint32_t other, Status status,
                              Duration at) const {
  if (has_moved(host, at) && has_moved(other, at)) return true;
  // The other host may have moved before it had ever heard of its caller.
  if (status == Status::peer_unreachable && has_moved(other, at)) return true;
  Duration patience = milliseconds(plan_.tunables.peer_timeout_ms);
  // A caller doesn't know yet how long the other host may be away.
  if (status == Status::peer_timeout) {
    patience = patience + milliseconds(plan_.tunables.longest_absence_ms);
  }
  if (has_moved_unheard(host, other, patience, at)) return true;
  // A peer that was silent before is asked whether it lives when a newcomer wants its place, and
  // has half of peer_timeout to answer.
  Duration least = patience;
  if (status == Status::peer_timeout && may_lack_places(plan_, host)) {
    least = least - milliseconds(plan_.tunables.peer_timeout_ms) / 2;
  }
  const auto explains = [&](Duration until) {
    const Duration own = own_absence(host, patience, until);
    const Span window{until - patience - own, until};
    const Duration cut = within(cut_[pair_of(host, other)], window);
    const Duration away = within(away_[other], window);
    return cut * 4 + away >= least * 3 / 4;
  };
  if (explains(at)) return true;
  const bool has_called = status == Status::peer_unreachable || status == Status::peer_full;
  return has_called && explains(at - microseconds(kListens * plan_.tunables.initial_rtt_us));
}

}  // namespace hawser::sim
