// fid_av: addresses of endpoints, 56 bytes each: a length, a short address (hawser/address.hpp),
// zeros. An fi_addr_t is an index for maps and tables alike, and none is ever used again.
#pragma once

#include <rdma/fi_domain.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "plugin/ofi/domain.hpp"
#include "plugin/ofi/info.hpp"

namespace hawser::ofi {

using AddressBytes = std::array<std::byte, kAddressBytes>;

// False: not even one NIC fits.
[[nodiscard]] bool pack_address(std::span<const std::byte> address, AddressBytes& out);
// The short address in it; empty if it is none.
[[nodiscard]] std::span<const std::byte> unpack_address(const AddressBytes& bytes);

class AddressVector : public fid_av {
 public:
  AddressVector(Domain& domain, std::size_t count, void* context);
  ~AddressVector();

  // `errors`: one for each address, or null. Returns how many were taken.
  int insert(const std::byte* addresses, std::size_t count, fi_addr_t* out, int* errors);
  int remove(const fi_addr_t* addresses, std::size_t count);
  [[nodiscard]] bool find(fi_addr_t address, AddressBytes& bytes);
  // Of an endpoint's id; FI_ADDR_NOTAVAIL if it was never inserted.
  [[nodiscard]] fi_addr_t find(std::uint64_t endpoint_id);

  void add(Endpoint& endpoint);
  void remove(Endpoint& endpoint);
  [[nodiscard]] std::size_t expected() const { return expected_; }

  std::atomic<unsigned> users{0};  // endpoints

 private:
  Domain& domain_;
  std::size_t expected_;
  // Endpoints' locks come before the entries', and the list's before theirs.
  std::mutex endpoints_mutex_;
  std::vector<Endpoint*> endpoints_;
  std::mutex mutex_;                   // of the entries
  std::vector<AddressBytes> entries_;  // of one that was removed: zeros
  std::deque<fi_addr_t> free_;         // of these, the oldest first
  std::unordered_map<std::uint64_t, fi_addr_t> by_id_;
};

int open_address_vector(fid_domain* domain, fi_av_attr* attr, fid_av** vector, void* context);

}  // namespace hawser::ofi
