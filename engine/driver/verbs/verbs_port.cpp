// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_port.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <utility>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  // False if the library could not list the devices.
  [[nodiscard]] bool is_known() const { return devices_ != nullptr; }
  // Explains why not, and what to do. Empty if the list is known, or if the kernel has no RDMA and
  // so no device.
  [[nodiscard]] std::string complaint() const {
    if (is_known() || error_ == ENOSYS) return {};
    return std::string("the list of RDMA devices can't be read: ") + std::strerror(error_) +
           (error_ == EMFILE || error_ == ENFILE
                ? "; raise the limit of open files (`ulimit -n`), or close some"
                : "; check that this user may read /sys/class/infiniband_verbs");
  }
  [[nodiscard]] std::span<ibv_device* const> devices() const {
    return {devices_, devices_ == nullptr ? 0 : static_cast<std::size_t>(count_)};
  }

 private:
  int count_ = 0;
  ibv_device** devices_;
  int error_ = errno;
};

std::string names_of(const DeviceList& list) {
  std::string names;
  for (ibv_device* const device : list.devices()) {
    names += (names.empty() ? "" : ", ") + std::string(ibv_get_device_name(device));
  }
  return names;
}

// True if this user may not open the device's file. The library also looks in a second place, and
// reports only what it found there.
bool is_barred(const ibv_device& device) {
  const std::string file = "/dev/infiniband/" + std::string(device.dev_name);
  return ::access(file.c_str(), F_OK) == 0 && ::access(file.c_str(), R_OK | W_OK) != 0;
}

VerbsContext open_device(const VerbsPortName& name, const std::string& what) {
  const DeviceList list;
  const auto found = std::ranges::find_if(list.devices(), [&](ibv_device* device) {
    return name.device == ibv_get_device_name(device);
  });
  if (const std::string complaint = list.complaint(); !complaint.empty()) {
    throw Error(what + ": " + complaint);
  }
  if (found == list.devices().end()) {
    const std::string others = names_of(list);
    throw Error(what + ": this host has no such RDMA device; " +
                (others.empty() ? "it has none at all: use udp:ADDRESS, or load a driver (`rdma "
                                  "link` lists devices)"
                                : "it has " + others));
  }
  VerbsContext context(ibv_open_device(*found));
  if (context) return context;
  const int error = errno;
  if (error == EACCES || error == EPERM || is_barred(**found)) {
    throw Error(
        what +
        ": this user may not open the device; allow it to read and write /dev/infiniband/uverbs*");
  }
  throw Error(what + ": the device can't be opened: " + std::strerror(error) + kAdviceOnDriver);
}

// Codes of 256 (XDR) and more are in another field, which headers before rdma-core 52 lack.
template <class Attributes>
unsigned speed_code(const Attributes& port) {
  if constexpr (requires { port.active_speed_ex; }) {
    if (port.active_speed_ex != 0) return port.active_speed_ex;
  }
  return port.active_speed;
}

