#include "plugin/ofi/address_vector.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "hawser/address.hpp"
#include "plugin/ofi/endpoint.hpp"
#include "plugin/ofi/object.hpp"
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {
namespace {

// An fi_addr_t is used again when so many others are free: who holds on to one that he has removed
// shall not reach somebody else by it soon.
constexpr std::size_t kLeastFree = 1024;

int close_vector(struct fid* fid) {
  AddressVector& vector = object_of<AddressVector, fid_av>(fid);
  if (vector.users != 0) return -FI_EBUSY;
  delete &vector;
  return 0;
}

int insert(fid_av* vector, const void* addresses, std::size_t count, fi_addr_t* out,
           std::uint64_t flags, void* context) {
  if ((flags & ~(FI_MORE | FI_SYNC_ERR)) != 0 || (addresses == nullptr && count > 0)) {
    return -FI_EINVAL;
  }
  int* const errors = (flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(context) : nullptr;
  try {
    return object_of<AddressVector>(vector).insert(static_cast<const std::byte*>(addresses), count,
                                                   out, errors);
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

int remove_addresses(fid_av* vector, fi_addr_t* addresses, std::size_t count, std::uint64_t flags) {
  if (flags != 0) return -FI_EINVAL;
  return object_of<AddressVector>(vector).remove(addresses, count);
}

int lookup(fid_av* vector, fi_addr_t address, void* out, std::size_t* bytes) {
  AddressBytes found;
  if (!object_of<AddressVector>(vector).find(address, found)) return -FI_EINVAL;
  std::memcpy(out, found.data(), std::min(*bytes, found.size()));
  const bool fits = *bytes >= found.size();
  *bytes = found.size();
  return fits ? 0 : -FI_ETOOSMALL;
}

// "hawser:" and the endpoint's id, as events and logs name it.
const char* to_text(fid_av*, const void* address, char* out, std::size_t* bytes) {
  AddressBytes packed;
  std::memcpy(packed.data(), address, packed.size());
  const std::string text = "hawser:" + std::to_string(endpoint_id_of(unpack_address(packed)));
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
  ops.remove = remove_addresses;
  ops.lookup = lookup;
  ops.straddr = to_text;
  refuse(ops.insertsvc);
  refuse(ops.insertsym);
  refuse(ops.av_set);
  return ops;
}();

}  // namespace

bool pack_address(std::span<const std::byte> address, AddressBytes& out) {
  out.fill(std::byte{0});
  const std::size_t length = shorten_address(address, std::span(out).subspan(1));
  out[0] = static_cast<std::byte>(length);
  return length > 0;
}

std::span<const std::byte> unpack_address(const AddressBytes& bytes) {
  const auto length = std::to_integer<std::size_t>(bytes[0]);
  if (length == 0 || length >= bytes.size()) return {};
  const auto rest = std::span(bytes).subspan(1 + length);
  if (std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{0}; })) return {};
  const auto address = std::span(bytes).subspan(1, length);
  return endpoint_id_of(address) != 0 ? address : std::span<const std::byte>{};
}

AddressVector::AddressVector(Domain& domain, std::size_t count, void* opener)
    : fid_av{}, domain_(domain), expected_(count) {
  fid.fclass = FI_CLASS_AV;
  fid.context = opener;
  fid.ops = &vector_fid_ops;
  ops = &vector_ops;
  ++domain_.users;
}

AddressVector::~AddressVector() { --domain_.users; }

int AddressVector::insert(const std::byte* addresses, std::size_t count, fi_addr_t* out,
                          int* errors) {
  const std::lock_guard lock(mutex_);
  int taken = 0;
  for (std::size_t i = 0; i < count; ++i) {
    AddressBytes bytes;
    std::memcpy(bytes.data(), addresses + i * bytes.size(), bytes.size());
    const std::span<const std::byte> address = unpack_address(bytes);
    const bool good = !address.empty();
    if (errors != nullptr) errors[i] = good ? 0 : FI_EINVAL;
    if (out != nullptr) out[i] = FI_ADDR_NOTAVAIL;
    if (!good) continue;
    fi_addr_t place = entries_.size();
    if (free_.size() > kLeastFree) {
      place = free_.front();
      free_.pop_front();
      entries_[place] = bytes;
    } else {
      entries_.push_back(bytes);
    }
    by_id_.try_emplace(endpoint_id_of(address), place);
    if (out != nullptr) out[i] = place;
    ++taken;
  }
  return taken;
}

int AddressVector::remove(const fi_addr_t* addresses, std::size_t count) {
  int answer = 0;
  for (std::size_t i = 0; i < count; ++i) {
    AddressBytes bytes;
    if (!find(addresses[i], bytes)) {
      answer = -FI_EINVAL;
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      const auto found = by_id_.find(endpoint_id_of(unpack_address(bytes)));
      if (found != by_id_.end() && found->second == addresses[i]) by_id_.erase(found);
      entries_[addresses[i]].fill(std::byte{0});
      free_.push_back(addresses[i]);
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
  return true;
}

fi_addr_t AddressVector::find(std::uint64_t endpoint_id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(endpoint_id);
  return found == by_id_.end() ? FI_ADDR_NOTAVAIL : found->second;
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
  // Named ones are shared among processes; FI_EVENT wants an event queue.
  if (asked.name != nullptr || (asked.flags & FI_EVENT) != 0) return -FI_ENOSYS;
  if (asked.flags != 0 || asked.rx_ctx_bits > 0) return -FI_EINVAL;
  const fi_av_type type = asked.type == FI_AV_UNSPEC ? FI_AV_TABLE : asked.type;
  *vector = new (std::nothrow) AddressVector(object_of<Domain>(domain), asked.count, context);
  if (*vector == nullptr) return -FI_ENOMEM;
  if (attr != nullptr) attr->type = type;
  return 0;
}

}  // namespace hawser::ofi
