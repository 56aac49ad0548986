// SPDX-License-Identifier: Apache-2.0
// What the library throws is caught by its type, on the other side of the shared library, and what
// of the headers is no member of a class is there as well.
#include <array>
#include <cstdio>

#include "hawser/address.hpp"
#include "hawser/engine.hpp"
#include "hawser/nics.hpp"

int main() {
  try {
    hawser::EngineConfig config;
    config.nics = {"carrier-pigeon:7"};
    const hawser::Engine engine(config);
    return 1;
  } catch (const hawser::Error& error) {
    std::printf("caught: %s\n", error.what());
  }
  std::printf("wrong: %s\n", hawser::complaint_about_faults("maim").c_str());
  std::printf("NICs: %s\n", hawser::host_nics().front().name.c_str());
  const std::array<std::byte, 3> no_address{};
  std::array<std::byte, hawser::kMaxAddressBytes> out{};
  return hawser::usable_nics().empty() || hawser::shorten_address(no_address, out) != 0 ||
         hawser::endpoint_id_of(no_address) != 0;
}
