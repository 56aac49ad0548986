// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/plan_check.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "proto/endpoint.hpp"
#include "proto/message/channel_order.hpp"
#include "sim/storm/one_sided.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;

// Keeps all sums of times far from overflow.
constexpr Duration kLongest = proto::milliseconds(std::uint64_t{24} * 3600 * 1000);
constexpr std::size_t kMostHosts = 64;
// A limit for all messages, and for all receives' buffers.
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
// The protocol may take a usable fabric and hosts for granted. The judge knows of faults that come
// and go, not of a cable that is too slow for any message to complete in time.
constexpr std::uint64_t kSlowest = 10'000'000;
constexpr std::uint64_t kFastest = 1'000'000'000'000;
constexpr Duration kMostLatency = proto::milliseconds(1);
constexpr Duration kMostTurn = proto::microseconds(100);
constexpr Duration kMostWakeUp = proto::milliseconds(1);
constexpr double kMostAmount = 1e9;
constexpr std::uint32_t kLeastDatagram = 512;
constexpr std::uint32_t kMostDatagram = 65507;

std::string range_text(std::uint64_t least, std::uint64_t most) {
  return std::to_string(least) + " to " + std::to_string(most);
}

class Check {
 public:
  explicit Check(const Plan& plan) : plan_(plan) {}

