// SPDX-License-Identifier: Apache-2.0
// fid_av: addresses of endpoints, 56 bytes each (address_format.hpp), and port names of endpoints
// that must be asked for their addresses. An fi_addr_t is an index, for maps and tables alike, and
// is not reused soon. The fi_addr_t of a port name stands for the endpoint that answered first, for
// as long as it is inserted.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "plugin/ofi/address_format.hpp"
#include "plugin/ofi/domain.hpp"

namespace hawser::ofi {

class AddressVector : public fid_av {
 public:
  AddressVector(Domain& domain, std::size_t count, void* context);
  ~AddressVector();

  // Inserts addresses; refuses elements that are no address in the AV's format. `errors` has one
  // element per address, or is null. Returns how many were inserted.
  int insert(std::span<const std::optional<AddressBytes>> addresses, fi_addr_t* out, int* errors);
  int remove(const fi_addr_t* addresses, std::size_t count);
  // Returns an endpoint's address. False: no answer for the port name yet, or no such fi_addr.
  [[nodiscard]] bool find(fi_addr_t address, AddressBytes& bytes);
  // Returns the address as it was inserted.
  [[nodiscard]] bool inserted(fi_addr_t address, AddressBytes& bytes);
  // Returns none if it was inserted by its address, or if there is no such fi_addr.
  [[nodiscard]] std::optional<PortName> name_of(fi_addr_t address);
  // Stores an answer for a port name. Only the first answer counts.
  void set_answer(fi_addr_t address, const AddressBytes& bytes);
  // The port names without an answer.
  [[nodiscard]] std::vector<fi_addr_t> unanswered();
  // The fi_addr of an endpoint's id; FI_ADDR_NOTAVAIL if it was never inserted.
  [[nodiscard]] fi_addr_t find(std::uint64_t endpoint_id);

  void add(Endpoint& endpoint);
  void remove(Endpoint& endpoint);
  [[nodiscard]] std::size_t expected() const { return expected_; }
  [[nodiscard]] std::uint32_t format() const { return domain_.address_format(); }

  std::atomic<unsigned> users{0};  // endpoints

 private:
  Domain& domain_;
  std::size_t expected_;
  // Order of locks: endpoints_mutex_, then an endpoint's lock, then mutex_.
  std::mutex endpoints_mutex_;
  std::vector<Endpoint*> endpoints_;
  [[nodiscard]] fi_addr_t add_locked(const AddressBytes& bytes);
  void erase_locked(fi_addr_t address);

  std::mutex mutex_;                               // guards the entries
  std::vector<AddressBytes> entries_;              // zeros for a removed one
  std::deque<fi_addr_t> free_;                     // removed entries, the oldest first
  std::unordered_map<fi_addr_t, PortName> names_;  // of entries that were inserted by a port name
  // All entries of an endpoint, the oldest first.
  std::multimap<std::uint64_t, fi_addr_t> by_id_;
};

int open_address_vector(fid_domain* domain, fi_av_attr* attr, fid_av** vector, void* context);

}  // namespace hawser::ofi
