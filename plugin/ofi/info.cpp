#include "plugin/ofi/info.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "hawser/nics.hpp"
#include "hawser/types.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/nic_object.hpp"
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
  tx.caps = info.caps & (FI_MSG | FI_TAGGED | FI_SEND);
  tx.msg_order = FI_ORDER_SAS;
  tx.inject_size = kInjectBytes;
  const bool is_inline = threads_of(config, progress_of(hints)) == 0;
  const std::size_t least =
      config.tunables_set.contains("max_operations") ? config.tunables.max_operations : 0;
  tx.size = std::max(kSendOperations, least);
  tx.iov_limit = 1;
  fi_rx_attr& rx = *info.rx_attr;
  rx.caps =
      info.caps & (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE);
  rx.msg_order = FI_ORDER_SAS;
  Config preferred = config;
  if (is_inline) preferred.prefer("unexpected_bytes", kInlineUnexpectedBytes);
  rx.total_buffered_recv = preferred.tunables.unexpected_bytes;
  rx.size = std::max(is_inline ? kReceiveOperations : kThreadReceiveOperations, least);
  rx.iov_limit = 1;
  if (hints != nullptr && hints->tx_attr != nullptr) {
    tx.op_flags = hints->tx_attr->op_flags;
    take_hint(tx.size, hints->tx_attr->size);
  }
  if (hints != nullptr && hints->rx_attr != nullptr) {
    rx.op_flags = hints->rx_attr->op_flags;
    take_hint(rx.size, hints->rx_attr->size);
  }
}

bool fill_source(fi_info& info, const std::string& domain) {
  const auto address = source_address(domain);
  info.src_addr = std::malloc(address.size());  // fi_freeinfo frees it
  if (info.src_addr == nullptr) return false;
  std::memcpy(info.src_addr, address.data(), address.size());
  info.src_addrlen = address.size();
  return true;
}

// FI_MR_BASIC and FI_MR_SCALABLE. Headers from 2.0 on warn of these names.
constexpr int kOldRegistrationModes = 1 | 2;

// Nothing has to be registered; before libfabric 1.5 that had to be said by a word.
int registration_mode(std::uint32_t version, const fi_info* hints) {
  if (version >= FI_VERSION(1, 5) || hints == nullptr || hints->domain_attr == nullptr) return 0;
  return hints->domain_attr->mr_mode & kOldRegistrationModes;
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
  // What goes on by itself does for who would turn it by hand, too.
  take_hint(attr.data_progress, asked.data_progress);
  attr.resource_mgmt = FI_RM_ENABLED;
  attr.av_type = FI_AV_TABLE;
  take_hint(attr.av_type, asked.av_type);
  attr.mr_mode = registration_mode(version, hints);
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

Info make_info(const std::string& domain, const std::vector<std::string>& members,
               const fi_info* hints, const Config& config, std::uint32_t version) {
  Info info(fi_allocinfo());
  if (!info) return info;
  info->caps =
      hints != nullptr && hints->caps != 0 ? hints->caps | FI_LOCAL_COMM | FI_REMOTE_COMM : kCaps;
  // One who names neither direction means both.
  if ((info->caps & (FI_SEND | FI_RECV)) == 0) info->caps |= FI_SEND | FI_RECV;
  info->addr_format = FI_FORMAT_UNSPEC;
  if (!fill_source(*info, domain)) return nullptr;
  fill_endpoint(*info, hints);
  fill_queues(*info, hints, config);
  fill_domain(*info, hints, domain, config, version);
  info->fabric_attr->name = ::strdup(kName);  // libfabric itself fills in prov_name
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

// NICs one by one are for who looks around or asks for one. Who says what his program needs gets
// the domain of them all: Open MPI deals out what a provider lists among the ranks of a host, and a
// rank that has one NIC loses all with it.
bool lists_nics(const fi_info* hints, bool by_source) {
  return by_source || hints == nullptr || hints->caps == 0 || hints->src_addr != nullptr ||
         (hints->domain_attr != nullptr && hints->domain_attr->name != nullptr);
}

bool is_other_source(const fi_info& hints, const std::string& domain) {
  if (hints.src_addr == nullptr) return false;
  const auto ours = source_address(domain);
  return hints.src_addrlen != ours.size() ||
         std::memcmp(hints.src_addr, ours.data(), ours.size()) != 0;
}

bool names_source(const std::string& nic, const char* node) {
  return node == nullptr || nic == std::string("udp:") + node || nic == node;
}

// Whether a domain of that name does. If not, FI_LOG_LEVEL=info tells why.
bool does(const fi_info* hints, const std::string& name, bool by_source, const Config& config) {
  if (hints == nullptr) return true;
  const char* complaint = complaint_about(*hints, name, config);
  // FI_SOURCE: node and service say it, not the hints.
  if (complaint == nullptr && !by_source && is_other_source(*hints, name)) {
    complaint = "another src_addr";
  }
  if (complaint == nullptr) return true;
  log_info("domain " + name + " is not listed, as the hints ask for: " + complaint);
  return false;
}

}  // namespace

std::array<std::byte, kAddressBytes> source_address(const std::string& domain) {
  std::array<std::byte, kAddressBytes> address{};
  std::memcpy(address.data() + 1, domain.data(), std::min(domain.size(), address.size() - 1));
  return address;
}

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) {
  try {
    Config config;
    if (const std::string complaint = read_config(config); !complaint.empty()) {
      complain(complaint);
      return -FI_EINVAL;
    }
    // A name of a host is nobody's address here: those come from fi_getname.
    const bool by_source = (flags & FI_SOURCE) != 0;
    if (!by_source && (node != nullptr || service != nullptr)) {
      log_info("no node or service can be resolved: addresses come from fi_getname");
      return -FI_ENODATA;
    }
    std::vector<std::pair<std::string, std::vector<std::string>>> domains;
    if (!by_source || node == nullptr) domains.emplace_back(kName, config.nics);
    for (const std::string& nic : config.nics) {
      if (lists_nics(hints, by_source) && (!by_source || names_source(nic, node)))
        domains.emplace_back(nic, std::vector{nic});
    }
    Info first;
    fi_info** last = nullptr;
    for (const auto& [name, members] : domains) {
      if (!does(hints, name, by_source, config)) continue;
      Info made = make_info(name, members, hints, config, version);
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
