// SPDX-License-Identifier: Apache-2.0
// UCX's tagged messages (UCP) over TCP on loopback alone: no shared memory. This thread makes the
// progress. A send completes and leaves the window when its buffer may be used again.
#include "bench/compare/counted_transport.hpp"
#include "bench/compare/ucx_worker.hpp"

namespace hawser::bench {

namespace {

constexpr ucp_tag_t kTag = 1;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};

class UcxTransport final : public CountedTransport {
 public:
  explicit UcxTransport(const TransportOptions& options)
      : CountedTransport(options), worker_(UCP_FEATURE_TAG) {}

  [[nodiscard]] std::string address() const override { return worker_.address(); }

  void connect(const std::string& peer) override { peer_ = worker_.connect(peer); }

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
    if (UCS_PTR_IS_ERR(result)) check_ucx(UCS_PTR_STATUS(result), "UCX");
    if (result == nullptr) finish(UCS_OK, receive);
  }

  void progress() override {
    if (ucp_worker_progress(worker_.get()) == 0) patience_.spend("UCX");
    check_ucx(error_, "UCX");
  }

  UcxWorker worker_;
  ucp_ep_h peer_ = nullptr;  // destroyed with the worker
  ucs_status_t error_ = UCS_OK;
  Patience patience_;
};

}  // namespace

std::unique_ptr<Transport> make_ucx(const TransportOptions& options) {
  return std::make_unique<UcxTransport>(options);
}

}  // namespace hawser::bench
