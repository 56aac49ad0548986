#include "tool/info/info.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/driver/verbs.hpp"
#include "engine/host_limits.hpp"
#include "engine/registration/endpoint_memory.hpp"
#include "engine/settings.hpp"
#include "hawser/nics.hpp"
#include "hawser/tunables.hpp"
#include "tool/run/memory.hpp"

namespace hawser::tool {
namespace {

std::string nics_text() {
  std::string text = "NICs of this host (for --nic and EngineConfig::nics)\n";
  bool only_loopback = true;
  for (const HostNic& nic : host_nics()) {
    if (!nic.name.starts_with("udp:")) continue;  // RDMA ports have a part of their own
    only_loopback = only_loopback && nic.loopback;
    text += fmt::format("  {:<40} {:<12} {}{}\n", nic.name, nic.device, nic.up ? "up" : "down",
                        nic.mtu > 0 ? fmt::format(", MTU {}", nic.mtu) : "");
  }
  text += "  any other address of 127.0.0.0/8 may be used on this host, too\n";
  if (only_loopback) {
    text +=
        "  -> no other host reaches these: give a device an address (ip address add), or name a "
        "link-local one\n     together with its device, as in udp:fe80::1%eth0 (`ip -6 address` "
        "lists them)\n";
  }
  return text;
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
    text += fmt::format("  {:<40} {}\n", "verbs:" + port.name, port.description);
  }
  Tunables tunables;
  engine::apply_environment(tunables);
  text += fmt::format("  {:<40} {}\n", "registration cache",
                      engine::describe_registration_cache(tunables));
  if (!ports.empty()) {
    return text + verbs_packets_text(tunables, ports) +
           "  of a port's GIDs the first of RoCE v2 over IPv4 is taken, else of IPv6 that is "
           "routed, "
           "else of its\n  link, never one of RoCE v1; verbs:DEVICE[:PORT]@GID_INDEX takes another "
           "(`ibv_devinfo -v` lists them)\n";
  }
  if (!engine::has_verbs()) return text + "  this build has no libibverbs, and so no verbs NICs\n";
  // The kernel's own list: a device may be there without a driver in user space.
  const std::vector<std::string> known = rdma_devices();
  if (known.empty()) return text + "  none: UDP NICs are what this host has\n";
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
  const std::uint64_t available = available_memory_bytes();  // what `hawser run` goes by
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

}  // namespace

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
    return fmt::format("  {:<40} none, every RDMA port is refused: {}; see {} below\n",
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

std::string info_text() {
  return nics_text() + "\n" + rdma_text() + "\n" + limits_text() + "\n" + tunables_text();
}

}  // namespace hawser::tool
