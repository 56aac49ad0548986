// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/shrink.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/storm/plan_check.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using Parts = std::span<const std::uint32_t>;

constexpr std::uint32_t kNone = ~0u;
constexpr int kMostRounds = 4;

// The size of a plan, to compare plans by.
std::size_t size_of(const Plan& plan) {
  std::size_t size = plan.faults.size() + plan.closings.size() + plan.calls.size() +
                     plan.messages.size() + plan.receives.size() + plan.one_sided.size() +
                     plan.hosts.size() + plan.switches + plan.cables.size() + odd_tunables(plan);
  for (const HostPlan& host : plan.hosts) {
    size += host.nics.size() + (host.starts.ns > 0) + (host.takes_over != kAnyHost);
  }
  return size;
}

template <class T>
std::vector<T> only(const std::vector<T>& all, Parts kept) {
  std::vector<T> some;
  for (const std::uint32_t i : kept) some.push_back(all[i]);
  return some;
}

Duration last_end(const Plan& plan) {
  Duration last{};
  for (const FaultPlan& fault : plan.faults) last = std::max(last, fault.at + fault.lasts);
  return last;
}

bool fits(const ReceivePlan& receive, const MessagePlan& message) {
  return receive.host == message.to && receive.channel == message.channel &&
         (receive.from == kAnyHost || receive.from == message.from) &&
         ((receive.tag ^ message.tag) & receive.mask) == 0;
}

// For each receive, the message that it was most likely meant for: the first that fits and that no
// other receive has. kNone: the receive has none.
std::vector<std::uint32_t> messages_of_receives(const Plan& plan) {
  std::vector<std::uint32_t> of(plan.receives.size(), kNone);
  std::vector<bool> taken(plan.messages.size(), false);
  for (std::size_t r = 0; r < plan.receives.size(); ++r) {
    for (std::uint32_t m = 0; m < plan.messages.size(); ++m) {
      if (taken[m] || !fits(plan.receives[r], plan.messages[m])) continue;
      taken[m] = true;
      of[r] = m;
      break;
    }
  }
  return of;
}

bool is_needed(const Plan& plan, std::uint32_t host) {
  return std::ranges::any_of(plan.messages,
                             [&](const MessagePlan& message) {
                               return message.from == host || message.to == host;
                             }) ||
         std::ranges::any_of(plan.receives,
                             [&](const ReceivePlan& receive) {
                               return receive.host == host || receive.from == host;
                             }) ||
         std::ranges::any_of(plan.one_sided,
                             [&](const OneSidedPlan& operation) {
                               return operation.from == host || operation.to == host;
                             }) ||
         std::ranges::count(plan.hosts, host, &HostPlan::takes_over) > 0 ||
         std::ranges::any_of(plan.closings,
                             [&](const ClosingPlan& closing) {
                               return closing.host == host || closing.other == host;
                             }) ||
         std::ranges::any_of(
             plan.calls,
             [&](const CallPlan& call) { return call.host == host || call.other == host; }) ||
         std::ranges::any_of(plan.faults, [&](const FaultPlan& fault) {
           return fault.host == host || (uses_other(fault.kind) && fault.other_host == host);
         });
}

// The hosts behind the removed one move up by one.
void remove_host(Plan& plan, std::uint32_t gone) {
  const auto move_up = [gone](std::uint32_t& host) {
    if (host != kAnyHost && host > gone) --host;
  };
  plan.hosts.erase(plan.hosts.begin() + gone);
  for (HostPlan& host : plan.hosts) move_up(host.takes_over);
  for (MessagePlan& message : plan.messages) {
    move_up(message.from);
    move_up(message.to);
  }
  for (ReceivePlan& receive : plan.receives) {
    move_up(receive.host);
    move_up(receive.from);
  }
  for (OneSidedPlan& operation : plan.one_sided) {
    move_up(operation.from);
    move_up(operation.to);
  }
  for (FaultPlan& fault : plan.faults) {
    move_up(fault.host);
    if (uses_other(fault.kind)) move_up(fault.other_host);
  }
  for (CallPlan& call : plan.calls) {
    move_up(call.host);
    move_up(call.other);
  }
  for (ClosingPlan& closing : plan.closings) {
    move_up(closing.host);
    move_up(closing.other);
  }
}

// Keeps only those NICs of one host. Faults keep naming their NICs by the new numbers.
void keep_nics(Plan& plan, std::uint32_t host, Parts kept) {
  std::vector<std::uint32_t> becomes(plan.hosts[host].nics.size(), 0);
  for (std::uint32_t i = 0; i < kept.size(); ++i) becomes[kept[i]] = i;
  plan.hosts[host].nics = only(plan.hosts[host].nics, kept);
  for (FaultPlan& fault : plan.faults) {
    if (fault.host == host) fault.nic = becomes[fault.nic];
    if (uses_other(fault.kind) && fault.other_host == host) {
      fault.other_nic = becomes[fault.other_nic];
    }
  }
}

