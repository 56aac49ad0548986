// SPDX-License-Identifier: Apache-2.0
// A program outside the shared library catches the library's exceptions by their type. It can also
// use the functions of the headers that are no member of a class.
#include <array>
#include <cstdio>

#include "hawser/address.hpp"
#include "hawser/engine.hpp"
#include "hawser/faults.hpp"
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
  try {
    (void)hawser::choose_nics("no-such-nic");
    return 1;
  } catch (const hawser::NicChoiceError& error) {
    std::printf("of %zu NICs none is chosen\n", error.candidates().size());
  }
  std::printf("wrong: %s\n", hawser::complaint_about_faults("maim").c_str());
  std::printf("NICs: %s\n", hawser::host_nics().front().name.c_str());
  std::printf("chosen: %zu\n", hawser::choose_nics("udp:127.0.0.1").nics.size());
  const std::array<std::byte, 3> no_address{};
  std::printf("address: %s\n", hawser::describe_address(no_address).c_str());
  std::array<std::byte, hawser::kMaxAddressBytes> out{};
  return hawser::usable_nics().empty() || hawser::shorten_address(no_address, out) != 0 ||
         hawser::endpoint_id_of(no_address) != 0;
}
