#include "engine/driver/verbs_port.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

constexpr std::size_t kMaxGids = 256;

class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  [[nodiscard]] std::span<ibv_device* const> devices() const {
    return {devices_, devices_ == nullptr ? 0 : static_cast<std::size_t>(count_)};
  }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

std::string names_of(const DeviceList& list) {
  std::string names;
  for (ibv_device* const device : list.devices()) {
    names += (names.empty() ? "" : ", ") + std::string(ibv_get_device_name(device));
  }
  return names;
}

VerbsContext open_device(const VerbsPortName& name, const std::string& what) {
  const DeviceList list;
  const auto found = std::ranges::find_if(list.devices(), [&](ibv_device* device) {
    return name.device == ibv_get_device_name(device);
  });
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
  if (error == EACCES || error == EPERM) {
    throw Error(what +
                ": no permission to open the device; let this user read and write "
                "/dev/infiniband/uverbs*");
  }
  throw Error(what + ": the device can't be opened: " + std::strerror(error));
}

// Speed and width are codes of the InfiniBand specification; the speed is of a lane.
std::uint64_t bytes_per_s(const ibv_port_attr& port) {
  constexpr std::array<std::pair<int, std::uint64_t>, 9> kMbitPerLane{{{1, 2500},
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
    if (code == port.active_speed) mbit = rate;
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

std::vector<GidEntry> gids_of(ibv_context& context, std::uint8_t port) {
  std::array<ibv_gid_entry, kMaxGids> raw;
  const ssize_t count = ibv_query_gid_table(&context, raw.data(), raw.size(), 0);
  std::vector<GidEntry> table;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = raw[static_cast<std::size_t>(i)];
    if (entry.port_num == port) table.push_back(entry_of(entry));
  }
  return table;
}

GidEntry pick_gid(ibv_context& context, const VerbsPortName& name, const std::string& what) {
  const std::vector<GidEntry> table = gids_of(context, name.port);
  if (!name.gid_index) {
    if (const auto chosen = choose_gid(table)) return *chosen;
    throw Error(what + ": the port has no GID of RoCE v2 or InfiniBand; give its interface an " +
                "address (`rdma link` names it)");
  }
  const auto asked =
      std::ranges::find(table, *name.gid_index, [](const GidEntry& entry) { return entry.index; });
  if (asked != table.end()) return *asked;
  std::string indices;
  for (const GidEntry& entry : table) {
    indices += (indices.empty() ? "" : ", ") + std::to_string(entry.index) + " (" +
               std::string(description_of(entry)) + ")";
  }
  throw Error(what + ": its table of GIDs has no entry there; it has " +
              (indices.empty() ? "none" : indices));
}

void read_port(VerbsPort& port) {
  ibv_port_attr attributes{};
  const int error = ibv_query_port(port.context.get(), port.number, &attributes);
  if (error == EINVAL) {
    throw Error(port.name + ": the device has no port " + std::to_string(port.number));
  }
  if (error != 0) {
    throw Error(port.name + ": the device does not answer (" + std::strerror(error) +
                "); it may have been removed (`rdma link` lists devices)");
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    throw Error(port.name + ": the port is " + ibv_port_state_str(attributes.state) +
                "; bring its link up (`ip link`, `rdma link`)");
  }
  port.link = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? VerbsAddress::Link::ethernet
                                                               : VerbsAddress::Link::infiniband;
  if (port.link == VerbsAddress::Link::infiniband) port.lid = attributes.lid;
  if (attributes.active_mtu < IBV_MTU_256 || attributes.active_mtu > IBV_MTU_4096) {
    throw Error(port.name + ": the device states no MTU (code " +
                std::to_string(static_cast<int>(attributes.active_mtu)) +
                "); is its driver older than this kernel?");
  }
  port.mtu_bytes = 128u << attributes.active_mtu;  // IBV_MTU_256 is 1
  // A packet without payload may fill its buffer.
  if (port.mtu_bytes < proto::PacketBuffer::kBytes) {
    throw Error(port.name + ": its MTU of " + std::to_string(port.mtu_bytes) +
                " bytes is too small, 1024 is the least; raise that of its interface (`ip link`): "
                "1500 makes 1024, 4200 makes 4096");
  }
  port.link_bytes_per_s = bytes_per_s(attributes);
}

}  // namespace

VerbsPort open_verbs_port(const VerbsPortName& name) {
  VerbsPort port;
  port.name = "verbs:" + to_string(name);
  port.number = name.port;
  port.context = open_device(name, port.name);
  read_port(port);
  port.gid = pick_gid(*port.context, name, port.name);
  port.domain.reset(ibv_alloc_pd(port.context.get()));
  if (!port.domain) {
    throw Error(port.name + ": the device has no protection domain left: " + std::strerror(errno));
  }
  return port;
}

std::vector<VerbsPortInfo> verbs_ports() {
  std::vector<VerbsPortInfo> ports;
  const DeviceList list;
  for (ibv_device* const device : list.devices()) {
    const VerbsContext context(ibv_open_device(device));
    ibv_device_attr attributes{};
    attributes.phys_port_cnt = 1;  // one line for a device that doesn't answer, too
    if (context) (void)ibv_query_device(context.get(), &attributes);
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
      VerbsPortName name{.device = ibv_get_device_name(device),
                         .port = static_cast<std::uint8_t>(number)};
      VerbsPortInfo info{.name = to_string(name)};
      try {
        const VerbsPort port = open_verbs_port(name);
        info.usable = true;
        info.description = "up, MTU " + std::to_string(port.mtu_bytes) + ", GID " +
                           std::to_string(port.gid.index) + " (" +
                           std::string(description_of(port.gid)) + ")";
      } catch (const Error& error) {
        info.description = error.what();
      }
      ports.push_back(std::move(info));
    }
  }
  return ports;
}

bool has_verbs() noexcept { return true; }

// The kernel copies pinned pages for the child at once (since 5.12). Where it doesn't, the library
// can hide the pages from children (RDMAV_FORK_SAFE), which is worse for memory of all kinds.
bool registered_memory_survives_fork() noexcept {
  return ibv_is_fork_initialized() == IBV_FORK_UNNEEDED;
}

}  // namespace hawser::engine