// Speed and width are codes of the InfiniBand specification. The speed is per lane.
std::uint64_t bytes_per_s(const ibv_port_attr& port) {
  constexpr std::array<std::pair<unsigned, std::uint64_t>, 9> kMbitPerLane{{{1, 2500},
                                                                            {2, 5000},
                                                                            {4, 10000},
                                                                            {8, 10000},
                                                                            {16, 14000},
                                                                            {32, 25000},
                                                                            {64, 50000},
                                                                            {128, 100000},
                                                                            {256, 200000}}};
  constexpr std::array<std::pair<int, std::uint64_t>, 5> kLanes{
      {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  std::uint64_t mbit = 0;
  for (const auto& [code, rate] : kMbitPerLane) {
    if (code == speed_code(port)) mbit = rate;
  }
  std::uint64_t lanes = 0;
  for (const auto& [code, count] : kLanes) {
    if (code == port.active_width) lanes = count;
  }
  return mbit * lanes * 1'000'000 / 8;
}

GidEntry entry_of(const ibv_gid_entry& from) {
  GidEntry entry;
  entry.index = from.gid_index;
  entry.kind = from.gid_type == IBV_GID_TYPE_IB        ? GidEntry::Kind::infiniband
               : from.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidEntry::Kind::roce_v1
                                                       : GidEntry::Kind::roce_v2;
  std::memcpy(entry.gid.data(), from.gid.raw, entry.gid.size());
  return entry;
}

// Reads the GIDs of all ports of the device. The library returns all of them or, if they don't fit,
// none.
std::vector<ibv_gid_entry> read_gids(ibv_context& context, const std::string& what) {
  constexpr std::size_t kUsual = 256;
  constexpr std::size_t kMost = 65536;
  std::vector<ibv_gid_entry> raw;
  for (std::size_t room = kUsual;; room *= 2) {
    raw.resize(room);
    const ssize_t count = ibv_query_gid_table(&context, raw.data(), raw.size(), 0);
    if (count >= 0) {
      raw.resize(static_cast<std::size_t>(count));
      return raw;
    }
    if (count == -EINVAL && room < kMost) continue;
    throw Error(what + ": its table of GIDs can't be read: " +
                std::strerror(static_cast<int>(-count)) + kAdviceOnDriver);
  }
}

std::vector<GidEntry> gids_of(ibv_context& context, std::uint8_t port, const std::string& what) {
  std::vector<GidEntry> table;
  for (const ibv_gid_entry& entry : read_gids(context, what)) {
    if (entry.port_num == port) table.push_back(entry_of(entry));
  }
  return table;
}

std::string list_of(const std::vector<GidEntry>& table) {
  std::string indices;
  for (const GidEntry& entry : table) {
    indices += (indices.empty() ? "" : ", ") + std::to_string(entry.index) + " (" +
               std::string(description_of(entry)) + ")";
  }
  return indices.empty() ? "none" : indices;
}

// `present` is null when the port is opened for the first time.
GidEntry pick_gid(ibv_context& context, const VerbsPortName& name, const std::string& what,
                  const GidEntry* present) {
  const std::vector<GidEntry> table = gids_of(context, name.port, what);
  if (!name.gid_index) {
    const auto chosen = present == nullptr ? choose_gid(table) : choose_gid_again(table, *present);
    if (chosen) return *chosen;
    throw Error(what + ": the port has no GID of RoCE v2 or InfiniBand" +
                (present == nullptr ? "" : ", or none of the IP version that it had") +
                "; give its interface an address (`rdma link` names it)");
  }
  if (*name.gid_index > kMaxGidIndex) {
    throw Error(what +
                ": a GID index is at most 255, because an address handle stores it in a byte; "
                "write a smaller one after the @, or leave it out");
  }
  const auto asked =
      std::ranges::find(table, *name.gid_index, [](const GidEntry& entry) { return entry.index; });
  if (asked != table.end() && asked->kind == GidEntry::Kind::roce_v1) {
    throw Error(what +
                ": the GID at that index is of RoCE v1, whose packets have no UDP ports to spread "
                "them by; write the index of a RoCE v2 GID after the @ (`ibv_devinfo -v` lists "
                "them), or leave it out");
  }
  if (asked != table.end()) return *asked;
  throw Error(what + ": its table of GIDs has no entry at that index; it has " + list_of(table) +
              (table.empty() ? "; give its interface an address (`rdma link` names it)"
                             : ": write one of these after the @, or leave it out"));
}

// "; it has ports 1 to 2", if the device reports its ports.
std::string ports_of(ibv_context& context) {
  ibv_device_attr device{};
  if (ibv_query_device(&context, &device) != 0 || device.phys_port_cnt == 0) return "";
  const std::string last = std::to_string(device.phys_port_cnt);
  return device.phys_port_cnt == 1 ? "; it has only port 1" : "; it has ports 1 to " + last;
}

ibv_port_attr query(ibv_context& context, const VerbsPortName& name, const std::string& what) {
  ibv_port_attr attributes{};
  const int error = ibv_query_port(&context, name.port, &attributes);
  if (error == 0) return attributes;
  if (error == EINVAL) {
    throw Error(what + ": the device has no port " + std::to_string(name.port) + ports_of(context) +
                " (`hawser info` lists the ports)");
  }
  throw Error(what + ": the device does not answer (" + std::strerror(error) +
              "); it may have been removed (`rdma link` lists devices)");
}

std::uint32_t mtu_of(const ibv_port_attr& attributes, const std::string& what) {
  if (attributes.active_mtu < IBV_MTU_256 || attributes.active_mtu > IBV_MTU_4096) {
    throw Error(what + ": the device reports no valid MTU (code " +
                std::to_string(static_cast<int>(attributes.active_mtu)) +
                "); update the drivers in user space (rdma-core, ibverbs-providers)");
  }
  const std::uint32_t bytes = 128u << attributes.active_mtu;  // IBV_MTU_256 is 1
  // A packet without payload may fill its buffer, so a datagram must hold a whole buffer.
  if (bytes >= proto::PacketBuffer::kBytes) return bytes;
  throw Error(what + ": its MTU of " + std::to_string(bytes) +
              " bytes is below the minimum of 1024; raise the MTU of its interface (`ip link`): "
              "1500 there gives 1024 here, 4200 gives 4096");
}

// The queue pairs use the first entry. The key 0 means none, and reaches nobody.
std::uint16_t pkey_of(ibv_context& context, const VerbsPortName& name, const std::string& what) {
  std::uint16_t key = 0;  // as on the wire
  if (ibv_query_pkey(&context, name.port, 0, &key) != 0) {
    throw Error(what + ": its P_Key can't be read: " + std::strerror(errno) + kAdviceOnDriver);
  }
  if (key != 0) return ntohs(key);  // libibverbs returns it in network byte order
  throw Error(what + ": its first P_Key is invalid; have the subnet manager " +
              "put the port into a partition (its P_Key at index 0)");
}

// Queue pairs of this driver exist on InfiniBand and RoCE alone. iWARP has only connections, and
// EFA has a kind of its own.
void refuse_other_transports(const ibv_context& context, const ibv_port_attr& attributes,
                             const std::string& what) {
  constexpr const char* kInstead = "; use udp:ADDRESS with the address of its network interface";
  if (context.device->transport_type != IBV_TRANSPORT_IB) {
    throw Error(what + ": the device has another transport than InfiniBand or RoCE" +
                (context.device->transport_type == IBV_TRANSPORT_IWARP ? " (iWARP)" : "") +
                kInstead);
  }
  if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET &&
      attributes.link_layer != IBV_LINK_LAYER_INFINIBAND) {
    throw Error(what + ": the port's link layer is neither Ethernet nor InfiniBand" + kInstead);
  }
}

VerbsPortFacts facts_of(ibv_context& context, const VerbsPortName& name, const std::string& what,
                        const GidEntry* present) {
  const ibv_port_attr attributes = query(context, name, what);
  refuse_other_transports(context, attributes, what);
  if (attributes.state != IBV_PORT_ACTIVE) {
    throw Error(what + ": the port is " + ibv_port_state_str(attributes.state) +
                "; bring its link up (`ip link`, `rdma link`)");
  }
  VerbsPortFacts facts;
  facts.link = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? VerbsAddress::Link::ethernet
                                                                : VerbsAddress::Link::infiniband;
  if (facts.link == VerbsAddress::Link::infiniband) {
    if (attributes.lid == 0) {
      throw Error(what +
                  ": the port has no LID, and peers refuse an address without one; have the "
                  "subnet manager assign it (`sminfo` tells whether one runs)");
    }
    facts.lid = attributes.lid;
    facts.pkey = pkey_of(context, name, what);
  }
  facts.mtu_bytes = mtu_of(attributes, what);
  facts.link_bytes_per_s = bytes_per_s(attributes);
  facts.qkey_violations = attributes.qkey_viol_cntr;
  facts.pkey_violations = attributes.bad_pkey_cntr;
  facts.gid = pick_gid(context, name, what, present);
  return facts;
}

VerbsDomain make_domain(ibv_context* context, const std::string& what) {
  VerbsDomain domain(ibv_alloc_pd(context));
  if (domain) return domain;
  throw Error(what + ": the device has no protection domain left: " + std::strerror(errno) +
              "; end other programs that use it (`rdma resource show pd` lists them)");
}

std::string text_of(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  constexpr std::size_t kIpv4Offset = 12;
  const bool ipv4 = is_ipv4(gid);
  (void)::inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.data() + (ipv4 ? kIpv4Offset : 0), text.data(),
                    text.size());
  return text.data();
}

