// SPDX-License-Identifier: Apache-2.0
// The C API, hawser.h, over nics.hpp and address.hpp.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "engine/c_api/c_api.hpp"
#include "hawser/address.hpp"
#include "hawser/nics.hpp"

namespace {

using hawser::c_api::copy_text;
using hawser::c_api::guarded;

static_assert(hawser::kMaxAddressBytes == HAWSER_MAX_ADDRESS_BYTES);
static_assert(sizeof(hawser_host_nic) == 208);  // part of the ABI

std::span<const std::byte> bytes_at(const void* address, size_t bytes) {
  return {static_cast<const std::byte*>(address), address == nullptr ? 0 : bytes};
}

}  // namespace

extern "C" {

size_t hawser_host_nics(hawser_host_nic* nics, size_t count) {
  size_t all = 0;
  (void)guarded(nullptr, 0, [&]() -> hawser_status {
    const std::vector<hawser::HostNic> found = hawser::host_nics();
    const std::vector<std::string> usable = hawser::usable_nics();
    for (size_t i = 0; i < std::min(count, found.size()); ++i) {
      nics[i] = hawser_host_nic{};
      copy_text(found[i].name, nics[i].name, sizeof nics[i].name);
      copy_text(found[i].device, nics[i].device, sizeof nics[i].device);
      nics[i].bits_per_second = found[i].bits_per_second;
      nics[i].mtu = found[i].mtu;
      nics[i].up = found[i].up ? 1 : 0;
      nics[i].loopback = found[i].loopback ? 1 : 0;
      nics[i].address_state = static_cast<uint8_t>(found[i].address_state);
      nics[i].usable = std::ranges::count(usable, found[i].name) > 0 ? 1 : 0;
    }
    all = found.size();
    return HAWSER_OK;
  });
  return all;
}

size_t hawser_shorten_address(const void* address, size_t bytes, void* out, size_t out_bytes) {
  return hawser::shorten_address(bytes_at(address, bytes),
                                 {static_cast<std::byte*>(out), out == nullptr ? 0 : out_bytes});
}

uint64_t hawser_endpoint_id_of(const void* address, size_t bytes) {
  return hawser::endpoint_id_of(bytes_at(address, bytes));
}

size_t hawser_describe_address(const void* address, size_t bytes, char* text, size_t text_bytes) {
  size_t length = 0;
  (void)guarded(nullptr, 0, [&]() -> hawser_status {
    const std::string all = hawser::describe_address(bytes_at(address, bytes));
    copy_text(all, text, text_bytes);
    length = all.size();
    return HAWSER_OK;
  });
  return length;
}

}  // extern "C"