std::vector<bool> named_nics(const Plan& plan, std::uint32_t host) {
  std::vector<bool> named(plan.hosts[host].nics.size(), false);
  for (const FaultPlan& fault : plan.faults) {
    if (fault.host == host && uses_nic(fault.kind)) named[fault.nic] = true;
    if (uses_other(fault.kind) && fault.other_host == host) named[fault.other_nic] = true;
  }
  return named;
}

// Resets fields that have no meaning, so that they keep nothing in the plan.
void forget_unused(Plan& plan) {
  for (FaultPlan& fault : plan.faults) {
    if (!uses_nic(fault.kind)) fault.nic = 0;
    if (!uses_other(fault.kind)) {
      fault.other_nic = 0;
      if (!is_of_cable(fault)) fault.other_host = 0;
    }
  }
}

}  // namespace

std::vector<std::uint32_t> fewest(std::size_t n, const std::function<bool(Parts)>& fails) {
  std::vector<std::uint32_t> parts(n);
  std::iota(parts.begin(), parts.end(), 0u);
  if (n == 0 || fails({})) return {};
  std::size_t chunk = std::max<std::size_t>(n / 2, 1);
  for (;;) {
    bool spared = false;
    for (std::size_t i = 0; i < parts.size();) {
      const std::size_t end = std::min(i + chunk, parts.size());
      std::vector<std::uint32_t> rest(parts.begin(), parts.begin() + static_cast<long>(i));
      rest.insert(rest.end(), parts.begin() + static_cast<long>(end), parts.end());
      if (!rest.empty() && fails(rest)) {
        parts = std::move(rest);
        spared = true;
      } else {
        i = end;
      }
    }
    if (chunk > 1) {
      chunk /= 2;
    } else if (!spared) {
      return parts;
    }
  }
}

namespace {
// The values of all tunables, in the order of their table.
std::vector<std::uint64_t*> values_of(proto::AllTunables& tunables) {
  std::vector<std::uint64_t*> values;
  proto::for_each_tunable(tunables, [&](std::string_view, std::uint64_t& value, std::uint64_t,
                                        std::uint64_t) { values.push_back(&value); });
  return values;
}

// Where the two differ.
std::vector<std::size_t> odd_ones(proto::AllTunables some, proto::AllTunables others) {
  const std::vector<std::uint64_t*> mine = values_of(some);
  const std::vector<std::uint64_t*> theirs = values_of(others);
  std::vector<std::size_t> odd;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (*mine[i] != *theirs[i]) odd.push_back(i);
  }
  return odd;
}
}  // namespace

std::size_t odd_tunables(const Plan& plan) { return odd_ones(plan.tunables, small_world()).size(); }

bool Shrinker::still_fails(const Plan& plan) {
  if (asked_ >= limit_ || !complaint_about(plan).empty()) return false;
  ++asked_;
  return fails_(plan);
}

bool Shrinker::take(Plan& plan, Plan candidate) {
  if (!still_fails(candidate)) return false;
  plan = std::move(candidate);
  return true;
}

Plan Shrinker::shrink(Plan plan) {
  const auto stage = [&](std::string_view what, void (Shrinker::*cut)(Plan&), auto&& count) {
    const std::size_t before = count(plan);
    (this->*cut)(plan);
    if (count(plan) != before) told_(what, before, count(plan));
  };
  forget_unused(plan);
  for (int round = 0; round < kMostRounds; ++round) {
    const std::size_t before = size_of(plan);
    stage("faults", &Shrinker::cut_faults, [](const Plan& p) { return p.faults.size(); });
    stage("closings", &Shrinker::cut_closings, [](const Plan& p) { return p.closings.size(); });
    stage("calls", &Shrinker::cut_calls, [](const Plan& p) { return p.calls.size(); });
    stage("messages", &Shrinker::cut_messages, [](const Plan& p) { return p.messages.size(); });
    stage("receives", &Shrinker::cut_receives, [](const Plan& p) { return p.receives.size(); });
    stage("one-sided operations", &Shrinker::cut_one_sided,
          [](const Plan& p) { return p.one_sided.size(); });
    stage("hosts", &Shrinker::cut_hosts, [](const Plan& p) { return p.hosts.size(); });
    stage("NICs", &Shrinker::cut_nics, [](const Plan& p) {
      return std::accumulate(
          p.hosts.begin(), p.hosts.end(), std::size_t{0},
          [](std::size_t n, const HostPlan& host) { return n + host.nics.size(); });
    });
    stage("switches", &Shrinker::cut_switches,
          [](const Plan& p) { return std::size_t{p.switches}; });
    stage("odd tunables", &Shrinker::cut_tunables, odd_tunables);
    plain_hosts(plan);
    plain_traffic(plan);
    shorten_faults(plan);
    heal_early(plan);
    if (size_of(plan) >= before || asked_ >= limit_) break;
  }
  return plan;
}