std::string violations_of(const VerbsPortFacts& facts) {
  if (facts.qkey_violations + facts.pkey_violations == 0) return "";
  return "; it has rejected " + std::to_string(facts.qkey_violations) +
         " datagrams with a wrong QKey and " + std::to_string(facts.pkey_violations) +
         " with a wrong P_Key";
}

std::string summary_of(const VerbsPortFacts& facts) {
  constexpr double kGbit = 125e6;
  // Two ports can communicate only if their keys agree in all other bits and at least one of them
  // has this bit set. Limited members can't communicate with each other.
  constexpr unsigned kFullMember = 0x8000;
  std::ostringstream text;
  text << "up, ";
  if (facts.link_bytes_per_s == 0) {
    text << "speed unknown";
  } else {
    text << static_cast<double>(facts.link_bytes_per_s) / kGbit << " Gb/s";
  }
  text << ", MTU " << facts.mtu_bytes << ", GID " << facts.gid.index << ", "
       << text_of(facts.gid.gid) << " (" << description_of(facts.gid) << ")";
  if (facts.link == VerbsAddress::Link::infiniband) {
    text << ", LID " << facts.lid << ", P_Key 0x" << std::hex << std::setfill('0') << std::setw(4)
         << facts.pkey << ((facts.pkey & kFullMember) == 0 ? " (limited member)" : "");
  }
  text << violations_of(facts);
  return text.str();
}

