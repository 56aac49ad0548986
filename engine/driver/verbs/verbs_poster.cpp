// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_poster.hpp"

#include <cerrno>
#include <cstddef>

namespace hawser::engine {
namespace {

ibv_qp* make_extended(ibv_pd* domain, const ibv_qp_init_attr& attributes) {
  ibv_qp_init_attr_ex extended{};
  extended.send_cq = attributes.send_cq;
  extended.recv_cq = attributes.recv_cq;
  extended.cap = attributes.cap;
  extended.qp_type = attributes.qp_type;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  extended.pd = domain;
  extended.send_ops_flags = IBV_QP_EX_WITH_SEND;
  return ibv_create_qp_ex(domain->context, &extended);
}

}  // namespace

ibv_qp* VerbsPoster::make_pair(const VerbsPort& port, const ibv_qp_init_attr& attributes) {
  ibv_pd* const domain = port.domain.get();
  if (port.newer_calls) {
    ibv_qp* const pair = make_extended(domain, attributes);
    if (pair != nullptr || !is_not_offered(errno)) return pair;
  }
  ibv_qp_init_attr plain = attributes;
  return ibv_create_qp(domain, &plain);
}

int VerbsPoster::build(ibv_send_wr* requests, ibv_send_wr*& refused) {
  ibv_wr_start(extended_);
  for (const ibv_send_wr* request = requests; request != nullptr; request = request->next) {
    extended_->wr_id = request->wr_id;
    extended_->wr_flags = request->send_flags & IBV_SEND_SIGNALED;
    ibv_wr_send(extended_);
    ibv_wr_set_ud_addr(extended_, request->wr.ud.ah, request->wr.ud.remote_qpn,
                       request->wr.ud.remote_qkey);
    if ((request->send_flags & IBV_SEND_INLINE) != 0) {
      const ibv_sge& part = request->sg_list[0];
      ibv_wr_set_inline_data(extended_, reinterpret_cast<void*>(part.addr), part.length);
    } else {
      ibv_wr_set_sge_list(extended_, static_cast<std::size_t>(request->num_sge), request->sg_list);
    }
  }
  refused = requests;  // the device takes all or none
  return ibv_wr_complete(extended_);
}

}  // namespace hawser::engine
