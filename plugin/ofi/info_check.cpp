// SPDX-License-Identifier: Apache-2.0
// Checks hints against what a domain offers. A field that the program leaves unset (0, null) leaves
// the choice to the provider.
#include <algorithm>
#include <array>
#include <string_view>

#include "hawser/types.hpp"
#include "plugin/ofi/address_format.hpp"
#include "plugin/ofi/info.hpp"
#include "plugin/ofi/one_sided.hpp"
#include "plugin/ofi/provider.hpp"

namespace hawser::ofi {
namespace {

bool within(std::uint64_t asked, std::uint64_t offered) { return (asked & ~offered) == 0; }

bool is_other_name(const char* asked, std::string_view name) {
  return asked != nullptr && name != asked;
}

const char* about(const fi_ep_attr& asked) {
  if (asked.type != FI_EP_UNSPEC && asked.type != FI_EP_RDM) return "endpoints are FI_EP_RDM";
  if (asked.protocol != FI_PROTO_UNSPEC && asked.protocol != kProtocol) return "another protocol";
  if (asked.max_msg_size > kMaxMessageBytes) return "max_msg_size";
  if (asked.tx_ctx_cnt > 1 || asked.rx_ctx_cnt > 1) return "scalable or shared contexts";
  if (asked.auth_key_size > 0) return "authorization keys: use FI_HAWSER_JOB_SECRET instead";
  if (asked.msg_prefix_size > 0) return "message prefixes";
  return nullptr;
}

const char* about(const fi_tx_attr& asked) {
  if (!within(asked.caps, kCaps)) return "tx_attr.caps";
  if (!within(asked.op_flags, kSendFlags)) return "tx_attr.op_flags";
  if (!within(asked.msg_order, FI_ORDER_SAS)) return "tx_attr.msg_order beyond FI_ORDER_SAS";
  if (asked.comp_order != 0) return "ordered completions";
  if (asked.inject_size > kInjectBytes) return "inject_size";
  if (asked.size > kMostOperations) return "tx_attr.size";
  if (asked.iov_limit > kMostPieces) return "iov_limit";
  if (asked.rma_iov_limit > kVectors) return "rma_iov_limit";
  return nullptr;
}

const char* about(const fi_rx_attr& asked) {
  if (!within(asked.caps, kCaps)) return "rx_attr.caps";
  if (!within(asked.op_flags, kReceiveFlags)) return "rx_attr.op_flags";
  if (!within(asked.msg_order, FI_ORDER_SAS)) return "rx_attr.msg_order beyond FI_ORDER_SAS";
  if (asked.comp_order != 0) return "ordered completions";
  if (asked.size > kMostOperations) return "rx_attr.size";
  if (asked.iov_limit > kMostPieces) return "iov_limit";
  return nullptr;
}

const char* about(const fi_domain_attr& asked, const std::string& domain, const Config& config) {
  if (is_other_name(asked.name, domain)) return "another domain";
  if (asked.data_progress == FI_PROGRESS_AUTO && config.threads == 0) {
    return "FI_PROGRESS_AUTO, as FI_HAWSER_THREADS is 0";
  }
  if (asked.cq_data_size > kCqDataBytes) return "cq_data_size";
  if (asked.auth_key_size > 0) return "authorization keys: use FI_HAWSER_JOB_SECRET instead";
  if (!within(asked.caps, FI_LOCAL_COMM | FI_REMOTE_COMM)) return "domain_attr.caps";
  constexpr int kBoth = kBasicRegistration | kScalableRegistration;
  if ((asked.mr_mode & kBoth) == kBoth) return "both FI_MR_BASIC and FI_MR_SCALABLE";
  if (asked.max_ep_stx_ctx > 0 || asked.max_ep_srx_ctx > 0) return "shared contexts";
  return nullptr;
}

}  // namespace

const char* complaint_about(const fi_info& hints, const std::string& domain, const Config& config) {
  if (!within(hints.caps, kCaps)) return "caps";
  if (hints.addr_format != FI_SOCKADDR && !is_known_format(hints.addr_format)) {
    return "another address format";
  }
  if (hints.fabric_attr != nullptr && is_other_name(hints.fabric_attr->name, kName)) {
    return "another fabric";
  }
  const std::array complaints{
      hints.ep_attr != nullptr ? about(*hints.ep_attr) : nullptr,
      hints.tx_attr != nullptr ? about(*hints.tx_attr) : nullptr,
      hints.rx_attr != nullptr ? about(*hints.rx_attr) : nullptr,
      hints.domain_attr != nullptr ? about(*hints.domain_attr, domain, config) : nullptr};
  const auto found =
      std::ranges::find_if(complaints, [](const char* text) { return text != nullptr; });
  return found == complaints.end() ? nullptr : *found;
}

unsigned threads_of(const Config& config, fi_progress asked) {
  return config.threads.value_or(asked == FI_PROGRESS_AUTO ? 1 : 0);
}

}  // namespace hawser::ofi
