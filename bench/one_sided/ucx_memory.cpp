// SPDX-License-Identifier: Apache-2.0
// UCX's remote memory access and atomics (UCP) over TCP on loopback. A put completes when its bytes
// may be used again, so a flush of the endpoint follows: after each put that is alone, and after a
// stream. A signal is a put, a fence and an add to a word of the target, whose program
// watches the word.
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "bench/compare/ucx_worker.hpp"
#include "bench/one_sided/by_name.hpp"

namespace hawser::bench::one_sided {

namespace {

constexpr std::uint64_t kOne = 1;

class UcxMemory final : public RemoteMemory {
 public:
  explicit UcxMemory(std::size_t longest)
      : RemoteMemory(longest),
        worker_(UCP_FEATURE_RMA | UCP_FEATURE_AMO64),
        mapped_(map(), Unmap{worker_.context()}) {}
  ~UcxMemory() override {
    if (key_ != nullptr) ucp_rkey_destroy(key_);
  }

  // The address of the memory, the length of its key, the key, and the worker's address.
  [[nodiscard]] std::string address() const override {
    void* packed = nullptr;
    std::size_t bytes = 0;
    check_ucx(ucp_rkey_pack(worker_.context(), mapped_.get(), &packed, &bytes), "ucp_rkey_pack");
    const Header header{own_base_, bytes};
    std::string text(reinterpret_cast<const char*>(&header), sizeof header);
    text.append(static_cast<const char*>(packed), bytes);
    ucp_rkey_buffer_release(packed);
    return text + worker_.address();
  }

  void connect(const std::string& peer) override {
    Header header;
    if (peer.size() < sizeof header) fail("UCX: not an address");
    std::memcpy(&header, peer.data(), sizeof header);
    base_ = header.base;
    peer_ = worker_.connect(peer.substr(sizeof header + header.key_bytes));
    check_ucx(ucp_ep_rkey_unpack(peer_, peer.data() + sizeof header, &key_), "ucp_ep_rkey_unpack");
  }

 private:
  struct Header {
    std::uint64_t base = 0;
    std::uint64_t key_bytes = 0;
  };
  struct Unmap {
    ucp_context_h context;
    void operator()(ucp_mem_h memory) const { (void)ucp_mem_unmap(context, memory); }
  };

  ucp_mem_h map() {
    own_base_ = reinterpret_cast<std::uintptr_t>(memory().data());
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = memory().data();
    params.length = memory().size();
    ucp_mem_h mapped = nullptr;
    check_ucx(ucp_mem_map(worker_.context(), &params, &mapped), "ucp_mem_map");
    return mapped;
  }

  static void on_end(void* request, ucs_status_t status, void* user_data) {
    auto& operation = *static_cast<Operation*>(user_data);
    static_cast<UcxMemory*>(operation.owner)->finish(status, operation);
    ucp_request_free(request);
  }
  // C code calls this, so it must not throw.
  void finish(ucs_status_t status, Operation& operation) noexcept {
    if (status != UCS_OK) error_ = status;
    ended(operation);
    any_ended_ = true;
  }
  static void on_flushed(void* request, ucs_status_t status, void* user_data) {
    auto& self = *static_cast<UcxMemory*>(user_data);
    if (status != UCS_OK) self.error_ = status;
    self.flushing_ = false;
    ucp_request_free(request);
  }

  static ucp_request_param_t params_of(Operation& operation) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send = on_end;
    params.user_data = &operation;
    return params;
  }
  // A call that was done at once has no callback.
  void take(ucs_status_ptr_t result, Operation& operation, const char* call) {
    if (UCS_PTR_IS_ERR(result)) {
      if (UCS_PTR_STATUS(result) == UCS_ERR_UNSUPPORTED) {
        throw Refusal(std::string(call) + ": " + ucs_status_string(UCS_ERR_UNSUPPORTED));
      }
      check_ucx(UCS_PTR_STATUS(result), call);
    }
    if (result == nullptr) finish(UCS_OK, operation);
  }