void Shrinker::cut_faults(Plan& plan) {
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.faults = only(plan.faults, kept);
    return candidate;
  };
  plan = with(fewest(plan.faults.size(), [&](Parts kept) { return still_fails(with(kept)); }));
}

void Shrinker::cut_closings(Plan& plan) {
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.closings = only(plan.closings, kept);
    return candidate;
  };
  plan = with(fewest(plan.closings.size(), [&](Parts kept) { return still_fails(with(kept)); }));
  if (!plan.closes_at_end) return;
  Plan candidate = plan;
  candidate.closes_at_end = false;
  (void)take(plan, std::move(candidate));
}

void Shrinker::cut_calls(Plan& plan) {
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.calls = only(plan.calls, kept);
    return candidate;
  };
  plan = with(fewest(plan.calls.size(), [&](Parts kept) { return still_fails(with(kept)); }));
}

void Shrinker::cut_messages(Plan& plan) {
  const std::vector<std::uint32_t> of = messages_of_receives(plan);
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.messages = only(plan.messages, kept);
    candidate.receives.clear();
    for (std::size_t r = 0; r < plan.receives.size(); ++r) {
      if (of[r] == kNone || std::ranges::binary_search(kept, of[r])) {
        candidate.receives.push_back(plan.receives[r]);
      }
    }
    return candidate;
  };
  plan = with(fewest(plan.messages.size(), [&](Parts kept) { return still_fails(with(kept)); }));
}

void Shrinker::cut_receives(Plan& plan) {
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.receives = only(plan.receives, kept);
    return candidate;
  };
  plan = with(fewest(plan.receives.size(), [&](Parts kept) { return still_fails(with(kept)); }));
}

void Shrinker::cut_one_sided(Plan& plan) {
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.one_sided = only(plan.one_sided, kept);
    return candidate;
  };
  plan = with(fewest(plan.one_sided.size(), [&](Parts kept) { return still_fails(with(kept)); }));
}

void Shrinker::cut_hosts(Plan& plan) {
  for (auto host = static_cast<std::uint32_t>(plan.hosts.size()); host-- > 0;) {
    if (plan.hosts.size() == 2) return;
    if (is_needed(plan, host)) continue;
    Plan candidate = plan;
    remove_host(candidate, host);
    (void)take(plan, std::move(candidate));
  }
}

void Shrinker::cut_nics(Plan& plan) {
  for (std::uint32_t host = 0; host < plan.hosts.size(); ++host) {
    const std::vector<bool> named = named_nics(plan, host);
    std::vector<std::uint32_t> spare;
    for (std::uint32_t nic = 0; nic < named.size(); ++nic) {
      if (!named[nic]) spare.push_back(nic);
    }
    if (spare.size() == named.size()) spare.erase(spare.begin());  // one has to stay
    const auto with = [&](Parts kept_of_spare) {
      std::vector<std::uint32_t> kept;
      for (std::uint32_t nic = 0; nic < named.size(); ++nic) {
        const auto place = std::ranges::find(spare, nic);
        const auto i = static_cast<std::uint32_t>(place - spare.begin());
        if (place == spare.end() || std::ranges::find(kept_of_spare, i) != kept_of_spare.end()) {
          kept.push_back(nic);
        }
      }
      Plan candidate = plan;
      keep_nics(candidate, host, kept);
      return candidate;
    };
    plan = with(fewest(spare.size(), [&](Parts kept) { return still_fails(with(kept)); }));
  }
}

void Shrinker::cut_switches(Plan& plan) {
  if (plan.switches == 1 || std::ranges::any_of(plan.faults, is_of_cable)) return;
  Plan candidate = plan;
  candidate.switches = 1;
  candidate.cables.clear();
  for (HostPlan& host : candidate.hosts) {
    for (PortPlan& nic : host.nics) nic.at_switch = 0;
  }
  (void)take(plan, std::move(candidate));
}

void Shrinker::cut_tunables(Plan& plan) {
  const std::vector<std::size_t> odd = odd_ones(plan.tunables, small_world());
  const auto with = [&](Parts kept) {
    Plan candidate = plan;
    candidate.tunables = small_world();
    for (const std::uint32_t i : kept) {
      *values_of(candidate.tunables)[odd[i]] = *values_of(plan.tunables)[odd[i]];
    }
    return candidate;
  };
  plan = with(fewest(odd.size(), [&](Parts kept) { return still_fails(with(kept)); }));
}

