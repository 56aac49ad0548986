// SPDX-License-Identifier: Apache-2.0
#include "tool/storm/plan_text.hpp"

#include <iterator>

#include <fmt/format.h>

#include "sim/storm/plan_check.hpp"

namespace hawser::tool {
namespace {

using sim::FaultKind;
using Out = std::back_insert_iterator<std::string>;

std::string cable_text(const sim::LinkConfig& link) {
  return fmt::format("{:g} Gb/s, {}, queue {} B{}", 8e-9 * static_cast<double>(link.bytes_per_s),
                     span_text(link.latency), link.queue_bytes,
                     link.mark_bytes > 0 ? fmt::format(", marks at {} B", link.mark_bytes) : "");
}

void add_topology(Out out, const sim::Plan& plan) {
  fmt::format_to(out, "topology: {} hosts, {} switches\n", plan.hosts.size(), plan.switches);
  for (std::size_t i = 0; i < plan.cables.size(); ++i) {
    const sim::CablePlan& cable = plan.cables[i];
    fmt::format_to(out, "  cable {}: s{} to s{}, {}\n", i, cable.a, cable.b,
                   cable_text(cable.link));
  }
  for (std::uint32_t h = 0; h < plan.hosts.size(); ++h) {
    const sim::HostPlan& host = plan.hosts[h];
    const sim::NicConfig& nic = host.nic;
    fmt::format_to(out,
                   "  {}: a turn takes {}, waking {}; datagrams {} B, bursts {}, entropies {}, "
                   "slots {} to send, {} data, {} control{}\n",
                   host_name(h), span_text(host.turn), span_text(host.wake_up),
                   nic.max_datagram_bytes, nic.burst, nic.entropies, nic.send_slots, nic.data_slots,
                   nic.control_slots, nic.needs_checksum ? "" : ", no checksum");
    if (host.starts.ns > 0) {
      fmt::format_to(out, "    starts at {}{}\n", span_text(host.starts),
                     host.takes_over == sim::kAnyHost
                         ? ""
                         : fmt::format(", with the addresses of {}", host_name(host.takes_over)));
    }
    for (std::uint32_t n = 0; n < host.nics.size(); ++n) {
      const std::uint32_t network = host.nics[n].network;
      fmt::format_to(out, "    {} at s{}, {}{}\n", nic_name(h, n), host.nics[n].at_switch,
                     cable_text(host.nics[n].cable),
                     network == 0 ? "" : fmt::format(", in network {}", network));
    }
  }
}

void add_tunables(Out out, const sim::Plan& plan) {
  const proto::AllTunables base = sim::small_world();
  fmt::format_to(out, "tunables that differ from the small world's:{}\n",
                 plan.has_secret ? " (and there is a secret)" : "");
  for (const TunableRow& row : kTunables) {
    if (plan.tunables.*row.field == base.*row.field) continue;
    fmt::format_to(out, "  {} {} {} (else {})\n", row.name, plan.tunables.*row.field, row.unit,
                   base.*row.field);
  }
  for (const proto::MechanismRow& row : proto::kMechanisms) {
    if (plan.tunables.*row.field != 0) continue;
    fmt::format_to(out, "  {} off\n", row.name);
  }
}

void add_traffic(Out out, const sim::Plan& plan) {
  fmt::format_to(out, "messages:\n");
  for (std::uint32_t i = 0; i < plan.messages.size(); ++i) {
    const sim::MessagePlan& message = plan.messages[i];
    fmt::format_to(out, "  {}  {}, channel {}{}", time_text(message.at), message_text(plan, i),
                   message.channel, message.level == Level::delivered ? ", synchronous" : "");
    if (message.pieces > 0) fmt::format_to(out, ", from {} pieces", message.pieces);
    if (message.hint.group != 0) {
      fmt::format_to(out, ", group {}, step {} of {}", message.hint.group, message.hint.step,
                     message.hint.steps);
    }
    if (message.hint.priority != 0) fmt::format_to(out, ", priority {}", message.hint.priority);
    if (message.cancelled_after.ns > 0) {
      fmt::format_to(out, ", cancelled after {}", span_text(message.cancelled_after));
    }
    fmt::format_to(out, "\n");
  }
  fmt::format_to(out, "receives:\n");
  for (const sim::ReceivePlan& receive : plan.receives) {
    fmt::format_to(out, "  {}  at {} from {}, {} bytes, channel {}, tag {}", time_text(receive.at),
                   host_name(receive.host), host_name(receive.from), receive.bytes, receive.channel,
                   receive.tag);
    if (receive.mask != ~std::uint64_t{0}) fmt::format_to(out, ", mask {:x}", receive.mask);
    if (receive.pieces > 0) fmt::format_to(out, ", into {} pieces", receive.pieces);
    if (receive.claims) fmt::format_to(out, ", by a claim");
    if (receive.puts_back) fmt::format_to(out, ", claims and puts back");
    if (receive.held.ns > 0) fmt::format_to(out, " after {}", span_text(receive.held));
    if (receive.cancelled_after.ns > 0) {
      fmt::format_to(out, ", cancelled after {}", span_text(receive.cancelled_after));
    }
    fmt::format_to(out, "\n");
  }
}

// The meaning of `amount` and `delay`.
std::string strength(const sim::FaultPlan& fault) {
  const double percent = 100 * fault.amount;
  switch (fault.kind) {
    case FaultKind::loss:
    case FaultKind::duplicate:
    case FaultKind::corrupt:
    case FaultKind::truncate:
    case FaultKind::garbled:
    case FaultKind::forged: return fmt::format(", {:g}% of the frames", percent);
    case FaultKind::burst_loss: return fmt::format(", bursts begin with {:g}%", percent);
    case FaultKind::partial_bursts: return fmt::format(", {:g}% of the bursts", percent);
    case FaultKind::reorder:
    case FaultKind::straggle:
    case FaultKind::spike:
      return fmt::format(", {:g}% of the frames by {}", percent, span_text(fault.delay));
    case FaultKind::slow: return fmt::format(", {:g} times slower", fault.amount);
    case FaultKind::overrun: return fmt::format(", {:g} packets", fault.amount);
    case FaultKind::narrow: return fmt::format(", {:g} bytes", fault.amount);
    case FaultKind::stale_epoch: return fmt::format(", lower by {:g}", fault.amount);
    case FaultKind::strangers: return fmt::format(", {:g} of them", fault.amount);
    default: return fault.delay.ns > 0 ? ", by " + span_text(fault.delay) : "";
  }
}

}  // namespace

std::string time_text(proto::Duration time) {
  return fmt::format("{:>13.6f} ms", 1e-6 * static_cast<double>(time.ns));
}

std::string span_text(proto::Duration span) {
  const auto ns = static_cast<double>(span.ns);
  if (span.ns < 1000) return fmt::format("{} ns", span.ns);
  if (span.ns < 1'000'000) return fmt::format("{:.4g} us", 1e-3 * ns);
  return fmt::format("{:.6g} ms", 1e-6 * ns);
}

std::string host_name(std::uint32_t host) {
  return host == sim::kAnyHost ? "anyone" : fmt::format("h{}", host);
}

std::string nic_name(std::uint32_t host, std::uint32_t nic) {
  return fmt::format("h{}.n{}", host, nic);
}

std::string message_text(const sim::Plan& plan, std::uint32_t index) {
  const sim::MessagePlan& message = plan.messages[index];
  return fmt::format("message {} ({} to {}, {} bytes, tag {})", index, host_name(message.from),
                     host_name(message.to), message.bytes, message.tag);
}

std::string one_sided_text(const sim::Plan& plan, std::uint32_t index) {
  const sim::OneSidedPlan& operation = plan.one_sided[index];
  std::string text = fmt::format("one-sided operation {}: {} ", index,
                                 sim::kOneSidedNames[static_cast<std::size_t>(operation.kind)]);
  if (operation.kind == sim::OneSidedKind::withdraw)
    return text + "at " + host_name(operation.from);
  text += fmt::format("from {} at {}, channel {}", host_name(operation.from),
                      host_name(operation.to), operation.channel);
  using enum sim::OneSidedKind;
  if (operation.kind == write || operation.kind == read)
    text += fmt::format(", {} bytes", operation.bytes);
  if (operation.kind == add || operation.kind == fetch_add || operation.signals)
    text += fmt::format(", word {}", operation.word);
  if (sim::is_chained(operation.kind)) text += fmt::format(", chained word {}", operation.word);
  if (operation.signals) text += " as its signal";
  if (operation.notifies) text += ", notifies";
  if (operation.strong) text += ", strong";
  if (operation.key != sim::KeyKind::right)
    text += fmt::format(", {} key", sim::kKeyNames[static_cast<std::size_t>(operation.key)]);
  return text;
}

std::string fault_text(const sim::FaultPlan& fault) {
  std::string where;
  if (sim::is_of_cable(fault)) {
    where = fmt::format("cable {}", fault.other_host);
  } else {
    where = sim::uses_nic(fault.kind) ? nic_name(fault.host, fault.nic) : host_name(fault.host);
    if (sim::uses_other(fault.kind)) {
      where += (sim::is_directed(fault.kind) ? " to " : " and ") +
               nic_name(fault.other_host, fault.other_nic);
    }
  }
  return fmt::format("{} of {}{}, for {}", sim::kFaultNames[static_cast<std::size_t>(fault.kind)],
                     where, strength(fault), span_text(fault.lasts));
}

std::string closing_text(const sim::ClosingPlan& closing) {
  return closing.other == sim::kAnyHost
             ? host_name(closing.host) + " closes"
             : fmt::format("{} disconnects {}", host_name(closing.host), host_name(closing.other));
}

std::string call_text(const sim::CallPlan& call) {
  return fmt::format("{} calls {} ({}), way {}", host_name(call.host),
                     sim::kCallNames[static_cast<std::size_t>(call.kind)], host_name(call.other),
                     call.dice);
}

std::string plan_text(const sim::Plan& plan) {
  std::string text;
  const auto out = std::back_inserter(text);
  add_topology(out, plan);
  add_tunables(out, plan);
  add_traffic(out, plan);
  if (!plan.one_sided.empty()) fmt::format_to(out, "one-sided operations:\n");
  for (std::uint32_t i = 0; i < plan.one_sided.size(); ++i)
    fmt::format_to(out, "  {}  {}\n", time_text(plan.one_sided[i].at), one_sided_text(plan, i));
  if (!plan.calls.empty()) fmt::format_to(out, "calls:\n");
  for (const sim::CallPlan& call : plan.calls) {
    fmt::format_to(out, "  {}  {}\n", time_text(call.at), call_text(call));
  }
  if (!plan.closings.empty()) fmt::format_to(out, "closings:\n");
  for (const sim::ClosingPlan& closing : plan.closings) {
    fmt::format_to(out, "  {}  {}\n", time_text(closing.at), closing_text(closing));
  }
  fmt::format_to(out, "faults:\n");
  for (const sim::FaultPlan& fault : plan.faults) {
    fmt::format_to(out, "  {}  {}\n", time_text(fault.at), fault_text(fault));
  }
  fmt::format_to(out, "  {}  all is healed\n", time_text(plan.heals_at));
  if (!plan.traced) fmt::format_to(out, "  the protocol is not traced\n");
  if (plan.closes_at_end) fmt::format_to(out, "  when all is quiet, everybody closes\n");
  return text;
}

}  // namespace hawser::tool
