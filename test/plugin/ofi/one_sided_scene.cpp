// SPDX-License-Identifier: Apache-2.0
#include "test/plugin/ofi/one_sided_scene.hpp"

#include <stdexcept>

namespace hawser::test {

NodeOptions one_sided(NodeOptions options) {
  options.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_FENCE | FI_SOURCE | FI_DIRECTED_RECV;
  return options;
}

Memory::Memory(Node& owner, std::size_t size, std::uint64_t requested_key, std::uint64_t access)
    : bytes(size, std::uint8_t{0}) {
  fid_mr* opened = nullptr;
  const int answer = fi_mr_reg(owner.domain.get(), bytes.data(), bytes.size(), access, 0,
                               requested_key, 0, &opened, nullptr);
  if (answer != 0) throw std::runtime_error("fi_mr_reg");
  region.reset(opened);
  const int mode = owner.info->domain_attr->mr_mode;
  if ((mode & (kBasic | FI_MR_VIRT_ADDR)) != 0) {
    base_ = reinterpret_cast<std::uintptr_t>(bytes.data());
  }
}

Owned<fid_cntr> open_counter(Node& node) {
  fi_cntr_attr attr{};
  fid_cntr* opened = nullptr;
  if (fi_cntr_open(node.domain.get(), &attr, &opened, nullptr) != 0) {
    throw std::runtime_error("fi_cntr_open");
  }
  return Owned<fid_cntr>(opened);
}

Owned<fid_ep> open_counted(Node& node, fid_cntr* reads, fid_cntr* writes) {
  fid_ep* opened = nullptr;
  if (fi_endpoint(node.domain.get(), node.info.get(), &opened, nullptr) != 0) {
    throw std::runtime_error("fi_endpoint");
  }
  Owned<fid_ep> ep(opened);
  if (fi_ep_bind(ep.get(), &node.av->fid, 0) != 0 ||
      fi_ep_bind(ep.get(), &node.cq->fid, FI_TRANSMIT | FI_RECV) != 0 ||
      fi_ep_bind(ep.get(), &reads->fid, FI_READ) != 0 ||
      fi_ep_bind(ep.get(), &writes->fid, FI_WRITE) != 0 || fi_enable(ep.get()) != 0) {
    throw std::runtime_error("an endpoint with counters");
  }
  return ep;
}

}  // namespace hawser::test
