// SPDX-License-Identifier: Apache-2.0
#include "test/plugin/ofi/scene.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace hawser::test {
namespace {

void check(int answer, const char* what) {
  if (answer < 0) throw std::runtime_error(std::string(what) + ": " + fi_strerror(-answer));
}

}  // namespace

fi_provider* provider() {
  // The first fi_getinfo empties libfabric's list of parameters, to which a provider adds its own.
  fi_info* found = nullptr;
  if (fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, nullptr, &found) == 0) fi_freeinfo(found);
  void* const library = ::dlopen(HAWSER_PROVIDER_FOLDER "/libhawser-fi.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<fi_provider* (*)()>(::dlsym(library, "fi_prov_ini"))();
}

Variables::Variables(Pairs pairs) {
  ::setenv("FI_PROVIDER_PATH", HAWSER_PROVIDER_FOLDER, 1);
  const auto set = [this](const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  };
  bool names_nics = false;
  for (const auto& [name, value] : pairs) {
    set(name, value);
    names_nics = names_nics || name == "FI_HAWSER_NICS";
  }
  if (!names_nics) set("FI_HAWSER_NICS", "udp:127.0.0.1,udp:127.0.0.2");
  // One thread can't answer for one endpoint while it closes another, which would linger in vain.
  if (::getenv(kClosesByDefault) == nullptr) set("FI_HAWSER_CLOSE_TIMEOUT_MS", "20");
  // The provider is patient with ranks that make their own progress. With an engine thread, too, a
  // machine that stands still must not make a peer seem dead.
  const char* const threads = std::getenv("FI_HAWSER_THREADS");
  if (threads != nullptr && std::string(threads) != "0") {
    set("FI_HAWSER_LONGEST_ABSENCE_MS", std::to_string(kStandstillMs));
  }
}

Variables::~Variables() {
  for (const std::string& name : names_) ::unsetenv(name.c_str());
}

Info hints() {
  Info info(fi_allocinfo());
  info->caps = FI_MSG | FI_TAGGED;
  info->ep_attr->type = FI_EP_RDM;
  info->fabric_attr->prov_name = ::strdup("hawser");
  info->domain_attr->threading = FI_THREAD_SAFE;
  return info;
}

Info get_info(const fi_info* wanted, int* answer) {
  fi_info* found = nullptr;
  const int result = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, wanted, &found);
  if (answer != nullptr) *answer = result;
  return Info(result == 0 ? found : nullptr);
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Node::Node(const NodeOptions& options) {
  const Info wanted = hints();
  wanted->caps = options.caps;
  wanted->tx_attr->op_flags = options.send_flags;
  wanted->tx_attr->size = options.send_count;
  wanted->rx_attr->size = options.receive_count;
  wanted->domain_attr->threading = options.threading;
  wanted->domain_attr->mr_mode = options.mr_mode;
  wanted->addr_format = options.addr_format;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
  };
  fi_info* found = nullptr;
  check(fi_getinfo(FI_VERSION(1, 17), or_null(options.node), or_null(options.service),
                   options.info_flags, wanted.get(), &found),
        "fi_getinfo");
  info.reset(found);
  info->fabric_attr->api_version = options.version;
  fid_fabric* opened_fabric = nullptr;
  check(fi_fabric(info->fabric_attr, &opened_fabric, nullptr), "fi_fabric");
  fabric.reset(opened_fabric);
  fid_domain* opened_domain = nullptr;
  check(fi_domain(fabric.get(), info.get(), &opened_domain, nullptr), "fi_domain");
  domain.reset(opened_domain);
  fi_av_attr av_attr{};
  fid_av* opened_av = nullptr;
  check(fi_av_open(domain.get(), &av_attr, &opened_av, nullptr), "fi_av_open");
  av.reset(opened_av);
  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_TAGGED;
  cq_attr.wait_obj = options.wait_obj;
  fid_cq* opened_cq = nullptr;
  check(fi_cq_open(domain.get(), &cq_attr, &opened_cq, nullptr), "fi_cq_open");
  cq.reset(opened_cq);
  fid_ep* opened_ep = nullptr;
  check(fi_endpoint(domain.get(), info.get(), &opened_ep, nullptr), "fi_endpoint");
  ep.reset(opened_ep);
  check(fi_ep_bind(ep.get(), &av->fid, 0), "bind av");
  check(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV | options.bind_flags), "bind cq");
  if (options.counts) {
    fi_cntr_attr attr{};
    attr.wait_obj = FI_WAIT_UNSPEC;
    std::array<fid_cntr*, 2> counters{};
    for (fid_cntr*& counter : counters) {
      check(fi_cntr_open(domain.get(), &attr, &counter, nullptr), "fi_cntr_open");
    }
    sent.reset(counters[0]);
    received.reset(counters[1]);
    check(fi_ep_bind(ep.get(), &sent->fid, FI_SEND), "bind counter");
    check(fi_ep_bind(ep.get(), &received->fid, FI_RECV), "bind counter");
  }
  if (options.least_multi_bytes != 0) {
    check(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &options.least_multi_bytes,
                    sizeof options.least_multi_bytes),
          "fi_setopt");
  }
  check(fi_enable(ep.get()), "fi_enable");
}

std::vector<std::byte> Node::name() const {
  std::size_t bytes = 0;
  (void)fi_getname(&ep->fid, nullptr, &bytes);
  std::vector<std::byte> address(bytes);
  check(fi_getname(&ep->fid, address.data(), &bytes), "fi_getname");
  return address;
}

fi_addr_t Node::insert(const std::vector<std::byte>& address) {
  fi_addr_t inserted = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(av.get(), address.data(), 1, &inserted, 0, nullptr) != 1) {
    throw std::runtime_error("fi_av_insert");
  }
  return inserted;
}

Entry Node::look() {
  Entry found;
  found.answer = fi_cq_readfrom(cq.get(), &found.entry, 1, &found.source);
  if (found.answer == -FI_EAVAIL) {
    (void)fi_cq_readerr(cq.get(), &found.error, 0);
    std::array<char, 512> text{};
    fi_cq_strerror(cq.get(), found.error.prov_errno, found.error.err_data, text.data(),
                   text.size());
    found.text = text.data();
  }
  return found;
}

Entry Node::next(Node* other, int timeout_ms) {
  const std::int64_t end = now_ms() + timeout_ms;
  for (;;) {
    Entry found = look();
    if (found.answer != -FI_EAGAIN || now_ms() > end) return found;
    if (other != nullptr) (void)fi_cq_read(other->cq.get(), nullptr, 0);
  }
}

Pair::Pair(const NodeOptions& options) : a(options), b(options) {
  to_b = a.insert(b.name());
  to_a = b.insert(a.name());
}

std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint8_t seed) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::uint8_t>(seed + 7 * i + (i >> 8));
  }
  return data;
}

}  // namespace hawser::test
