// SPDX-License-Identifier: Apache-2.0
// Waits for an IPv6 address that no socket can have yet. Duplicate address detection (RFC 4862,
// section 5.4) takes a second or two after an interface comes up or an address is added. Until then
// the kernel calls the address tentative, and bind answers EADDRNOTAVAIL.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "hawser/nics.hpp"

namespace hawser::engine {

// The surroundings of an address wait: the host's, or a test's.
struct AddressWaitHooks {
  std::function<std::optional<AddressState>()> look;  // nothing: the host doesn't list the address
  std::function<void()> pause;                        // a tenth of a second
  std::function<void(const std::string&)> tell;       // a line for people
};

// Returns when the address is no longer tentative, or when its state is unknown. `name` names it
// for people. Throws hawser::Error if it is a duplicate, or still tentative after some 5 s.
void await_address(const std::string& name, const AddressWaitHooks& hooks);

// The same for this host's address `ip`; `interface` is its scope (0: any).
void await_address(const std::string& name, const in6_addr& ip, std::uint32_t interface);
// The same for the address that names a UDP NIC.
void await_address(const std::string& text);

}  // namespace hawser::engine
