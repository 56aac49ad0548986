// SPDX-License-Identifier: Apache-2.0
// Posts a chain of sends with one doorbell: request by request if the provider supports it
// (ibv_wr_*), as a list otherwise.
#pragma once

#include "engine/driver/verbs/verbs_port.hpp"

namespace hawser::engine {

class VerbsPoster {
 public:
  // `pair` was made by make_pair, and must outlive its use here.
  void attach(ibv_qp* pair) {
    pair_ = pair;
    extended_ = ibv_qp_to_qp_ex(pair);
  }

  // As ibv_post_send: returns 0, or an error number and in `refused` the first request that was not
  // taken. An inline request has one part.
  [[nodiscard]] int post(ibv_send_wr* requests, ibv_send_wr*& refused) {
    return extended_ != nullptr ? build(requests, refused)
                                : ibv_post_send(pair_, requests, &refused);
  }

  // Makes a UD queue pair, with ibv_wr_* if possible. Returns null, with errno set, if the device
  // refuses.
  [[nodiscard]] static ibv_qp* make_pair(const VerbsPort& port, const ibv_qp_init_attr& attributes);

 private:
  int build(ibv_send_wr* requests, ibv_send_wr*& refused);

  ibv_qp* pair_ = nullptr;
  ibv_qp_ex* extended_ = nullptr;  // the same pair, if it supports ibv_wr_*
};

}  // namespace hawser::engine
