// SPDX-License-Identifier: Apache-2.0
// libfabric's reliable datagram endpoints over IPv4 loopback: tagged messages, one completion
// queue, progress by this thread. `tcp;ofi_rxm` puts messages on TCP. `udp;ofi_rxd` does in user
// space over UDP what Hawser does. A send completes and leaves the window when its buffer may be
// used again.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstring>
#include <vector>

#include "bench/compare/counted_transport.hpp"

namespace hawser::bench {

namespace {

constexpr std::uint64_t kTag = 1;
constexpr std::size_t kSlots = 2048;  // operations at once: both windows, and some spare

void check(std::int64_t result, const char* call) {
  if (result < 0) {
    fail(std::string(call) + ": " + fi_strerror(static_cast<int>(-result)));
  }
}

struct Close {
  template <class Object>
  void operator()(Object* object) const {
    (void)fi_close(&object->fid);
  }
};
template <class Object>
using Handle = std::unique_ptr<Object, Close>;

struct Info {
  explicit Info(std::string_view provider) {
    std::unique_ptr<fi_info, decltype(&fi_freeinfo)> hints(fi_allocinfo(), fi_freeinfo);
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = 0;
    hints->fabric_attr->prov_name = ::strdup(std::string(provider).c_str());
    check(fi_getinfo(FI_VERSION(1, 14), "127.0.0.1", nullptr, FI_SOURCE, hints.get(), &info),
          "fi_getinfo");
  }
  ~Info() { fi_freeinfo(info); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  fi_info* info = nullptr;
};

// The context of an operation, to which its completion points. The fi_context2 comes first because
// libfabric returns its address.
struct Slot {
  fi_context2 context{};
  bool receive = false;
};

class LibfabricTransport final : public CountedTransport {
 public:
  LibfabricTransport(std::string_view provider, const TransportOptions& options)
      : CountedTransport(options), info_(provider), slots_(kSlots) {
    for (Slot& slot : slots_) free_.push_back(&slot);
    fi_info* info = info_.info;
    fid_fabric* fabric = nullptr;
    check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    fabric_.reset(fabric);
    fid_domain* domain = nullptr;
    check(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    domain_.reset(domain);
    fi_av_attr vector{};
    fid_av* addresses = nullptr;
    check(fi_av_open(domain, &vector, &addresses, nullptr), "fi_av_open");
    addresses_.reset(addresses);
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.size = 2 * kSlots;
    fid_cq* completions = nullptr;
    check(fi_cq_open(domain, &queue, &completions, nullptr), "fi_cq_open");
    completions_.reset(completions);
    fid_ep* endpoint = nullptr;
    check(fi_endpoint(domain, info, &endpoint, nullptr), "fi_endpoint");
    endpoint_.reset(endpoint);
    check(fi_ep_bind(endpoint_.get(), &addresses_->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(endpoint_.get(), &completions_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(endpoint_.get()), "fi_enable");
  }

  [[nodiscard]] std::string address() const override {
    std::string name(256, '\0');
    std::size_t bytes = name.size();
    check(fi_getname(&endpoint_->fid, name.data(), &bytes), "fi_getname");
    name.resize(bytes);
    return name;
  }

  void connect(const std::string& peer) override {
    if (fi_av_insert(addresses_.get(), peer.data(), 1, &peer_, 0, nullptr) != 1) {
      fail("fi_av_insert failed");
    }
  }

  void idle() override { (void)take(); }

 private:
  Slot& slot(bool receive) {
    while (free_.empty()) progress();
    Slot* taken = free_.back();
    free_.pop_back();
    taken->receive = receive;
    return *taken;
  }

  void post_send(std::span<const std::byte> bytes) override {
    Slot& it = slot(false);
    std::int64_t result = 0;
    while ((result = fi_tsend(endpoint_.get(), bytes.data(), bytes.size(), nullptr, peer_, kTag,
                              &it.context)) == -FI_EAGAIN) {
      progress();
    }
    check(result, "fi_tsend");
  }

  void post_receive(std::span<std::byte> bytes) override {
    Slot& it = slot(true);
    std::int64_t result = 0;
    while ((result = fi_trecv(endpoint_.get(), bytes.data(), bytes.size(), nullptr, FI_ADDR_UNSPEC,
                              kTag, 0, &it.context)) == -FI_EAGAIN) {
      progress();
    }
    check(result, "fi_trecv");
  }

  void progress() override {
    if (take()) {
      patience_.renew();
    } else {
      patience_.spend("libfabric");
    }
  }

  bool take() {
    std::array<fi_cq_entry, 16> entries;
    const std::int64_t n = fi_cq_read(completions_.get(), entries.data(), entries.size());
    if (n == -FI_EAGAIN) return false;
    if (n == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      check(fi_cq_readerr(completions_.get(), &error, 0), "fi_cq_readerr");
      fail(std::string("libfabric: ") + fi_strerror(error.err));
    }
    check(n, "fi_cq_read");
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      auto* done = static_cast<Slot*>(entries[i].op_context);
      is_done(done->receive);
      free_.push_back(done);
    }
    return true;
  }

  Info info_;
  Handle<fid_fabric> fabric_;
  Handle<fid_domain> domain_;
  Handle<fid_av> addresses_;
  Handle<fid_cq> completions_;
  Handle<fid_ep> endpoint_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  Patience patience_;
};

}  // namespace

std::unique_ptr<Transport> make_libfabric(std::string_view provider,
                                          const TransportOptions& options) {
  return std::make_unique<LibfabricTransport>(provider, options);
}

}  // namespace hawser::bench
