// SPDX-License-Identifier: Apache-2.0
// fid_domain: the NICs that its endpoints use, and the memory that the program registered.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/ofi/config.hpp"
#include "plugin/ofi/fabric.hpp"
#include "plugin/ofi/region_table.hpp"

namespace hawser::ofi {

class Endpoint;

class Domain : public fid_domain {
 public:
  Domain(Fabric& fabric, const fi_info& info, Config config, void* context);
  ~Domain();

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] bool is_locking() const { return locking_; }
  [[nodiscard]] unsigned threads() const { return threads_; }
  // Format of its AVs' and endpoints' addresses (address_format.hpp).
  [[nodiscard]] std::uint32_t address_format() const { return address_format_; }
  [[nodiscard]] bool has_rdma() const;
  // Memory that peers may reach. Without one-sided operations nobody asks for it.
  [[nodiscard]] RegionTable& regions() { return regions_; }
  // True if the program chooses the keys of its memory.
  [[nodiscard]] bool has_requested_keys() const { return has_requested_keys_; }
  // True if peers name memory by its virtual address, and not by the offset in its region.
  [[nodiscard]] bool has_virtual_addresses() const { return has_virtual_addresses_; }
  // The libfabric version that the program was written for.
  [[nodiscard]] std::uint32_t api_version() const { return fabric_.api_version; }

  void add(Endpoint& endpoint);
  void remove(Endpoint& endpoint);
  template <class Function>
  void for_each_endpoint(Function&& function) {
    const std::lock_guard lock(mutex_);
    for (Endpoint* endpoint : endpoints_) function(*endpoint);
  }

  std::atomic<unsigned> users{0};  // AVs, CQs, counters, poll sets, endpoints, registrations
  std::atomic<std::uint64_t> next_serial{1};  // of endpoints

 private:
  Fabric& fabric_;
  Config config_;  // its NICs are those of this domain
  unsigned threads_;
  bool locking_;
  std::uint32_t address_format_;
  bool has_requested_keys_;
  bool has_virtual_addresses_;
  RegionTable regions_;
  std::mutex mutex_;  // guards the list
  std::vector<Endpoint*> endpoints_;
};

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);

}  // namespace hawser::ofi
