// SPDX-License-Identifier: Apache-2.0
#include "tool/info/info.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include "engine/descriptor.hpp"
#include "engine/driver/udp/udp_address.hpp"
#include "engine/driver/udp/udp_way.hpp"
#include "engine/driver/verbs/verbs.hpp"
#include "engine/host/host_limits.hpp"
#include "engine/host/nic_list.hpp"
#include "engine/host/nic_spec.hpp"
#include "engine/registration/endpoint_memory.hpp"
#include "engine/settings.hpp"
#include "hawser/engine.hpp"
#include "hawser/nics.hpp"
#include "hawser/tunables.hpp"
#include "tool/error.hpp"
#include "tool/run/memory.hpp"

namespace hawser::tool {
namespace {

std::string state_text(const HostNic& nic) {
  std::string text = nic.up ? "up" : "down";
  switch (nic.address_state) {
    case AddressState::preferred: break;
    case AddressState::deprecated: text += ", deprecated"; break;
    case AddressState::tentative: text = "tentative"; break;
    case AddressState::duplicate: text = "duplicate"; break;
  }
  if (nic.mtu > 0) text += fmt::format(", MTU {}", nic.mtu);
  return text;
}

std::string list_to_explain(const std::string& nics) {
  const char* const variable = std::getenv("HAWSER_NICS");
  return nics.empty() && variable != nullptr ? variable : nics;
}

std::string roce_text(const Tunables& tunables) {
  const std::vector<std::uint16_t> ports = engine::roce_source_ports();
  constexpr unsigned kEcnBits = 2;
  constexpr unsigned kEcnCapable = 2;  // ECT(0)
  const std::uint64_t dscp = tunables.verbs_traffic_class >> kEcnBits;
  return fmt::format(
      "  {:<40} {}, in turn\n"
      "  {:<40} {}: DSCP {}, ECN-capable (a TOS byte of {:#04x}); priority {}\n",
      "UDP source ports of RoCE", fmt::join(ports, " "), "traffic class of RoCE",
      tunables.verbs_traffic_class, dscp, dscp << kEcnBits | kEcnCapable,
      tunables.verbs_service_level);
}

std::string infiniband_text(const Tunables& tunables) {
  return fmt::format("  {:<40} {}; packets have no traffic class there\n",
                     "service level of InfiniBand", tunables.verbs_service_level);
}

std::string rdma_text() {
  std::string text = "RDMA devices\n";
  const std::vector<engine::VerbsPortInfo> ports = engine::verbs_ports();
  for (const engine::VerbsPortInfo& port : ports) {
    text += fmt::format("  {:<40} {}\n", engine::verbs_name(port.name), port.description);
  }
  Tunables tunables;
  engine::apply_environment(tunables);
  text += fmt::format("  {:<40} {}\n", "registration cache",
                      engine::describe_registration_cache(tunables));
  if (!ports.empty()) {
    return text + verbs_packets_text(tunables, ports) +
           "  Hawser uses a port's first GID of RoCE v2 over IPv4, else over routed IPv6, else "
           "over link-local IPv6,\n"
           "  and never one of RoCE v1; verbs:DEVICE[:PORT]@GID_INDEX selects another "
           "(`ibv_devinfo -v` lists them)\n";
  }
  if (!engine::has_verbs()) return text + "  this build has no libibverbs, and so no verbs NICs\n";
  // The kernel's own list: a device may be there without a driver in user space.
  const std::vector<std::string> known = rdma_devices();
  std::error_code error;
  if (known.empty() && !std::filesystem::exists("/sys/class", error)) {
    return text + "  unknown: /sys is not mounted here, where Linux lists them\n";
  }
  if (known.empty()) return text + "  none: this host has only UDP NICs\n";
  for (const std::string& name : known) {
    text += fmt::format("  {:<40} no driver in user space; install ibverbs-providers\n", name);
  }
  return text;
}

std::string limits_text() {
  std::string text = "Limits\n";
  Tunables tunables;
  engine::apply_environment(tunables);
  engine::HostLimits limits = engine::read_host_limits();
  const std::uint64_t available = available_memory_bytes();  // as `hawser run` sees it
  if (available != kUnknownMemory) limits.memory_bytes = available;
  for (const engine::LimitRow& row : engine::describe(limits, tunables)) {
    text += fmt::format("  {:<24}{}\n", row.name, row.value);
    if (!row.advice.empty()) text += fmt::format("  {:<24}-> {}\n", "", row.advice);
  }
  return text;
}

std::string tunables_text() {
  Tunables tunables;
  engine::apply_environment(tunables);
  std::string text =
      "Tunables (--tunable NAME=VALUE, or the environment's HAWSER_NAME; docs/tunables.md)\n";
  for (const TunableRow& row : kTunables) {
    text += fmt::format("  {:<24}{:>12} {:<7} {} to {}\n  {:<24}{}\n", row.name,
                        tunables.*row.field, row.unit, row.minimum, row.maximum, "", row.reason);
  }
  return text;
}

// True if a socket of this host can have the UDP NIC's address. host_nics does not list every such
// address: it leaves out link-local ones, and those of 127.0.0.0/8 that no interface has.
bool is_own_address(const std::string& name) {
  if (!engine::is_udp_name(name)) return false;
  try {
    const std::string where(split_nic_name(name).where);
    const engine::SocketAddress address = engine::parse_local_address(where);
    const engine::Descriptor socket(::socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return socket && ::bind(socket.get(), &address.any, address.length()) == 0;
  } catch (const Error&) {
    return false;
  }
}

std::string way_text(const HostNic& nic, const std::string& to) {
  const std::string address(split_nic_name(nic.name).where);
  const engine::SocketAddress local = engine::parse_local_address(address);
  engine::SocketAddress remote = engine::parse_local_address(to);
  if (local.is_v6() != remote.is_v6()) return {};
  constexpr std::uint16_t kDiscard = 9;  // nothing is sent, but connect wants a port
  remote.set_port(htons(kDiscard));
  const engine::UdpWays ways(local, nic.name);
  const std::uint32_t mtu = ways.mtu(local, remote);
  if (mtu == 0) return fmt::format("  {:<40} {:<12} no route there\n", nic.name, nic.device);
  const std::uint32_t longest =
      std::min(ways.longest_whole_datagram(local, remote),
               engine::interface_mtu(local) - engine::udp_headers(local.is_v6()));
  return fmt::format("  {:<40} {:<12} MTU {} of the route, {} of the device: datagrams of {}\n",
                     nic.name, nic.device, mtu, nic.mtu, longest);
}

}  // namespace

std::string ways_text(const std::string& to) {
  try {
    (void)engine::parse_local_address(to);
  } catch (const Error&) {
    throw InputError(fmt::format("--to {}: expected the IPv4 or IPv6 address of a host", to));
  }
  std::string text = fmt::format("Routes to {} (`ip route get {}` shows each)\n", to, to);
  for (const HostNic& nic : host_nics()) {
    if (engine::is_udp_name(nic.name)) text += way_text(nic, to);
  }
  return text;
}

std::vector<std::string> rdma_devices() {
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    devices.push_back(entry.path().filename().string());
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::string verbs_packets_text(const Tunables& tunables,
                               std::span<const engine::VerbsPortInfo> ports) {
  const std::string complaint =
      engine::complaint_about_marks(tunables.verbs_traffic_class, tunables.verbs_service_level);
  if (!complaint.empty()) {
    return fmt::format("  {:<40} none, as every RDMA port is refused: {}; see {} below\n",
                       "packets of these ports", complaint,
                       "verbs_traffic_class and verbs_service_level");
  }
  std::string text;
  const auto any = [&](bool roce) {
    return std::ranges::any_of(ports,
                               [&](const auto& port) { return port.usable && port.roce == roce; });
  };
  if (any(true)) text += roce_text(tunables);
  if (any(false)) text += infiniband_text(tunables);
  return text;
}

std::string nics_text(std::span<const HostNic> host) {
  std::string text = "NICs of this host (for --nic, HAWSER_NICS and EngineConfig::nics)\n";
  std::size_t listed = 0;
  bool only_loopback = true;
  bool has_loopback_of_ipv4 = false;
  for (const HostNic& nic : host) {
    if (!engine::is_udp_name(nic.name)) continue;  // RDMA ports have their own part
    ++listed;
    only_loopback = only_loopback && nic.loopback;
    has_loopback_of_ipv4 |=
        nic.loopback && nic.up && engine::family_of(nic.name) == engine::Family::v4;
    text += fmt::format("  {:<40} {:<12} {}\n", nic.name, nic.device, state_text(nic));
  }
  if (listed == 0) text += "  none\n";
  if (has_loopback_of_ipv4) {
    text += "  any other address of 127.0.0.0/8 may be used on this host, too\n";
  }
  if (only_loopback) {
    text += fmt::format(
        "  -> no other host reaches {}: give a device an address (ip address add), or name a "
        "link-local one\n     together with its device, as in udp:fe80::1%eth0 (`ip -6 address` "
        "lists them)\n",
        listed == 0 ? "this one" : "these");
  }
  return text;
}

std::string choice_text(const std::string& list, std::span<const HostNic> host) {
  std::string text = list.empty() ? "Choice of NICs when none are named\n"
                                  : fmt::format("Choice of NICs by \"{}\"\n", list);
  std::vector<NicCandidate> candidates;
  std::vector<std::string> notes;
  try {
    NicChoice choice = choose_nics(list, host);
    for (const std::string& name : choice.nics) {
      if (std::ranges::find(host, name, &HostNic::name) != host.end()) continue;
      if (is_own_address(name)) {
        text += fmt::format("  {:<40} {:<12} + named; this host has the address\n", name,
                            engine::udp_place(name).interface);
      } else {
        notes.push_back(name + " is named, but is not a NIC of this host");
      }
    }
    candidates = std::move(choice.candidates);
    std::ranges::move(choice.notes, std::back_inserter(notes));
  } catch (const NicChoiceError& error) {
    candidates = error.candidates();
    notes.emplace_back(candidates.empty() ? error.what() : "nothing is chosen");
  }
  for (const NicCandidate& candidate : candidates) {
    text += fmt::format("  {:<40} {:<12} {} {}\n", candidate.nic.name, candidate.nic.device,
                        candidate.chosen ? "+" : "-", candidate.reason);
  }
  for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  return text;
}

std::string info_text(const std::string& nics) {
  const std::vector<HostNic> host = host_nics();
  return nics_text(host) + "\n" + rdma_text() + "\n" + choice_text(list_to_explain(nics), host) +
         "\n" + limits_text() + "\n" + tunables_text();
}

}  // namespace hawser::tool
