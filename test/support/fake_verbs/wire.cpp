// SPDX-License-Identifier: Apache-2.0
// The fabric: which queue pair a datagram reaches, and which header precedes it there.
#include <algorithm>
#include <cstring>

#include "test/support/fake_verbs/world.hpp"

namespace hawser::test::fake {
namespace {

constexpr unsigned kCongestionExperienced = 3;
constexpr std::byte kUdp{17};

struct Place {
  Device* device = nullptr;
  std::size_t port = 0;  // index
};

bool has_gid(const PortSettings& port, const ibv_gid& gid) {
  return std::ranges::any_of(port.gids, [&](const GidRow& row) {
    return std::memcmp(row.gid.data(), gid.raw, row.gid.size()) == 0;
  });
}

// The port that the handle leads to, or none if no port has the address.
Place place_of(const ibv_ah_attr& to, bool infiniband) {
  for (const auto& device : world().devices) {
    const auto& ports = device->settings.ports;
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (ports[i].infiniband != infiniband) continue;
      if (infiniband ? ports[i].lid == to.dlid : has_gid(ports[i], to.grh.dgid)) {
        return {device.get(), i};
      }
    }
  }
  return {};
}

bool is_ipv4(const Gid& gid) {
  constexpr std::array<std::byte, 10> kZeros{};
  return std::equal(kZeros.begin(), kZeros.end(), gid.begin()) && gid[10] == std::byte{0xff} &&
         gid[11] == std::byte{0xff};
}

void put16(std::byte* at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}

struct Route {
  const ibv_ah_attr& attributes;
  Gid from{};
  Gid to{};
  std::uint32_t bytes = 0;
  unsigned traffic_class = 0;
  std::byte filler{};
};

using Header = std::array<std::byte, kGrhBytes>;

// The header of RoCE over IPv6 and of InfiniBand.
Header long_header(const Route& route) {
  Header header{};
  const std::uint32_t label = route.attributes.grh.flow_label & 0xfffffu;
  put16(&header[0], 6u << 12 | route.traffic_class << 4 | label >> 16);
  put16(&header[2], label & 0xffffu);
  put16(&header[4], route.bytes);
  header[6] = kUdp;
  header[7] = static_cast<std::byte>(route.attributes.grh.hop_limit);
  std::ranges::copy(route.from, header.begin() + 8);
  std::ranges::copy(route.to, header.begin() + 24);
  return header;
}

// The header of RoCE over IPv4: the IP header is the second half, and the first half is arbitrary.
Header short_header(const Route& route) {
  Header header{};
  std::fill_n(header.begin(), 20, route.filler);
  header[20] = std::byte{0x45};
  header[21] = static_cast<std::byte>(route.traffic_class);
  put16(&header[22], route.bytes + 20);
  header[28] = static_cast<std::byte>(route.attributes.grh.hop_limit);
  header[29] = kUdp;
  std::copy_n(route.from.begin() + 12, 4, header.begin() + 32);
  std::copy_n(route.to.begin() + 12, 4, header.begin() + 36);
  return header;
}

Header header_of(QueuePair& from, const Request& send, std::uint32_t bytes, std::byte filler) {
  Route route{send.handle->attributes};
  const ibv_global_route& grh = route.attributes.grh;
  const auto& rows = port_of(from).gids;
  const auto own = std::ranges::find(rows, grh.sgid_index, &GidRow::index);
  if (own != rows.end()) route.from = own->gid;
  std::memcpy(route.to.data(), grh.dgid.raw, route.to.size());
  route.bytes = bytes;
  route.filler = filler;
  route.traffic_class = grh.traffic_class;
  const bool capable = (route.traffic_class & kCongestionExperienced) != 0;
  if (world().marked && capable) route.traffic_class |= kCongestionExperienced;
  return is_ipv4(route.to) ? short_header(route) : long_header(route);
}

// Writes pieces one after another into the parts of a receive.
class Writer {
 public:
  explicit Writer(const Request& receive) : receive_(receive) {}

