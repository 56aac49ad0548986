// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/address_vector.hpp"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "hawser/address.hpp"
#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/log.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

// An fi_addr_t is reused only when this many others are free. A program that still holds a removed
// one then doesn't soon reach another peer by it.
constexpr std::size_t kLeastFree = 1024;
// Limit of hosts in one symmetric insertion.
constexpr std::size_t kMostSymmetric = 65536;

int close_vector(struct fid* fid) {
  AddressVector& vector = object_of<AddressVector, fid_av>(fid);
  if (vector.users != 0) return -FI_EBUSY;
  delete &vector;
  return 0;
}

// Checks the arguments of insertions, of addresses and of names alike.
bool are_good(const fid_av* vector, std::uint64_t flags, void* context) {
  return vector != nullptr && (flags & ~(FI_MORE | FI_SYNC_ERR)) == 0 &&
         ((flags & FI_SYNC_ERR) == 0 || context != nullptr);
}

int* errors_of(std::uint64_t flags, void* context) {
  return (flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(context) : nullptr;
}

int insert(fid_av* av, const void* addresses, std::size_t count, fi_addr_t* out,
           std::uint64_t flags, void* context) {
  if (!are_good(av, flags, context) || (addresses == nullptr && count > 0)) return -FI_EINVAL;
  AddressVector& vector = object_of<AddressVector>(av);
  try {
    std::vector<std::optional<AddressBytes>> read(count);
    for (std::size_t i = 0; i < count; ++i) read[i] = read_element(vector.format(), addresses, i);
    return vector.insert(read, out, errors_of(flags, context));
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

// Resolves a node by the system's resolver, or parses a string of FI_ADDR_STR. On failure returns
// none and sets `why`.
std::optional<AddressBytes> find_node(const AddressVector& vector, const char* node,
                                      const char* service, std::string& why) {
  const int family = family_of(vector.format());
  std::optional<AddressBytes> found;
  if (node != nullptr && std::strstr(node, "://") != nullptr) {
    if (service == nullptr) found = from_string(node);
    why = "this is not an address";
  } else if (const auto name = look_up(node, service, {.family = family}, why)) {
    if (name->can_be_asked()) found = pack_name(*name);
    why = "there is no port for the address request";
  }
  if (found && write_address(vector.format(), *found).empty()) found.reset();
  return found;
}

int insert_service(fid_av* av, const char* node, const char* service, fi_addr_t* out,
                   std::uint64_t flags, void* context) {
  if (!are_good(av, flags, context) || (node == nullptr && service == nullptr)) return -FI_EINVAL;
  AddressVector& vector = object_of<AddressVector>(av);
  try {
    std::string why;
    const std::optional<AddressBytes> found = find_node(vector, node, service, why);
    if (!found) {
      log_warning(std::string("node ") + (node != nullptr ? node : "(none)") + ", service " +
                  (service != nullptr ? service : "(none)") + ": " + why);
      if (out != nullptr) *out = FI_ADDR_NOTAVAIL;
      if (int* const errors = errors_of(flags, context)) *errors = FI_EADDRNOTAVAIL;
      return -FI_EADDRNOTAVAIL;
    }
    return vector.insert(std::span(&found, 1), out, errors_of(flags, context));
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

// The name of the host that comes `steps` later: "10.0.0.9" and 2 give "10.0.0.11", "node08" and 3
// give "node11". Returns "" if there is none.
std::string later_node(const std::string& node, std::size_t steps) {
  std::array<unsigned char, sizeof(in6_addr)> ip{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, node.c_str(), ip.data()) != 1) continue;
    std::size_t carry = steps;
    for (std::size_t i = family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr); i-- > 0;) {
      carry += ip[i];
      ip[i] = static_cast<unsigned char>(carry & 0xff);
      carry >>= 8;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(family, ip.data(), text.data(), text.size());
    return carry == 0 ? std::string(text.data()) : std::string();
  }
  if (steps == 0) return node;
  const std::size_t digits = node.find_last_not_of("0123456789") + 1;
  std::size_t number = 0;
  const auto [end, error] =
      std::from_chars(node.data() + digits, node.data() + node.size(), number);
  if (digits == node.size() || error != std::errc() || end != node.data() + node.size()) return {};
  std::string later = std::to_string(number + steps);
  const std::size_t width = node.size() - digits;
  if (later.size() < width) later.insert(0, width - later.size(), '0');
  return node.substr(0, digits) + later;
}

int insert_symmetric(fid_av* av, const char* node, std::size_t nodes, const char* service,
                     std::size_t services, fi_addr_t* out, std::uint64_t flags, void* context) {
  if (!are_good(av, flags, context) || node == nullptr || service == nullptr) return -FI_EINVAL;
  AddressVector& vector = object_of<AddressVector>(av);
  const LookUp how{.family = family_of(vector.format())};
  std::string why;
  try {
    const auto first = look_up(nullptr, service, how, why);
    if (!first || services > std::size_t{65536} - first->port || nodes > kMostSymmetric) {
      return -FI_EINVAL;
    }
    std::vector<std::optional<AddressBytes>> found;
    for (std::size_t i = 0; i < nodes; ++i) {
      const std::string host = later_node(node, i);
      std::optional<PortName> name;
      if (!host.empty()) name = look_up(host.c_str(), nullptr, how, why);
      for (std::size_t j = 0; j < services; ++j) {
        if (name) name->port = static_cast<std::uint16_t>(first->port + j);
        found.emplace_back();
        if (name && name->can_be_asked()) found.back() = pack_name(*name);
      }
    }
    return vector.insert(found, out, errors_of(flags, context));
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

int remove_addresses(fid_av* vector, fi_addr_t* addresses, std::size_t count, std::uint64_t flags) {
  if (flags != 0) return -FI_EINVAL;
  return object_of<AddressVector>(vector).remove(addresses, count);
}

int lookup(fid_av* av, fi_addr_t address, void* out, std::size_t* bytes) {
  AddressVector& vector = object_of<AddressVector>(av);
  AddressBytes found;
  if (!vector.inserted(address, found)) return -FI_EINVAL;
  try {
    const std::vector<std::byte> written = write_address(vector.format(), found);
    const std::size_t room = std::exchange(*bytes, written.size());
    if (out != nullptr) std::memcpy(out, written.data(), std::min(room, written.size()));
    return room >= written.size() ? 0 : -FI_ETOOSMALL;
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

// In our own format "hawser:" and the endpoint's id, as events and logs name it. In other formats
// the string that FI_ADDR_STR has for it.
std::string text_of(std::uint32_t format, const void* address) {
  if (format == FI_ADDR_STR) return address != nullptr ? static_cast<const char*>(address) : "";
  const std::optional<AddressBytes> read = read_address(format, address);
  if (!read) return is_socket_format(format) ? "no address" : "hawser:0";
  if (unpack_name(*read)) return to_string(*read);
  return "hawser:" + std::to_string(endpoint_id_of(unpack_address(*read)));
}

const char* to_text(fid_av* av, const void* address, char* out, std::size_t* bytes) {
  const std::string text = text_of(object_of<AddressVector>(av).format(), address);
  if (*bytes > 0) {
    const std::size_t length = std::min(*bytes - 1, text.size());
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
  }
  *bytes = text.size() + 1;
  return out;
}

fi_ops vector_fid_ops = [] {
  fi_ops ops{};
  ops.close = close_vector;
  return completed(ops);
}();

fi_ops_av vector_ops = [] {
  fi_ops_av ops{};
  ops.size = sizeof ops;
  ops.insert = insert;
  ops.insertsvc = insert_service;
  ops.insertsym = insert_symmetric;
  ops.remove = remove_addresses;
  ops.lookup = lookup;
  ops.straddr = to_text;
  refuse(ops.av_set);
  return ops;
}();

}  // namespace

AddressVector::AddressVector(Domain& domain, std::size_t count, void* opener)
    : fid_av{}, domain_(domain), expected_(count) {
  fid.fclass = FI_CLASS_AV;
  fid.context = opener;
  fid.ops = &vector_fid_ops;
  ops = &vector_ops;
  ++domain_.users;
}

AddressVector::~AddressVector() { --domain_.users; }

fi_addr_t AddressVector::add_locked(const AddressBytes& bytes) {
  const std::optional<PortName> name = unpack_name(bytes);
  fi_addr_t place = entries_.size();
  if (free_.size() > kLeastFree) {
    place = free_.front();
    free_.pop_front();
    entries_[place] = bytes;
  } else {
    entries_.push_back(bytes);
  }
  if (name) {
    names_.emplace(place, *name);
  } else {
    by_id_.emplace(endpoint_id_of(unpack_address(bytes)), place);
  }
  return place;
}

int AddressVector::insert(std::span<const std::optional<AddressBytes>> addresses, fi_addr_t* out,
                          int* errors) {
  int taken = 0;
  std::vector<fi_addr_t> asked;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::optional<AddressBytes>& bytes = addresses[i];
      if (errors != nullptr) errors[i] = bytes ? 0 : FI_EINVAL;
      if (out != nullptr) out[i] = FI_ADDR_NOTAVAIL;
      if (!bytes) continue;
      const fi_addr_t place = add_locked(*bytes);
      if (names_.contains(place)) asked.push_back(place);
      if (out != nullptr) out[i] = place;
      ++taken;
    }
  }
  if (asked.empty()) return taken;
  // Ask even if nothing is ever sent there: messages from the endpoint must be known by this
  // fi_addr.
  const std::lock_guard lock(endpoints_mutex_);
  for (Endpoint* endpoint : endpoints_) endpoint->ask(asked);
  return taken;
}

void AddressVector::erase_locked(fi_addr_t address) {
  const auto [begin, end] = by_id_.equal_range(endpoint_id_of(unpack_address(entries_[address])));
  const auto found = std::find_if(begin, end, [&](const auto& e) { return e.second == address; });
  if (found != end) by_id_.erase(found);
  names_.erase(address);
  entries_[address].fill(std::byte{0});
  free_.push_back(address);
}

int AddressVector::remove(const fi_addr_t* addresses, std::size_t count) {
  int answer = 0;
  for (std::size_t i = 0; i < count; ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (addresses[i] >= entries_.size() || entries_[addresses[i]][0] == std::byte{0}) {
        answer = -FI_EINVAL;
        continue;
      }
      erase_locked(addresses[i]);
    }
    const std::lock_guard lock(endpoints_mutex_);
    for (Endpoint* endpoint : endpoints_) endpoint->forget(addresses[i]);
  }
  return answer;
}

bool AddressVector::find(fi_addr_t address, AddressBytes& bytes) {
  const std::lock_guard lock(mutex_);
  if (address >= entries_.size() || entries_[address][0] == std::byte{0}) return false;
  bytes = entries_[address];
  return !unpack_name(bytes);
}

bool AddressVector::inserted(fi_addr_t address, AddressBytes& bytes) {
  const std::lock_guard lock(mutex_);
  if (address >= entries_.size() || entries_[address][0] == std::byte{0}) return false;
  const auto name = names_.find(address);
  bytes = name == names_.end() ? entries_[address] : pack_name(name->second);
  return true;
}

std::optional<PortName> AddressVector::name_of(fi_addr_t address) {
  const std::lock_guard lock(mutex_);
  const auto name = names_.find(address);
  return name == names_.end() ? std::nullopt : std::optional(name->second);
}

void AddressVector::set_answer(fi_addr_t address, const AddressBytes& bytes) {
  const std::lock_guard lock(mutex_);
  if (!names_.contains(address) || !unpack_name(entries_[address])) return;
  entries_[address] = bytes;
  by_id_.emplace(endpoint_id_of(unpack_address(bytes)), address);
}

std::vector<fi_addr_t> AddressVector::unanswered() {
  const std::lock_guard lock(mutex_);
  std::vector<fi_addr_t> result;
  for (const auto& [address, name] : names_) {
    if (unpack_name(entries_[address])) result.push_back(address);
  }
  return result;
}

fi_addr_t AddressVector::find(std::uint64_t endpoint_id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.lower_bound(endpoint_id);
  const bool is_known = found != by_id_.end() && found->first == endpoint_id;
  return is_known ? found->second : FI_ADDR_NOTAVAIL;
}

void AddressVector::add(Endpoint& endpoint) {
  const std::lock_guard lock(endpoints_mutex_);
  endpoints_.push_back(&endpoint);
}

void AddressVector::remove(Endpoint& endpoint) {
  const std::lock_guard lock(endpoints_mutex_);
  std::erase(endpoints_, &endpoint);
}

int open_address_vector(fid_domain* domain, fi_av_attr* attr, fid_av** vector, void* context) {
  const fi_av_attr none{};
  const fi_av_attr& asked = attr != nullptr ? *attr : none;
  // Named address vectors are shared among processes; FI_EVENT requires an event queue.
  if (asked.name != nullptr || (asked.flags & FI_EVENT) != 0) return -FI_ENOSYS;
  if (asked.flags != 0 || asked.rx_ctx_bits > 0) return -FI_EINVAL;
  const fi_av_type type = asked.type == FI_AV_UNSPEC ? FI_AV_TABLE : asked.type;
  *vector = new (std::nothrow) AddressVector(object_of<Domain>(domain), asked.count, context);
  if (*vector == nullptr) return -FI_ENOMEM;
  if (attr != nullptr) attr->type = type;
  return 0;
}

}  // namespace hawser::ofi