  [[nodiscard]] std::string run() {
    check_tunables();
    check_topology();
    if (what_.empty()) check_hosts();
    if (what_.empty()) check_ways();
    if (what_.empty()) check_messages();
    if (what_.empty()) check_receives();
    if (what_.empty()) check_one_sided();
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
  void at(std::string_view list, std::size_t i, std::string_view inner, std::size_t k) {
    at(inner, k);
    where_ = std::string(list) + "[" + std::to_string(i) + "]." + where_;
  }
  void demand_within(std::uint64_t value, std::uint64_t least, std::uint64_t most,
                     std::string_view name) {
    if (value >= least && value <= most) return;
    demand(false,
           std::string(name) + " is " + std::to_string(value) + ", not " + range_text(least, most));
  }
  void demand_time(Duration time, std::string_view name, Duration most = kLongest,
                   Duration least = {}) {
    if (time >= least && time <= most) return;
    demand(false, std::string(name) + " is " + std::to_string(time.ns) + ", not " +
                      range_text(static_cast<std::uint64_t>(least.ns),
                                 static_cast<std::uint64_t>(most.ns)));
  }
  void demand_channel(std::uint16_t channel) {
    if (channel == 0 || channel == 1 || channel == kCollectiveChannel) return;
    demand(false, "channel is " + std::to_string(channel) +
                      ", which no host looks at; valid ones are 0, 1 and " +
                      std::to_string(kCollectiveChannel));
  }
  void demand_pieces(std::uint32_t pieces) {
    demand(pieces <= kMostPieces, "it has more than " + std::to_string(kMostPieces) + " pieces");
  }
  void demand_channel_of_one_sided(std::uint16_t channel) {
    demand(channel < proto::ChannelOrder::kMostChannels,
           "channel is " + std::to_string(channel) + ", beyond those that a peer may use");
  }
  void demand_sum(std::uint64_t& sum, std::uint64_t bytes) {
    sum = bytes > kMostBytes ? kMostBytes + 1 : std::min(sum + bytes, kMostBytes + 1);
    demand(sum <= kMostBytes,
           "bytes up to here are more than " + std::to_string(kMostBytes) + " in all");
  }
  void check_link(const LinkConfig& link) {
    demand_within(link.bytes_per_s, kSlowest, kFastest, "bytes_per_s");
    demand_time(link.latency, "latency_ns", kMostLatency);
    for (const HostPlan& host : plan_.hosts) {
      demand(link.queue_bytes >= host.nic.max_datagram_bytes,
             "queue_bytes is " + std::to_string(link.queue_bytes) + ", less than a datagram of " +
                 std::to_string(host.nic.max_datagram_bytes));
    }
  }

  void check_tunables() {
    where_ = "tunables: ";
    proto::for_each_tunable(plan_.tunables,
                            [&](std::string_view name, std::uint64_t value, std::uint64_t least,
                                std::uint64_t most) { demand_within(value, least, most, name); });
    where_.clear();
    demand_time(plan_.heals_at, "heals_at_ns");
  }
  void check_topology() {
    where_.clear();
    demand_within(plan_.switches, 1, 1024, "switches");
    demand_within(plan_.hosts.size(), 2, kMostHosts, "the number of hosts");
    for (std::size_t i = 0; i < plan_.cables.size(); ++i) {
      at("cables", i);
      const CablePlan& cable = plan_.cables[i];
      demand(cable.a < plan_.switches && cable.b < plan_.switches && cable.a != cable.b,
             "no such pair of switches");
      check_link(cable.link);
    }
  }
  // Joins switches: each gets the lowest number among those that cables connect it with.
  void check_ways() {
    std::vector<std::uint32_t> least(plan_.switches);
    std::iota(least.begin(), least.end(), 0u);
    for (bool changed = true; changed;) {
      changed = false;
      for (const CablePlan& cable : plan_.cables) {
        std::uint32_t& a = least[cable.a];
        std::uint32_t& b = least[cable.b];
        changed = changed || a != b;
        a = b = std::min(a, b);
      }
    }
    check_networks();
    const std::uint32_t first = plan_.hosts[0].nics[0].at_switch;
    for (std::size_t i = 0; i < plan_.hosts.size(); ++i) {
      for (std::size_t nic = 0; nic < plan_.hosts[i].nics.size(); ++nic) {
        at("hosts", i, "nics", nic);
        const std::uint32_t own = plan_.hosts[i].nics[nic].at_switch;
        if (least[own] == least[first]) continue;
        demand(false, "no cable joins its switch " + std::to_string(own) + " with switch " +
                          std::to_string(first) + " of hosts[0].nics[0]");
      }
    }
  }
  // Each host must have a NIC that can address one of each other host.
  void check_networks() {
    for (std::size_t a = 0; a < plan_.hosts.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        at("hosts", a);
        const bool meet = std::ranges::any_of(plan_.hosts[a].nics, [&](const PortPlan& nic) {
          return std::ranges::count(plan_.hosts[b].nics, nic.network, &PortPlan::network) > 0;
        });
        demand(meet, "no NIC of it is in a network of hosts[" + std::to_string(b) + "]");
      }
    }
  }
  void check_hosts() {
    for (std::size_t i = 0; i < plan_.hosts.size(); ++i) {
      at("hosts", i);
      const HostPlan& host = plan_.hosts[i];
      demand_within(host.nics.size(), 1, proto::Endpoint::kMaxNics, "the number of NICs");
      for (std::size_t nic = 0; nic < host.nics.size(); ++nic) {
        at("hosts", i, "nics", nic);
        demand_within(host.nics[nic].at_switch, 0, plan_.switches - 1, "switch");
        check_link(host.nics[nic].cable);
        demand_within(host.nics[nic].network, 0, 255, "network");
      }
      at("hosts", i);
      demand_within(host.nic.max_datagram_bytes, kLeastDatagram, kMostDatagram,
                    "max_datagram_bytes");
      demand(host.nic.max_datagram_bytes >= 144 + 48 * host.nics.size(),
             "datagrams too small to name all NICs in one");
      demand(host.nic.burst >= 1 && host.nic.entropies >= 1, "burst or entropies are 0");
      demand(host.nic.send_slots >= 1 && host.nic.data_slots >= 1 && host.nic.control_slots >= 1,
             "a ring without slots");
      demand(host.nic.needs_checksum == plan_.hosts[0].nic.needs_checksum,
             "needs_checksum differs from that of hosts[0]: both ends must agree");
      demand_time(host.turn, "turn_ns", kMostTurn, Duration{1});
      demand_time(host.wake_up, "wake_up_ns", kMostWakeUp);
      demand_time(host.clock, "clock_ns");
      demand_time(host.starts, "starts_ns");
      if (host.takes_over == kAnyHost) continue;
      demand(host.takes_over < plan_.hosts.size() && host.takes_over != i && host.starts.ns > 0,
             "it can't take over the addresses of that host");
      demand(!what_.empty() || plan_.hosts[host.takes_over].nics.size() == host.nics.size(),
             "it takes over the addresses of a host with more NICs, or fewer");
    }
  }
  void check_messages() {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < plan_.messages.size(); ++i) {
      at("messages", i);
      const MessagePlan& message = plan_.messages[i];
      demand(message.from < plan_.hosts.size() && message.to < plan_.hosts.size() &&
                 message.from != message.to,
             "no such pair of hosts");
      demand_channel(message.channel);
      demand_sum(bytes, message.bytes);
      demand_time(message.at, "at_ns");
      demand_time(message.cancelled_after, "cancelled_after_ns");
      demand_pieces(message.pieces);
    }
  }
  void check_receives() {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < plan_.receives.size(); ++i) {
      at("receives", i);
      const ReceivePlan& receive = plan_.receives[i];
      demand(receive.host < plan_.hosts.size(), "no such host");
      demand(receive.from == kAnyHost ||
                 (receive.from < plan_.hosts.size() && receive.from != receive.host),
             "no such sender");
      demand_channel(receive.channel);
      demand_sum(bytes, receive.bytes);
      demand(!(receive.claims && receive.puts_back), "it claims and puts back");
      demand_time(receive.at, "at_ns");
      demand_time(receive.cancelled_after, "cancelled_after_ns");
      demand_time(receive.held, "held_ns");
      demand_pieces(receive.pieces);
      demand(receive.held.ns == 0 || receive.claims || receive.puts_back, "it holds no claim");
    }
  }
  void check_one_sided() {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < plan_.one_sided.size(); ++i) {
      at("one_sided", i);
      const OneSidedPlan& operation = plan_.one_sided[i];
      demand(operation.from < plan_.hosts.size() && operation.to < plan_.hosts.size() &&
                 operation.from != operation.to,
             "no such pair of hosts");
      demand_channel_of_one_sided(operation.channel);
      demand_sum(bytes, operation.bytes);
      demand(operation.kind != OneSidedKind::read || operation.bytes <= OneSided::kPage,
             "it reads beyond the page");
      demand(operation.word < (is_chained(operation.kind) ? OneSided::kChains : OneSided::kWords),
             "no such word");
      demand_time(operation.at, "at_ns");
    }
  }
  void check_faults() {
    for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
      at("faults", i);
      const FaultPlan& fault = plan_.faults[i];
      demand_time(fault.at, "at_ns");
      demand_time(fault.lasts, "lasts_ns");
      demand_time(fault.delay, "delay_ns");
      demand(fault.amount >= 0 && fault.amount <= kMostAmount, "amount is not 0 to 1e9");
      demand(fault.kind != FaultKind::slow || fault.amount >= 1, "slower by less than 1");
      demand(fault.kind != FaultKind::overrun || fault.amount >= 1, "a ring without slots");
      demand(fault.kind != FaultKind::stands || fault.amount <= 2, "no such place in a turn");
      demand(fault.kind != FaultKind::strangers || fault.amount <= 1000, "more than 1000");
      demand(fault.kind != FaultKind::stale_epoch || fault.amount <= 1000,
             "back by more than 1000");
      demand(fault.kind != FaultKind::narrow || fault.amount >= 1, "a way that carries nothing");
      demand(fault.host < plan_.hosts.size() && fault.nic < plan_.hosts[fault.host].nics.size(),
             "no such NIC");
      demand(fault.at + fault.lasts <= plan_.heals_at, "it ends after heals_at_ns");
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
      demand_time(closing.at, "at_ns");
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
      demand_time(call.at, "at_ns");
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
    case FaultKind::stands:
    case FaultKind::stale_epoch:
    case FaultKind::restart: return false;
    default: return true;
  }
}

bool uses_other(FaultKind kind) {
  return is_directed(kind) || kind == FaultKind::both_ways || kind == FaultKind::both_move ||
         kind == FaultKind::strangers || kind == FaultKind::narrow;
}

bool is_directed(FaultKind kind) {
  return kind == FaultKind::one_way || kind == FaultKind::deaf_queue;
}

proto::Queue queue_of(const FaultPlan& fault) {
  return fault.amount > 0 ? proto::Queue::control : proto::Queue::data;
}

std::string complaint_about(const Plan& plan) { return Check(plan).run(); }

}  // namespace hawser::sim