// False for soft RoCE, which offers the newer calls, but wrongly up to rdma-core 63. It miscounts
// lengths of requests with several parts (wr_set_sge_list, wr_set_inline_data_list). It also skips
// completions if ibv_end_poll follows an ibv_next_poll that found nothing.
bool are_newer_calls_sound(ibv_context* context) {
  constexpr std::uint32_t kSoftRoceVendor = 0xffffff;
  ibv_device_attr attributes{};
  return ibv_query_device(context, &attributes) != 0 || attributes.vendor_id != kSoftRoceVendor;
}

}  // namespace

VerbsPort open_verbs_port(const VerbsPortName& name) {
  VerbsPort port;
  port.name = "verbs:" + to_string(name);
  port.asked = name;
  port.context = open_device(name, port.name);
  port.facts = facts_of(*port.context, name, port.name, nullptr);
  port.newer_calls = are_newer_calls_sound(port.context.get());
  port.domain = make_domain(port.context.get(), port.name);
  return port;
}

VerbsPortFacts read_verbs_port(const VerbsPort& port) {
  return facts_of(*port.context, port.asked, port.name, &port.facts.gid);
}

void reopen_verbs_port(VerbsPort& port) {
  VerbsContext context = open_device(port.asked, port.name);
  const VerbsPortFacts facts = facts_of(*context, port.asked, port.name, &port.facts.gid);
  port.domain = make_domain(context.get(), port.name);
  port.context = std::move(context);
  port.facts = facts;
  port.newer_calls = are_newer_calls_sound(port.context.get());
}

bool is_listed(const VerbsPort& port) {
  const DeviceList list;
  return !list.is_known() ||
         std::ranges::find(list.devices(), port.context->device) != list.devices().end();
}

VerbsPortInfo verbs_port(const VerbsPortName& name) {
  VerbsPortInfo info{.name = to_string(name)};
  try {
    const VerbsPortFacts facts = open_verbs_port(name).facts;
    info.usable = true;
    info.roce = facts.link == VerbsAddress::Link::ethernet;
    info.pkey_violations = facts.pkey_violations;
    info.description = summary_of(facts);
  } catch (const Error& error) {
    info.description = error.what();
  }
  return info;
}

std::vector<VerbsPortInfo> verbs_ports() {
  std::vector<VerbsPortInfo> ports;
  const DeviceList list;
  if (std::string complaint = list.complaint(); !complaint.empty()) {
    ports.push_back({.name = "*", .description = std::move(complaint)});
  }
  for (ibv_device* const device : list.devices()) {
    const VerbsContext context(ibv_open_device(device));
    ibv_device_attr attributes{};
    attributes.phys_port_cnt = 1;  // a device that doesn't answer gets one line, too
    if (context) (void)ibv_query_device(context.get(), &attributes);
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
      ports.push_back(verbs_port(
          {.device = ibv_get_device_name(device), .port = static_cast<std::uint8_t>(number)}));
    }
  }
  return ports;
}

bool has_verbs() noexcept { return true; }

// Since 5.12 the kernel copies pinned pages for the child at once. On older kernels the library can
// hide the pages from children (RDMAV_FORK_SAFE), which is worse for all kinds of memory.
bool registered_memory_survives_fork() noexcept {
  return ibv_is_fork_initialized() == IBV_FORK_UNNEEDED;
}

}  // namespace hawser::engine
