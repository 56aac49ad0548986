// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/info.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "hawser/nics.hpp"
#include "hawser/types.hpp"
#include "plugin/ofi/address_format.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/nic_object.hpp"
#include "plugin/ofi/one_sided.hpp"
#include "plugin/ofi/provider.hpp"

namespace hawser::ofi {
namespace {

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

template <class Value>
void take_hint(Value& value, Value hint) {
  if (hint != Value{}) value = hint;
}

void fill_endpoint(fi_info& info, const fi_info* hints) {
  fi_ep_attr& attr = *info.ep_attr;
  attr.type = FI_EP_RDM;
  attr.protocol = kProtocol;
  attr.protocol_version = 1;
  attr.max_msg_size = kMaxMessageBytes;
  attr.mem_tag_format = kTagFormat;
  attr.tx_ctx_cnt = attr.rx_ctx_cnt = 1;
  if (hints != nullptr && hints->ep_attr != nullptr) {
    take_hint(attr.mem_tag_format, hints->ep_attr->mem_tag_format);
  }
}

fi_progress progress_of(const fi_info* hints) {
  const bool says = hints != nullptr && hints->domain_attr != nullptr;
  return says ? hints->domain_attr->data_progress : FI_PROGRESS_UNSPEC;
}

void fill_queues(fi_info& info, const fi_info* hints, const Config& config) {
  fi_tx_attr& tx = *info.tx_attr;
  tx.caps =
      info.caps & (FI_MSG | FI_TAGGED | FI_SEND | kOneSidedCaps | FI_READ | FI_WRITE | FI_FENCE);
  tx.msg_order = FI_ORDER_SAS;
  tx.inject_size = kInjectBytes;
  const bool is_inline = threads_of(config, progress_of(hints)) == 0;
  const std::size_t least =
      config.tunables_set.contains("max_operations") ? config.tunables.max_operations : 0;
  tx.size = std::max(kSendOperations, least);
  tx.iov_limit = kMostPieces;
  tx.rma_iov_limit = (info.caps & kOneSidedCaps) != 0 ? kVectors : 0;
  fi_rx_attr& rx = *info.rx_attr;
  rx.caps = info.caps & (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV |
                         FI_SOURCE | kOneSidedCaps | FI_REMOTE_READ | FI_REMOTE_WRITE);
  rx.msg_order = FI_ORDER_SAS;
  Config preferred = config;
  preferred.prefer("unexpected_bytes", kUnexpectedBytes);
  rx.total_buffered_recv = preferred.tunables.unexpected_bytes;
  rx.size = std::max(is_inline ? kReceiveOperations : kThreadReceiveOperations, least);
  rx.iov_limit = kMostPieces;
  if (hints != nullptr && hints->tx_attr != nullptr) {
    tx.op_flags = hints->tx_attr->op_flags;
    take_hint(tx.size, hints->tx_attr->size);
  }
  if (hints != nullptr && hints->rx_attr != nullptr) {
    rx.op_flags = hints->rx_attr->op_flags;
    take_hint(rx.size, hints->rx_attr->size);
  }
}

// fi_freeinfo frees the address.
bool fill_address(void*& address, std::size_t& length, const std::vector<std::byte>& bytes) {
  address = std::malloc(bytes.size());
  if (address == nullptr) return false;
  std::memcpy(address, bytes.data(), bytes.size());
  length = bytes.size();
  return true;
}

// Only memory that peers reach has to be registered. Programs choose its keys, and peers name it by
// offsets, unless the program can do with keys of the provider's or with virtual addresses. Before
// libfabric 1.5 a mode of its own had to say so, and later programs may still name one.
int registration_mode(std::uint32_t version, const fi_info* hints, std::uint64_t caps) {
  const bool is_one_sided = (caps & kOneSidedCaps) != 0;
  const int asked =
      hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->mr_mode : 0;
  const int old = asked & (kBasicRegistration | kScalableRegistration);
  if (version < FI_VERSION(1, 5)) return old == 0 && is_one_sided ? kScalableRegistration : old;
  if (!is_one_sided) return 0;
  return old != 0 ? old : asked & (FI_MR_PROV_KEY | FI_MR_VIRT_ADDR);
}

void fill_domain(fi_info& info, const fi_info* hints, const std::string& name, const Config& config,
                 std::uint32_t version) {
  fi_domain_attr& attr = *info.domain_attr;
  const fi_domain_attr none{};
  const fi_domain_attr& asked =
      hints != nullptr && hints->domain_attr != nullptr ? *hints->domain_attr : none;
  attr.name = ::strdup(name.c_str());
  attr.threading = FI_THREAD_SAFE;
  take_hint(attr.threading, asked.threading);
  attr.control_progress = FI_PROGRESS_AUTO;
  take_hint(attr.control_progress, asked.control_progress);
  attr.data_progress =
      threads_of(config, progress_of(hints)) > 0 ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
  // A domain with automatic progress also serves programs that would make progress themselves.
  take_hint(attr.data_progress, asked.data_progress);
  attr.resource_mgmt = FI_RM_ENABLED;
  attr.av_type = FI_AV_UNSPEC;  // an fi_addr is an index, which also serves as a map
  take_hint(attr.av_type, asked.av_type);
  attr.mr_mode = registration_mode(version, hints, info.caps);
  attr.mr_key_size = sizeof(std::uint64_t);
  attr.cq_data_size = kCqDataBytes;
  attr.cq_cnt = attr.cntr_cnt = attr.mr_cnt = 65536;
  attr.ep_cnt = attr.tx_ctx_cnt = attr.rx_ctx_cnt = 1024;
  attr.max_ep_tx_ctx = attr.max_ep_rx_ctx = 1;
  attr.mr_iov_limit = 1;
  attr.caps = info.caps & (FI_LOCAL_COMM | FI_REMOTE_COMM);
  attr.max_err_data = 512;
}

const HostNic* find_nic(const std::vector<HostNic>& nics, const std::string& name) {
  const auto found = std::ranges::find(nics, name, &HostNic::name);
  return found == nics.end() ? nullptr : &*found;
}

// The addresses that node, service and hints ask for.
struct Wanted {
  std::uint32_t format = FI_FORMAT_UNSPEC;
  std::optional<Source> source{};        // empty: any
  std::vector<std::byte> destination{};  // in `format`; empty: none
};

// The port name at which endpoints of a domain of these NICs are asked for their addresses.
PortName source_at(const std::vector<std::string>& members, const Wanted& wanted) {
  PortName at = wanted.source ? wanted.source->at : PortName{};
  at.is_v6 = at.is_v6 || family_of(wanted.format) == AF_INET6;
  if (members.size() != 1 || !at.is_any()) return at;
  const std::optional<PortName> nic = of_nic(members.front());
  if (!nic || (is_socket_format(wanted.format) && nic->is_v6 != at.is_v6)) return at;
  const std::uint16_t port = at.port;
  at = *nic;
  at.port = port;
  return at;
}

Info make_info(const std::string& domain, const std::vector<std::string>& members,
               const fi_info* hints, const Config& config, std::uint32_t version,
               const Wanted& wanted) {
  Info info(fi_allocinfo());
  if (!info) return info;
  info->caps =
      hints != nullptr && hints->caps != 0 ? hints->caps | FI_LOCAL_COMM | FI_REMOTE_COMM : kCaps;
  // A program that names no direction means all.
  const bool is_one_sided = (info->caps & kOneSidedCaps) != 0;
  const bool has_messages = (info->caps & (FI_MSG | FI_TAGGED)) != 0 || !is_one_sided;
  if (has_messages && (info->caps & (FI_SEND | FI_RECV)) == 0) info->caps |= FI_SEND | FI_RECV;
  if (is_one_sided && (info->caps & kOneSidedDirections) == 0) info->caps |= kOneSidedDirections;
  info->addr_format = wanted.format;
  Source source{.domain = domain, .at = source_at(members, wanted)};
  if (!fill_address(info->src_addr, info->src_addrlen, write_source(wanted.format, source))) {
    return nullptr;
  }
  if (!wanted.destination.empty() &&
      !fill_address(info->dest_addr, info->dest_addrlen, wanted.destination)) {
    return nullptr;
  }
  fill_endpoint(*info, hints);
  fill_queues(*info, hints, config);
  fill_domain(*info, hints, domain, config, version);
  info->fabric_attr->name = ::strdup(kName);  // libfabric fills in prov_name itself
  info->fabric_attr->prov_version = kVersion;
  info->fabric_attr->api_version = version;
  if (members.size() == 1) {
    const std::vector<HostNic> known = host_nics();
    HostNic unknown{.name = members.front(), .device = members.front(), .up = true};
    const HostNic* const nic = find_nic(known, members.front());
    info->nic = make_nic_object(nic != nullptr ? *nic : unknown);
  }
  return info;
}

// Single NICs are listed only for a program that explores, or asks for one. A program that states
// its needs gets the domain of all NICs. Otherwise Open MPI would distribute the listed NICs among
// the ranks of a host, and a rank with one NIC would lose everything with it.
bool lists_nics(const fi_info* hints, bool by_source) {
  return by_source || hints == nullptr || hints->caps == 0 || hints->src_addr != nullptr ||
         (hints->domain_attr != nullptr && hints->domain_attr->name != nullptr);
}

// A source given by its address stands for the domain of the NIC that has it. Without UDP NICs,
// RDMA ports serve any address of the host.
bool is_source(const std::string& domain, const std::vector<std::string>& nics,
               const Source& source) {
  if (!source.is_of(domain)) return false;
  if (!source.domain.empty() || source.at.is_any()) return true;
  PortName at = source.at;
  at.port = 0;
  const auto has = [&](const std::string& nic) { return of_nic(nic) == at; };
  if (std::ranges::any_of(nics, [](const std::string& nic) { return of_nic(nic).has_value(); })) {
    return has(domain);
  }
  return domain == kName;
}

// True if a domain of that name fits. If not, FI_LOG_LEVEL=info shows why.
bool does(const fi_info* hints, const std::string& name, const Wanted& wanted,
          const Config& config) {
  const char* complaint = hints != nullptr ? complaint_about(*hints, name, config) : nullptr;
  if (complaint == nullptr && wanted.source && !is_source(name, config.nics, *wanted.source)) {
    complaint = "another source address";
  }
  if (complaint == nullptr) return true;
  log_info("domain " + name + " is not listed, as the hints ask for: " + complaint);
  return false;
}

struct Request {
  const char* node;
  const char* service;
  std::uint64_t flags;
  const fi_info* hints;
  [[nodiscard]] bool names_source() const { return (flags & FI_SOURCE) != 0; }
  [[nodiscard]] bool names_anything() const { return node != nullptr || service != nullptr; }
  [[nodiscard]] bool is_string() const {
    return node != nullptr && std::strstr(node, "://") != nullptr;
  }
};

std::optional<PortName> find_node(const Request& request, std::uint32_t format) {
  std::string why = "the service must be in the string";
  std::optional<PortName> name;
  if (!request.is_string()) {
    name = look_up(request.node, request.service,
                   {.family = family_of(format),
                    .is_source = request.names_source(),
                    .is_numeric = (request.flags & FI_NUMERICHOST) != 0},
                   why);
  } else if (request.service == nullptr) {
    name = from_uri(request.node);
    why = "this is not an address";
    if (name && family_of(format) != AF_UNSPEC && family_of(format) != name->family()) name.reset();
  }
  if (!name) {
    log_info(std::string("node ") + (request.node != nullptr ? request.node : "(none)") +
             ", service " + (request.service != nullptr ? request.service : "(none)") + ": " + why);
  }
  return name;
}

// Finds the source: node and service with FI_SOURCE, else the hints' source. False: it is
// impossible.
bool want_source(const Request& request, Wanted& wanted) {
  const fi_info* const hints = request.hints;
  if (!request.names_source()) {
    if (hints == nullptr || hints->src_addr == nullptr) return true;
    wanted.source = read_source(wanted.format, hints->src_addr, hints->src_addrlen);
    return wanted.source.has_value();
  }
  const std::optional<PortName> name = find_node(request, wanted.format);
  if (!name) return false;
  wanted.source = Source{.at = *name};
  // An unspecified address has no family, unless the format has one.
  if (name->is_any() && !is_socket_format(wanted.format)) wanted.source->at.is_v6 = false;
  return true;
}

bool want_destination(const Request& request, Wanted& wanted) {
  const fi_info* const hints = request.hints;
  if (request.names_source() || !request.names_anything()) {
    if (hints == nullptr || hints->dest_addr == nullptr) return true;
    const auto read = hints->dest_addrlen >= least_bytes(wanted.format)
                          ? read_address(wanted.format, hints->dest_addr)
                          : std::nullopt;
    if (read) wanted.destination = write_address(wanted.format, *read);
    return read.has_value();
  }
  if (const auto own = request.is_string() ? from_string(request.node) : std::nullopt) {
    if (request.service == nullptr) wanted.destination = write_address(wanted.format, *own);
    return !wanted.destination.empty();
  }
  // Without a service the result names a host, but no port to ask at.
  const std::optional<PortName> name = find_node(request, wanted.format);
  if (name) wanted.destination = write_name(wanted.format, *name);
  return name.has_value();
}

// Tries the formats in turn and returns the first that fits: FI_SOCKADDR leaves the choice open.
std::optional<Wanted> wanted_by(const Request& request) {
  const fi_info* const hints = request.hints;
  const std::uint32_t format =
      hints != nullptr ? hints->addr_format : std::uint32_t{FI_FORMAT_UNSPEC};
  const std::vector<std::uint32_t> formats =
      format == FI_SOCKADDR ? std::vector<std::uint32_t>{FI_SOCKADDR_IN, FI_SOCKADDR_IN6}
                            : std::vector<std::uint32_t>{format};
  for (const std::uint32_t candidate : formats) {
    Wanted wanted{.format = candidate};
    if (is_known_format(candidate) && want_source(request, wanted) &&
        want_destination(request, wanted)) {
      return wanted;
    }
  }
  return std::nullopt;
}

}  // namespace

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) {
  try {
    Config config;
    if (const std::string complaint = read_config(config); !complaint.empty()) {
      complain(complaint);
      return -FI_EINVAL;
    }
    const Request request{node, service, flags, hints};
    if (request.names_source() && !request.names_anything()) return -FI_EINVAL;
    const std::optional<Wanted> wanted = wanted_by(request);
    if (!wanted) return -FI_ENODATA;
    std::vector<std::pair<std::string, std::vector<std::string>>> domains{{kName, config.nics}};
    for (const std::string& nic : config.nics) {
      if (lists_nics(hints, request.names_source())) domains.emplace_back(nic, std::vector{nic});
    }
    Info first;
    fi_info** last = nullptr;
    for (const auto& [name, members] : domains) {
      if (!does(hints, name, *wanted, config)) continue;
      Info made = make_info(name, members, hints, config, version, *wanted);
      if (!made) return -FI_ENOMEM;
      fi_info** const next = &made->next;
      if (first) {
        *last = made.release();
      } else {
        first = std::move(made);
      }
      last = next;
    }
    if (!first) return -FI_ENODATA;
    *info = first.release();
    return 0;
  } catch (const std::exception& error) {
    complain(error.what());
    return -FI_ENOMEM;
  }
}

}  // namespace hawser::ofi
