// SPDX-License-Identifier: Apache-2.0
// A worker of UCX (UCP) over TCP on loopback alone: no shared memory. The thread that calls it
// makes the progress.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

inline void check_ucx(ucs_status_t status, const char* call) {
  if (status != UCS_OK) fail(std::string(call) + ": " + ucs_status_string(status));
}

class UcxWorker {
 public:
  // `features`: UCP_FEATURE_... Throws Failure.
  explicit UcxWorker(std::uint64_t features)
      : context_(open_context(features), ucp_cleanup),
        worker_(open_worker(context_.get()), ucp_worker_destroy) {}

  [[nodiscard]] ucp_context_h context() const { return context_.get(); }
  [[nodiscard]] ucp_worker_h get() const { return worker_.get(); }

  [[nodiscard]] std::string address() const {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    check_ucx(ucp_worker_get_address(worker_.get(), &address, &bytes), "ucp_worker_get_address");
    std::string text(reinterpret_cast<const char*>(address), bytes);
    ucp_worker_release_address(worker_.get(), address);
    return text;
  }
  // The endpoint ends with the worker.
  [[nodiscard]] ucp_ep_h connect(const std::string& peer) const {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(peer.data());
    ucp_ep_h endpoint = nullptr;
    check_ucx(ucp_ep_create(worker_.get(), &params, &endpoint), "ucp_ep_create");
    return endpoint;
  }

 private:
  static ucp_context_h open_context(std::uint64_t features) {
    ucp_config_t* config = nullptr;
    check_ucx(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_context_h context = nullptr;
    ucs_status_t status = ucp_config_modify(config, "TLS", "tcp,self");
    if (status == UCS_OK) status = ucp_config_modify(config, "NET_DEVICES", "lo");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    if (status == UCS_OK) status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    check_ucx(status, "ucp_init");
    return context;
  }
  static ucp_worker_h open_worker(ucp_context_h context) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    ucp_worker_h worker = nullptr;
    check_ucx(ucp_worker_create(context, &params, &worker), "ucp_worker_create");
    return worker;
  }

  std::unique_ptr<ucp_context, decltype(&ucp_cleanup)> context_;
  std::unique_ptr<ucp_worker, decltype(&ucp_worker_destroy)> worker_;
};

}  // namespace hawser::bench
