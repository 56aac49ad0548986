// SPDX-License-Identifier: Apache-2.0
// A reliable datagram endpoint of libfabric over IPv4 loopback, with one completion queue. Progress
// is made by the thread that reads the queue.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

inline void check_libfabric(std::int64_t result, const char* call) {
  if (result < 0) {
    fail(std::string(call) + ": " + fi_strerror(static_cast<int>(-result)));
  }
}

struct CloseLibfabric {
  template <class Object>
  void operator()(Object* object) const {
    (void)fi_close(&object->fid);
  }
};
template <class Object>
using LibfabricHandle = std::unique_ptr<Object, CloseLibfabric>;

class LibfabricEndpoint {
 public:
  struct Wanted {
    std::uint64_t caps = 0;
    int mr_mode = 0;  // what the caller can do for a provider
    fi_cq_format format = FI_CQ_FORMAT_CONTEXT;
    std::size_t completions = 0;  // places in the queue
  };

  // Throws Failure.
  LibfabricEndpoint(std::string_view provider, const Wanted& wanted)
      : info_(find(provider, wanted)) {
    fid_fabric* fabric = nullptr;
    check_libfabric(fi_fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric");
    fabric_.reset(fabric);
    fid_domain* domain = nullptr;
    check_libfabric(fi_domain(fabric, info_.get(), &domain, nullptr), "fi_domain");
    domain_.reset(domain);
    fi_av_attr vector{};
    fid_av* addresses = nullptr;
    check_libfabric(fi_av_open(domain, &vector, &addresses, nullptr), "fi_av_open");
    addresses_.reset(addresses);
    fi_cq_attr queue{};
    queue.format = wanted.format;
    queue.size = wanted.completions;
    fid_cq* completions = nullptr;
    check_libfabric(fi_cq_open(domain, &queue, &completions, nullptr), "fi_cq_open");
    completions_.reset(completions);
    fid_ep* endpoint = nullptr;
    check_libfabric(fi_endpoint(domain, info_.get(), &endpoint, nullptr), "fi_endpoint");
    endpoint_.reset(endpoint);
    check_libfabric(fi_ep_bind(endpoint, &addresses_->fid, 0), "fi_ep_bind");
    check_libfabric(fi_ep_bind(endpoint, &completions_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check_libfabric(fi_enable(endpoint), "fi_enable");
  }

  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] fid_domain* domain() const { return domain_.get(); }
  [[nodiscard]] fid_ep* endpoint() const { return endpoint_.get(); }

  [[nodiscard]] std::string name() const {
    std::string name(256, '\0');
    std::size_t bytes = name.size();
    check_libfabric(fi_getname(&endpoint_->fid, name.data(), &bytes), "fi_getname");
    name.resize(bytes);
    return name;
  }
  [[nodiscard]] fi_addr_t insert(std::string_view name) {
    fi_addr_t peer = FI_ADDR_UNSPEC;
    if (fi_av_insert(addresses_.get(), name.data(), 1, &peer, 0, nullptr) != 1) {
      fail("fi_av_insert failed");
    }
    return peer;
  }

  // Reads completions in the format of the queue, and returns how many; 0: there are none.
  [[nodiscard]] std::size_t read(void* entries, std::size_t most) {
    const std::int64_t n = fi_cq_read(completions_.get(), entries, most);
    if (n == -FI_EAGAIN) return 0;
    if (n == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      check_libfabric(fi_cq_readerr(completions_.get(), &error, 0), "fi_cq_readerr");
      fail(std::string("libfabric: ") + fi_strerror(error.err));
    }
    check_libfabric(n, "fi_cq_read");
    return static_cast<std::size_t>(n);
  }

 private:
  using Info = std::unique_ptr<fi_info, decltype(&fi_freeinfo)>;
  static Info find(std::string_view provider, const Wanted& wanted) {
    const Info hints(fi_allocinfo(), fi_freeinfo);
    hints->caps = wanted.caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = wanted.mr_mode;
    hints->fabric_attr->prov_name = ::strdup(std::string(provider).c_str());
    fi_info* info = nullptr;
    check_libfabric(
        fi_getinfo(FI_VERSION(1, 14), "127.0.0.1", nullptr, FI_SOURCE, hints.get(), &info),
        "fi_getinfo");
    return {info, fi_freeinfo};
  }

  Info info_;
  LibfabricHandle<fid_fabric> fabric_;
  LibfabricHandle<fid_domain> domain_;
  LibfabricHandle<fid_av> addresses_;
  LibfabricHandle<fid_cq> completions_;
  LibfabricHandle<fid_ep> endpoint_;
};

}  // namespace hawser::bench
