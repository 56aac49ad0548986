// SPDX-License-Identifier: Apache-2.0
#include "engine/host/address_wait.hpp"

#include <poll.h>

#include "engine/driver/udp/address_states.hpp"
#include "engine/driver/udp/udp_address.hpp"
#include "engine/log.hpp"
#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

constexpr int kPauseMs = 100;
constexpr int kMostPauses = 50;

std::string seconds_of_wait() { return std::to_string(kMostPauses * kPauseMs / 1000) + " s"; }

[[noreturn]] void refuse_duplicate(const std::string& name) {
  throw Error(name +
              ": another host on the link has this address (duplicate address detection failed); "
              "give this host another address, or remove the address there and add it here again");
}

}  // namespace

void await_address(const std::string& name, const AddressWaitHooks& hooks) {
  for (int pauses = 0; pauses <= kMostPauses; ++pauses) {
    const std::optional<AddressState> state = hooks.look();
    if (state == AddressState::duplicate) refuse_duplicate(name);
    if (state != AddressState::tentative) return;
    if (pauses == 0) {
      hooks.tell(name +
                 " is tentative, as duplicate address detection has not ended: waiting for it, " +
                 seconds_of_wait() + " at most");
    }
    if (pauses < kMostPauses) hooks.pause();
  }
  throw Error(name + ": the address is still tentative after " + seconds_of_wait() +
              ", as duplicate address detection has not ended; check that its interface is up (`ip "
              "-6 address show tentative`), or add the address with `nodad`");
}

void await_address(const std::string& name, const in6_addr& ip, std::uint32_t interface) {
  AddressWaitHooks hooks;
  hooks.look = [&] { return state_in(read_address_states(), ip, interface); };
  hooks.pause = [] { ::poll(nullptr, 0, kPauseMs); };
  hooks.tell = log_warning;
  await_address(name, hooks);
}

void await_address(const std::string& text) {
  const SocketAddress address = parse_local_address(text);
  if (!address.is_v6()) return;
  await_address("udp:" + text, address.v6.sin6_addr, address.v6.sin6_scope_id);
}

}  // namespace hawser::engine