// Shortens each fault as much as repeated halving allows.
void Shrinker::shorten_faults(Plan& plan) {
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    for (std::int64_t divisor = 16; divisor > 1;) {
      Plan candidate = plan;
      candidate.faults[i].lasts = plan.faults[i].lasts / divisor;
      if (candidate.faults[i].lasts.ns < 1000 || !take(plan, std::move(candidate))) divisor /= 2;
    }
  }
}

void Shrinker::plain_hosts(Plan& plan) {
  if (!plan.traced) {
    Plan candidate = plan;
    candidate.traced = true;
    (void)take(plan, std::move(candidate));
  }
  if (plan.has_secret) {
    Plan candidate = plan;
    candidate.has_secret = false;
    (void)take(plan, std::move(candidate));
  }
  Plan in_one_network = plan;
  for (HostPlan& host : in_one_network.hosts) {
    for (PortPlan& nic : host.nics) nic.network = 0;
  }
  (void)take(plan, std::move(in_one_network));
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    Plan candidate = plan;
    candidate.hosts[i].takes_over = kAnyHost;
    if (plan.hosts[i].takes_over != kAnyHost) (void)take(plan, candidate);
    candidate = plan;
    candidate.hosts[i].starts = {};
    if (plan.hosts[i].starts.ns > 0) (void)take(plan, std::move(candidate));
  }
  const HostPlan plain{.nics = {}, .nic = {}, .turn = proto::nanoseconds(500)};
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    Plan candidate = plan;
    HostPlan& host = candidate.hosts[i];
    const std::vector<PortPlan> nics = host.nics;
    const bool needs_checksum = host.nic.needs_checksum;  // it must be equal at all hosts
    host = plain;
    host.nic.needs_checksum = needs_checksum;
    host.nics = nics;
    host.starts = plan.hosts[i].starts;
    host.takes_over = plan.hosts[i].takes_over;
    for (PortPlan& nic : host.nics) nic.cable = {};
    if (take(plan, candidate)) continue;
    // If that fails, change it piece by piece.
    candidate = plan;
    candidate.hosts[i].nic = host.nic;
    (void)take(plan, candidate);
    candidate = plan;
    candidate.hosts[i].turn = plain.turn;
    candidate.hosts[i].wake_up = plain.wake_up;
    candidate.hosts[i].clock = plain.clock;
    (void)take(plan, candidate);
    candidate = plan;
    for (PortPlan& nic : candidate.hosts[i].nics) nic.cable = {};
    (void)take(plan, std::move(candidate));
  }
}

void Shrinker::plain_traffic(Plan& plan) {
  for (std::size_t i = 0; i < plan.messages.size(); ++i) {
    Plan candidate = plan;
    MessagePlan& message = candidate.messages[i];
    message.level = Level::accepted;
    message.hint = {};
    message.cancelled_after = {};
    message.pieces = 0;
    (void)take(plan, std::move(candidate));
    for (std::uint64_t divisor = 16; divisor > 1 && plan.messages[i].bytes > 0;) {
      candidate = plan;
      candidate.messages[i].bytes /= divisor;
      if (!take(plan, std::move(candidate))) divisor /= 2;
    }
  }
  for (std::size_t i = 0; i < plan.one_sided.size(); ++i) {
    Plan candidate = plan;
    candidate.one_sided[i].strong = candidate.one_sided[i].signals =
        candidate.one_sided[i].notifies = false;
    (void)take(plan, std::move(candidate));
    for (std::uint64_t divisor = 16; divisor > 1 && plan.one_sided[i].bytes > 0;) {
      candidate = plan;
      candidate.one_sided[i].bytes /= divisor;
      if (!take(plan, std::move(candidate))) divisor /= 2;
    }
  }
  for (std::size_t i = 0; i < plan.receives.size(); ++i) {
    Plan candidate = plan;
    ReceivePlan& receive = candidate.receives[i];
    receive.claims = receive.puts_back = false;
    receive.held = {};
    receive.mask = ~std::uint64_t{0};
    receive.cancelled_after = {};
    receive.pieces = 0;
    (void)take(plan, std::move(candidate));
  }
}

void Shrinker::heal_early(Plan& plan) {
  Duration last = last_end(plan);
  for (const MessagePlan& message : plan.messages) last = std::max(last, message.at);
  for (const ReceivePlan& receive : plan.receives) last = std::max(last, receive.at);
  for (const OneSidedPlan& operation : plan.one_sided) last = std::max(last, operation.at);
  if (last >= plan.heals_at) return;
  Plan candidate = plan;
  candidate.heals_at = last;
  (void)take(plan, std::move(candidate));
}

}  // namespace hawser::sim