  void post_put(Operation& operation, std::span<const std::byte> from) override {
    const ucp_request_param_t params = params_of(operation);
    if (!operation.is_alone) {
      return take(ucp_put_nbx(peer_, from.data(), from.size(), base_, key_, &params), operation,
                  "ucp_put_nbx");
    }
    put_untracked(from, base_);
    take(ucp_ep_flush_nbx(peer_, &params), operation, "ucp_ep_flush_nbx");
  }
  // The operation that follows tells when the put has ended.
  void put_untracked(std::span<const std::byte> from, std::uint64_t to) {
    const ucp_request_param_t params{};
    const ucs_status_ptr_t request =
        ucp_put_nbx(peer_, from.data(), from.size(), to, key_, &params);
    if (UCS_PTR_IS_ERR(request)) check_ucx(UCS_PTR_STATUS(request), "ucp_put_nbx");
    if (request != nullptr) ucp_request_free(request);
  }
  void post_get(Operation& operation, std::span<std::byte> into) override {
    const ucp_request_param_t params = params_of(operation);
    take(ucp_get_nbx(peer_, into.data(), into.size(), base_, key_, &params), operation,
         "ucp_get_nbx");
  }
  void post_fetch_add(Operation& operation) override {
    ucp_request_param_t params = params_of(operation);
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype = ucp_dt_make_contig(sizeof operation.operand);
    params.reply_buffer = &operation.result;
    take(ucp_atomic_op_nbx(peer_, UCP_ATOMIC_OP_ADD, &operation.operand, 1,
                           base_ + counter_offset(), key_, &params),
         operation, "ucp_atomic_op_nbx");
  }
  // The new value comes in the reply buffer, which the fetched word overwrites.
  void post_compare_swap(Operation& operation) override {
    ucp_request_param_t params = params_of(operation);
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype = ucp_dt_make_contig(sizeof operation.operand);
    operation.result = operation.operand;
    params.reply_buffer = &operation.result;
    take(ucp_atomic_op_nbx(peer_, UCP_ATOMIC_OP_CSWAP, &operation.compare, 1,
                           base_ + counter_offset(), key_, &params),
         operation, "ucp_atomic_op_nbx");
  }
  void post_signal(Operation& operation) override {
    // UCX copies so few bytes at once. An add behind the fence ends after them in any case.
    put_untracked(std::as_bytes(std::span(&operation.operand, 1)), base_ + signalled_offset());
    check_ucx(ucp_worker_fence(worker_.get()), "ucp_worker_fence");
    ucp_request_param_t params = params_of(operation);
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype = ucp_dt_make_contig(sizeof kOne);
    take(ucp_atomic_op_nbx(peer_, UCP_ATOMIC_OP_ADD, &kOne, 1, base_ + signal_offset(), key_,
                           &params),
         operation, "ucp_atomic_op_nbx");
  }

  void flush() override {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send = on_flushed;
    params.user_data = this;
    const ucs_status_ptr_t result = ucp_ep_flush_nbx(peer_, &params);
    if (UCS_PTR_IS_ERR(result)) check_ucx(UCS_PTR_STATUS(result), "ucp_ep_flush_nbx");
    flushing_ = result != nullptr;
    while (flushing_) progress();
  }

  bool look() override {
    const bool any = ucp_worker_progress(worker_.get()) != 0;
    check_ucx(error_, "UCX");
    return std::exchange(any_ended_, false) || any;
  }

  std::uint64_t own_base_ = 0;
  UcxWorker worker_;
  std::unique_ptr<std::remove_pointer_t<ucp_mem_h>, Unmap> mapped_;
  std::uint64_t base_ = 0;  // of the other side's memory
  ucp_rkey_h key_ = nullptr;
  ucp_ep_h peer_ = nullptr;  // destroyed with the worker
  ucs_status_t error_ = UCS_OK;
  bool any_ended_ = false;
  bool flushing_ = false;
};

}  // namespace

std::unique_ptr<RemoteMemory> make_ucx(std::size_t longest) {
  return std::make_unique<UcxMemory>(longest);
}

}  // namespace hawser::bench::one_sided
