#include "sim/storm/plan_check.hpp"

#include <algorithm>

#include "proto/endpoint.hpp"

namespace hawser::sim {

namespace {

// So that all sums of times are far from overflow.
constexpr proto::Duration kLongest = proto::milliseconds(std::uint64_t{24} * 3600 * 1000);
constexpr std::size_t kMostHosts = 64;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

class Check {
 public:
  explicit Check(const Plan& plan) : plan_(plan) {}

  [[nodiscard]] std::string run() {
    check_tunables();
    check_topology();
    if (what_.empty()) check_hosts();
    if (what_.empty()) check_traffic();
    if (what_.empty()) check_faults();
    if (what_.empty()) check_closings();
    if (what_.empty()) check_calls();
    return what_;
  }

 private:
  void demand(bool holds, std::string_view what) {
    if (!holds && what_.empty()) what_.append(where_).append(what);
  }
  void at(std::string_view list, std::size_t i) {
    where_ = std::string(list) + "[" + std::to_string(i) + "]: ";
  }
  void demand_time(proto::Duration time, std::string_view name) {
    demand(time.ns >= 0 && time <= kLongest, std::string(name) + " is not within 0 to a day");
  }
  void demand_chance(double chance, std::string_view name) {
    demand(chance >= 0 && chance <= 1e9, std::string(name) + " is not within its range");
  }
  void check_link(const LinkConfig& link) {
    demand(link.bytes_per_s >= 1000, "a rate below 1000 bytes/s");
    demand_time(link.latency, "latency");
  }

  void check_tunables() {
    where_ = "tunables: ";
    for (const TunableRow& row : kTunables) {
      const std::uint64_t value = plan_.tunables.*row.field;
      demand(value >= row.minimum && value <= row.maximum,
             std::string(row.name) + " is out of its range");
    }
    demand(plan_.tunables.max_peers >= plan_.hosts.size(), "max_peers is less than the hosts");
    where_ = "plan: ";
    demand_time(plan_.heals_at, "heals_at");
  }
  void check_topology() {
    where_ = "plan: ";
    demand(plan_.switches >= 1 && plan_.switches <= 1024, "switches are not 1 to 1024");
    demand(plan_.hosts.size() >= 2 && plan_.hosts.size() <= kMostHosts, "hosts are not 2 to 64");
    for (std::size_t i = 0; i < plan_.cables.size(); ++i) {
      at("cables", i);
      const CablePlan& cable = plan_.cables[i];
      demand(cable.a < plan_.switches && cable.b < plan_.switches && cable.a != cable.b,
             "no such pair of switches");
      check_link(cable.link);
    }
  }
  void check_hosts() {
    for (std::size_t i = 0; i < plan_.hosts.size(); ++i) {
      at("hosts", i);
      const HostPlan& host = plan_.hosts[i];
      demand(!host.nics.empty() && host.nics.size() <= proto::Endpoint::kMaxNics,
             "NICs are not 1 to 16");
      for (const PortPlan& nic : host.nics) {
        demand(nic.at_switch < plan_.switches, "no such switch");
        check_link(nic.cable);
      }
      demand(host.nic.max_datagram_bytes >= 512 && host.nic.max_datagram_bytes <= 65507,
             "max_datagram_bytes is not 512 to 65507");
      demand(host.nic.max_datagram_bytes >= 144 + 48 * host.nics.size(),
             "datagrams too small to name all NICs in one");
      demand(host.nic.burst >= 1 && host.nic.entropies >= 1, "burst or entropies are 0");
      demand(host.nic.send_slots >= 1 && host.nic.data_slots >= 1 && host.nic.control_slots >= 1,
             "a ring without slots");
      demand(host.turn.ns >= 1 && host.turn <= kLongest, "a turn takes no time");
      demand_time(host.wake_up, "wake_up");
      demand_time(host.clock, "clock");
    }
  }
  void check_traffic() {
    for (std::size_t i = 0; i < plan_.messages.size(); ++i) {
      at("messages", i);
      const MessagePlan& message = plan_.messages[i];
      demand(message.from < plan_.hosts.size() && message.to < plan_.hosts.size() &&
                 message.from != message.to,
             "no such pair of hosts");
      demand(message.bytes <= kMostBytes, "more than 1 GiB");
      demand_time(message.at, "at");
      demand_time(message.cancelled_after, "cancelled_after");
    }
    for (std::size_t i = 0; i < plan_.receives.size(); ++i) {
      at("receives", i);
      const ReceivePlan& receive = plan_.receives[i];
      demand(receive.host < plan_.hosts.size(), "no such host");
      demand(receive.from == kAnyHost ||
                 (receive.from < plan_.hosts.size() && receive.from != receive.host),
             "no such sender");
      demand(receive.bytes <= kMostBytes, "more than 1 GiB");
      demand(!(receive.claims && receive.puts_back), "it claims and puts back");
      demand_time(receive.at, "at");
      demand_time(receive.cancelled_after, "cancelled_after");
      demand_time(receive.held, "held");
      demand(receive.held.ns == 0 || receive.claims || receive.puts_back, "it holds no claim");
    }
  }
  void check_faults() {
    for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
      at("faults", i);
      const FaultPlan& fault = plan_.faults[i];
      demand_time(fault.at, "at");
      demand_time(fault.lasts, "lasts");
      demand_time(fault.delay, "delay");
      demand_chance(fault.amount, "amount");
      demand(fault.kind != FaultKind::slow || fault.amount >= 1, "slower by less than 1");
      demand(fault.kind != FaultKind::overrun || fault.amount >= 1, "a ring without slots");
      demand(fault.kind != FaultKind::strangers || fault.amount <= 1000, "more than 1000");
      demand(fault.host < plan_.hosts.size() && fault.nic < plan_.hosts[fault.host].nics.size(),
             "no such NIC");
      demand(fault.at + fault.lasts <= plan_.heals_at, "it ends after heals_at");
      if (!what_.empty()) return;
      if (is_of_cable(fault)) {
        demand(fault.other_host < plan_.cables.size(), "no such cable");
      } else if (uses_other(fault.kind)) {
        demand(fault.other_host < plan_.hosts.size() && fault.other_host != fault.host &&
                   fault.other_nic < plan_.hosts[fault.other_host].nics.size(),
               "no such other NIC");
      }
    }
  }

