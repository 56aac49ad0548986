// SPDX-License-Identifier: Apache-2.0
// libfabric's remote memory access and atomics, over `tcp;ofi_rxm` and `udp;ofi_rxd` on IPv4
// loopback. A put that is alone completes when its bytes are in the target's memory
// (FI_DELIVERY_COMPLETE), and so does one more after a stream. A signal is a write with remote
// completion data, which its target's completion queue reports.
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstring>

#include "bench/compare/libfabric_endpoint.hpp"
#include "bench/one_sided/by_name.hpp"

namespace hawser::bench::one_sided {

namespace {

constexpr std::size_t kCompletions = 4096;
constexpr std::uint64_t kKey = 1;  // of providers that leave keys to their callers

static_assert(sizeof(fi_context2) <= sizeof(Operation::context));

// The other side needs this beside the endpoint's name.
struct Key {
  std::uint64_t base = 0;  // the address of the memory's first byte
  std::uint64_t key = 0;
};

class LibfabricMemory final : public RemoteMemory {
 public:
  LibfabricMemory(std::string_view provider, std::size_t longest)
      : RemoteMemory(longest),
        crashes_in_fetches_(provider.ends_with("ofi_rxd")),
        endpoint_(provider, {.caps = FI_MSG | FI_RMA | FI_ATOMIC,
                             .mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
                             .format = FI_CQ_FORMAT_DATA,
                             .completions = kCompletions}) {
    fid_mr* region = nullptr;
    check_libfabric(fi_mr_reg(endpoint_.domain(), memory().data(), memory().size(),
                              FI_REMOTE_READ | FI_REMOTE_WRITE, 0, kKey, 0, &region, nullptr),
                    "fi_mr_reg");
    region_.reset(region);
    own_key_.key = fi_mr_key(region);
    if ((endpoint_.info().domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0) {
      own_key_.base = reinterpret_cast<std::uintptr_t>(memory().data());
    }
  }

  [[nodiscard]] std::string address() const override {
    return std::string(reinterpret_cast<const char*>(&own_key_), sizeof own_key_) +
           endpoint_.name();
  }

  void connect(const std::string& peer) override {
    if (peer.size() < sizeof key_) fail("libfabric: not an address");
    std::memcpy(&key_, peer.data(), sizeof key_);
    peer_ = endpoint_.insert(std::string_view(peer).substr(sizeof key_));
  }

 private:
  void post_put(Operation& operation, std::span<const std::byte> from) override {
    write(from, 0, operation.is_alone ? FI_DELIVERY_COMPLETE : 0, &operation.context);
  }
  void post_get(Operation& operation, std::span<std::byte> into) override {
    call("fi_read", [&] {
      return fi_read(endpoint_.endpoint(), into.data(), into.size(), nullptr, peer_, key_.base,
                     key_.key, &operation.context);
    });
  }
  void post_fetch_add(Operation& operation) override {
    refuse_fetches();
    call("fi_fetch_atomic", [&] {
      return fi_fetch_atomic(endpoint_.endpoint(), &operation.operand, 1, nullptr,
                             &operation.result, nullptr, peer_, key_.base + counter_offset(),
                             key_.key, FI_UINT64, FI_SUM, &operation.context);
    });
  }
  void post_compare_swap(Operation& operation) override {
    refuse_fetches();
    call("fi_compare_atomic", [&] {
      return fi_compare_atomic(endpoint_.endpoint(), &operation.operand, 1, nullptr,
                               &operation.compare, nullptr, &operation.result, nullptr, peer_,
                               key_.base + counter_offset(), key_.key, FI_UINT64, FI_CSWAP,
                               &operation.context);
    });
  }
  void post_signal(Operation& operation) override {
    write(std::as_bytes(std::span(&operation.operand, 1)), signalled_offset(), FI_REMOTE_CQ_DATA,
          &operation.context);
  }
  // Both providers deliver in order.
  void flush() override {
    is_flushed_ = false;
    write(std::as_bytes(std::span(&flushed_, 1)), unused_offset(), FI_DELIVERY_COMPLETE,
          &flush_context_);
    while (!is_flushed_) progress();
  }
  void write(std::span<const std::byte> from, std::size_t offset, std::uint64_t flags,
             void* context) {
    const iovec source{const_cast<std::byte*>(from.data()), from.size()};
    const fi_rma_iov target{key_.base + offset, from.size(), key_.key};
    fi_msg_rma message{};
    message.msg_iov = &source;
    message.iov_count = 1;
    message.addr = peer_;
    message.rma_iov = &target;
    message.rma_iov_count = 1;
    message.context = context;
    message.data = 1;
    call("fi_writemsg",
         [&] { return fi_writemsg(endpoint_.endpoint(), &message, FI_COMPLETION | flags); });
  }
  [[nodiscard]] std::uint64_t signals() override { return signals_; }
  void refuse_fetches() const {
    if (crashes_in_fetches_) {
      throw Refusal("an atomic that fetches ends its target's process (ofiwg/libfabric#11814)");
    }
  }

  // Calls until there is room.
  template <class Call>
  void call(const char* name, Call&& call) {
    std::int64_t result = call();
    for (; result == -FI_EAGAIN; result = call()) progress();
    if (result == -FI_EOPNOTSUPP || result == -FI_ENOSYS || result == -FI_ENOPROTOOPT) {
      throw Refusal(std::string(name) + ": " + fi_strerror(static_cast<int>(-result)));
    }
    check_libfabric(result, name);
  }

  bool look() override {
    std::array<fi_cq_data_entry, 16> entries;
    const std::size_t n = endpoint_.read(entries.data(), entries.size());
    for (std::size_t i = 0; i < n; ++i) {
      if ((entries[i].flags & FI_REMOTE_CQ_DATA) != 0) {
        ++signals_;
      } else if (entries[i].op_context == &flush_context_) {
        is_flushed_ = true;
      } else {
        ended(*static_cast<Operation*>(entries[i].op_context));
      }
    }
    return n > 0;
  }

  const bool crashes_in_fetches_;
  LibfabricEndpoint endpoint_;
  LibfabricHandle<fid_mr> region_;  // closed before the endpoint
  Key own_key_;
  Key key_;  // of the other side's memory
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::uint64_t signals_ = 0;
  fi_context2 flush_context_{};
  std::uint64_t flushed_ = 0;
  bool is_flushed_ = true;
};

}  // namespace

std::unique_ptr<RemoteMemory> make_libfabric(std::string_view provider, std::size_t longest) {
  return std::make_unique<LibfabricMemory>(provider, longest);
}

}  // namespace hawser::bench::one_sided