  void skip(std::size_t bytes) { write(nullptr, bytes); }
  void write(const std::byte* data, std::size_t bytes) {
    while (bytes > 0) {
      const ibv_sge& part = receive_.parts[part_];
      const std::size_t count = std::min<std::size_t>(bytes, part.length - within_);
      auto* const to = reinterpret_cast<std::byte*>(part.addr + within_);
      if (data != nullptr) {
        std::memcpy(to, data, count);
        data += count;
      }
      bytes -= count;
      within_ += count;
      if (within_ == part.length) {
        ++part_;
        within_ = 0;
      }
    }
  }

 private:
  const Request& receive_;
  std::size_t part_ = 0;
  std::size_t within_ = 0;
};

ibv_wc_status check(QueuePair& to, const Request& receive, std::size_t bytes) {
  if (const ibv_wc_status status = world().faults.status_of(Side::receive)) return status;
  std::size_t room = 0;
  for (std::size_t i = 0; i < receive.part_count; ++i) {
    if (memory_of(receive.parts[i], to.qp_base.pd, IBV_ACCESS_LOCAL_WRITE) == nullptr) {
      return IBV_WC_LOC_PROT_ERR;
    }
    room += receive.parts[i].length;
  }
  return bytes + kGrhBytes <= room ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

// The queue pair that receives the datagram. Null, with a counted reason, if none does.
QueuePair* receiver_of(QueuePair& from, const Request& send, std::uint32_t bytes) {
  const PortSettings& here = port_of(from);
  const Place place = place_of(send.handle->attributes, here.infiniband);
  if (place.device == nullptr) return nullptr;
  const PortSettings& there = place.device->settings.ports[place.port];
  PortCounters& counters = place.device->counters[place.port];
  if (there.state != IBV_PORT_ACTIVE || bytes > 128u << there.mtu) return nullptr;
  QueuePair* const to = find_pair(send.remote_qpn);
  const bool listens = to != nullptr && &device_of(*to) == place.device &&
                       to->port == place.port + 1 &&
                       (to->qp_base.state == IBV_QPS_RTR || to->qp_base.state == IBV_QPS_RTS ||
                        to->qp_base.state == IBV_QPS_SQE);
  if (!listens) {
    ++counters.no_queue_pair;
    return nullptr;
  }
  if ((here.pkey & 0x7fff) != (there.pkey & 0x7fff) || ((here.pkey | there.pkey) & 0x8000) == 0) {
    ++counters.pkey_violations;
    return nullptr;
  }
  const bool own_key = (send.remote_qkey & 0x80000000u) != 0;
  if ((own_key ? from.qkey : send.remote_qkey) != to->qkey) {
    ++counters.qkey_violations;
    return nullptr;
  }
  if (to->receives.next == to->receives.tail) {
    ++counters.without_buffer;
    return nullptr;
  }
  ++counters.delivered;
  return to;
}

}  // namespace

void deliver(QueuePair& from, const Request& send, std::uint32_t bytes) {
  QueuePair* const to = receiver_of(from, send, bytes);
  if (to == nullptr) return;
  const std::uint64_t position = to->receives.next++;
  Request& receive = to->receives.at(position);
  ibv_wc wc{};
  wc.wr_id = receive.wr_id;
  wc.opcode = IBV_WC_RECV;
  wc.qp_num = to->qp_base.qp_num;
  wc.status = check(*to, receive, bytes);
  if (wc.status == IBV_WC_SUCCESS) {
    wc.byte_len = bytes + kGrhBytes;
    wc.src_qp = from.qp_base.qp_num;
    wc.slid = port_of(from).lid;
    Writer writer(receive);
    if (send.handle->attributes.is_global != 0) {
      wc.wc_flags = IBV_WC_GRH;
      const Header header = header_of(from, send, bytes, device_of(*to).settings.grh_filler);
      writer.write(header.data(), header.size());
    } else {
      writer.skip(kGrhBytes);
    }
    for_each_part(send, [&](const std::byte* data, std::size_t count) {
      if (count > 0) writer.write(data, count);
    });
  }
  let_go(receive);
  complete(*to, Side::receive, position, wc);
  if (wc.status != IBV_WC_SUCCESS) fail_pair(*to, Side::receive);
}

}  // namespace hawser::test::fake