  void check_closings() {
    for (std::size_t i = 0; i < plan_.closings.size(); ++i) {
      at("closings", i);
      const ClosingPlan& closing = plan_.closings[i];
      demand_time(closing.at, "at");
      demand(closing.host < plan_.hosts.size(), "no such host");
      demand(closing.other == kAnyHost ||
                 (closing.other < plan_.hosts.size() && closing.other != closing.host),
             "no such other host");
    }
  }

  void check_calls() {
    for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
      at("calls", i);
      const CallPlan& call = plan_.calls[i];
      demand_time(call.at, "at");
      demand(call.host < plan_.hosts.size() && call.other < plan_.hosts.size() &&
                 call.host != call.other,
             "no such pair of hosts");
    }
  }

  const Plan& plan_;
  std::string where_;
  std::string what_;
};

}  // namespace

bool is_of_cable(const FaultPlan& fault) {
  return fault.kind == FaultKind::flap && fault.amount > 0;
}

bool uses_nic(FaultKind kind) {
  switch (kind) {
    case FaultKind::loss:
    case FaultKind::burst_loss:
    case FaultKind::duplicate:
    case FaultKind::reorder:
    case FaultKind::straggle:
    case FaultKind::corrupt:
    case FaultKind::truncate:
    case FaultKind::partition:
    case FaultKind::pause:
    case FaultKind::absence:
    case FaultKind::announced:
    case FaultKind::late_host:
    case FaultKind::clock_jump:
    case FaultKind::crash:
    case FaultKind::no_buffers:
    case FaultKind::restart: return false;
    default: return true;
  }
}

bool uses_other(FaultKind kind) {
  return kind == FaultKind::one_way || kind == FaultKind::both_ways ||
         kind == FaultKind::both_move || kind == FaultKind::strangers;
}

std::string complaint_about(const Plan& plan) { return Check(plan).run(); }

}  // namespace hawser::sim
