// SPDX-License-Identifier: Apache-2.0
// UCX's tagged messages (UCP) over TCP on loopback alone: no shared memory. This thread makes the
// progress. A send completes and leaves the window when its buffer may be used again.
#include <ucp/api/ucp.h>

#include "bench/compare/counted_transport.hpp"

namespace hawser::bench {

namespace {

constexpr ucp_tag_t kTag = 1;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};

void check(ucs_status_t status, const char* call) {
  if (status != UCS_OK) fail(std::string(call) + ": " + ucs_status_string(status));
}

ucp_context_h open_context() {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  ucp_context_h context = nullptr;
  ucs_status_t status = ucp_config_modify(config, "TLS", "tcp,self");
  if (status == UCS_OK) status = ucp_config_modify(config, "NET_DEVICES", "lo");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  if (status == UCS_OK) status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  check(status, "ucp_init");
  return context;
}

ucp_worker_h open_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  check(ucp_worker_create(context, &params, &worker), "ucp_worker_create");
  return worker;
}

class UcxTransport final : public CountedTransport {
 public:
  explicit UcxTransport(const TransportOptions& options)
      : CountedTransport(options),
        context_(open_context(), ucp_cleanup),
        worker_(open_worker(context_.get()), ucp_worker_destroy) {}

  [[nodiscard]] std::string address() const override {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    check(ucp_worker_get_address(worker_.get(), &address, &bytes), "ucp_worker_get_address");
    std::string text(reinterpret_cast<const char*>(address), bytes);
    ucp_worker_release_address(worker_.get(), address);
    return text;
  }

  void connect(const std::string& peer) override {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(peer.data());
    check(ucp_ep_create(worker_.get(), &params, &peer_), "ucp_ep_create");
  }

  void idle() override { (void)ucp_worker_progress(worker_.get()); }

 private:
  static void on_sent(void* request, ucs_status_t status, void* transport) {
    static_cast<UcxTransport*>(transport)->finish(status, false);
    ucp_request_free(request);
  }
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t*,
                          void* transport) {
    static_cast<UcxTransport*>(transport)->finish(status, true);
    ucp_request_free(request);
  }
  // C code calls this, so it must not throw.
  void finish(ucs_status_t status, bool receive) {
    if (status != UCS_OK) error_ = status;
    is_done(receive);
    patience_.renew();
  }

  void post_send(std::span<const std::byte> bytes) override {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send = on_sent;
    params.user_data = this;
    take(ucp_tag_send_nbx(peer_, bytes.data(), bytes.size(), kTag, &params), false);
  }

  void post_receive(std::span<std::byte> bytes) override {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.recv = on_received;
    params.user_data = this;
    take(ucp_tag_recv_nbx(worker_.get(), bytes.data(), bytes.size(), kTag, kWholeTag, &params),
         true);
  }

  // A call that was done at once has no callback. Sends return null in that case, and so do
  // receives.
  void take(ucs_status_ptr_t result, bool receive) {
    if (UCS_PTR_IS_ERR(result)) check(UCS_PTR_STATUS(result), "UCX");
    if (result == nullptr) finish(UCS_OK, receive);
  }

  void progress() override {
    if (ucp_worker_progress(worker_.get()) == 0) patience_.spend("UCX");
    check(error_, "UCX");
  }

  std::unique_ptr<ucp_context, decltype(&ucp_cleanup)> context_;
  std::unique_ptr<ucp_worker, decltype(&ucp_worker_destroy)> worker_;
  ucp_ep_h peer_ = nullptr;  // destroyed with the worker
  ucs_status_t error_ = UCS_OK;
  Patience patience_;
};

}  // namespace

std::unique_ptr<Transport> make_ucx(const TransportOptions& options) {
  return std::make_unique<UcxTransport>(options);
}

}  // namespace hawser::bench
