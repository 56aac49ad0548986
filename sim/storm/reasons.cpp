#include "sim/storm/reasons.hpp"

#include <algorithm>

namespace hawser::sim {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

namespace {

constexpr double kMuchLoss = 0.1;
constexpr double kMuchSlower = 100;
constexpr Duration kMuchLater = microseconds(500);
constexpr Duration kForEver{INT64_MAX / 4};

// Ends, or cuts off, all that the host has to do with others.
bool strikes_host(const FaultPlan& fault) {
  switch (fault.kind) {
    case FaultKind::partition:
    case FaultKind::pause:
    case FaultKind::absence:
    case FaultKind::crash:
    case FaultKind::restart:
    case FaultKind::burst_loss: return true;
    case FaultKind::loss:
    case FaultKind::corrupt:
    case FaultKind::truncate: return fault.amount >= kMuchLoss;
    case FaultKind::reorder:
    case FaultKind::late_host:
    case FaultKind::clock_jump: return fault.delay >= kMuchLater;
    default: return false;
  }
}

bool strikes_nic(const FaultPlan& fault, std::uint32_t host, std::uint32_t nic) {
  const bool here = fault.host == host && fault.nic == nic;
  switch (fault.kind) {
    case FaultKind::nic_silent:
    case FaultKind::nic_told:
    case FaultKind::nic_moves:
    case FaultKind::spike:
    case FaultKind::holds_sends: return here;
    case FaultKind::slow: return here && fault.amount >= kMuchSlower;
    case FaultKind::flap: return here || fault.amount > 0;  // whom a cable joins is not looked at
    case FaultKind::reaps_late: return here && fault.delay >= kMuchLater;
    case FaultKind::all_but_one: return fault.host == host && fault.nic != nic;
    case FaultKind::both_move: return here || (fault.other_host == host && fault.other_nic == nic);
    default: return false;
  }
}

bool moves(const FaultPlan& fault, std::uint32_t host) {
  return (fault.kind == FaultKind::nic_moves && fault.host == host) ||
         (fault.kind == FaultKind::both_move && (fault.host == host || fault.other_host == host));
}

// How long what the fault has done may be felt.
Duration length_of(const Plan& plan, const FaultPlan& fault) {
  const Tunables& t = plan.tunables;
  const Duration timeout = milliseconds(t.peer_timeout_ms + t.longest_absence_ms);
  if (fault.kind == FaultKind::crash) return kForEver;
  if (fault.kind == FaultKind::restart) return fault.lasts + timeout * 3;  // its old sessions
  if (fault.kind == FaultKind::clock_jump) return fault.delay;
  const Duration until_probed = std::max(fault.lasts, microseconds(t.path_probe_min_us)) * 2;
  return fault.lasts + std::min(until_probed, microseconds(t.path_probe_max_us) * 2);
}

}  // namespace

Reasons::Reasons(const Plan& plan) : plan_(plan), cut_(plan.hosts.size() * plan.hosts.size()) {
  patience_ = milliseconds(plan.tunables.peer_timeout_ms + plan.tunables.longest_absence_ms);
  std::vector<Duration> moments;
  for (const FaultPlan& fault : plan.faults) {
    moments.push_back(fault.at);
    moments.push_back(fault.at + length_of(plan, fault));
  }
  std::ranges::sort(moments);
  const auto hosts = static_cast<std::uint32_t>(plan.hosts.size());
  for (std::uint32_t a = 0; a < hosts; ++a) {
    for (std::uint32_t b = a + 1; b < hosts; ++b) {
      for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
        if (is_cut(a, b, moments[i])) of(a, b).push_back({moments[i], moments[i + 1]});
      }
    }
  }
}

std::vector<Reasons::Span>& Reasons::of(std::uint32_t a, std::uint32_t b) {
  return cut_[std::min(a, b) * plan_.hosts.size() + std::max(a, b)];
}

bool Reasons::is_active(const FaultPlan& fault, Duration at) const {
  return fault.at <= at && at < fault.at + length_of(plan_, fault);
}

bool Reasons::is_nic_whole(std::uint32_t host, std::uint32_t nic, Duration at) const {
  return std::ranges::none_of(plan_.faults, [&](const FaultPlan& fault) {
    return is_active(fault, at) && strikes_nic(fault, host, nic);
  });
}

bool Reasons::has_moved(std::uint32_t host) const {
  return std::ranges::any_of(plan_.faults, [&](const FaultPlan& f) { return moves(f, host); });
}

bool Reasons::is_cut(std::uint32_t a, std::uint32_t b, Duration at) const {
  const auto is_way_closed = [&](std::uint32_t i, std::uint32_t j) {
    return std::ranges::any_of(plan_.faults, [&](const FaultPlan& fault) {
      if (fault.kind != FaultKind::one_way && fault.kind != FaultKind::both_ways) return false;
      const bool there =
          fault.host == a && fault.nic == i && fault.other_host == b && fault.other_nic == j;
      const bool back =
          fault.host == b && fault.nic == j && fault.other_host == a && fault.other_nic == i;
      return (there || back) && is_active(fault, at);
    });
  };
  for (const FaultPlan& fault : plan_.faults) {
    const bool theirs = fault.host == a || fault.host == b;
    if (theirs && is_active(fault, at) && strikes_host(fault)) return true;
  }
  if (has_moved(a) && has_moved(b)) return true;  // neither may know where the other is
  for (std::uint32_t i = 0; i < plan_.hosts[a].nics.size(); ++i) {
    for (std::uint32_t j = 0; j < plan_.hosts[b].nics.size(); ++j) {
      if (is_nic_whole(a, i, at) && is_nic_whole(b, j, at) && !is_way_closed(i, j)) return false;
    }
  }
  return true;
}

bool Reasons::explain_silence(std::uint32_t a, std::uint32_t b, Duration at) const {
  if (has_moved(a) && has_moved(b)) return true;
  Duration cut{};
  for (const Span& span : cut_[std::min(a, b) * plan_.hosts.size() + std::max(a, b)]) {
    const Duration from = std::max(span.from, at - patience_);
    const Duration to = std::min(span.to, at);
    if (from < to) cut = cut + (to - from);
  }
  return cut * 4 >= patience_;
}

}  // namespace hawser::sim
