// SPDX-License-Identifier: Apache-2.0
// Endpoints that tell their addresses at UDP ports, and endpoints that ask for them.
#pragma once

#include <string>

#include "test/plugin/ofi/scene.hpp"

namespace hawser::test {

// A port below the system's dynamic range, a different one in each process.
[[nodiscard]] std::string service(int i = 0);
[[nodiscard]] NodeOptions server_options(const std::string& node,
                                         std::uint32_t format = FI_FORMAT_UNSPEC, int port = 0);
[[nodiscard]] NodeOptions client_options(const std::string& node,
                                         std::uint32_t format = FI_FORMAT_UNSPEC, int port = 0);

int insert_address(Node& node, const void* address, fi_addr_t& out);
[[nodiscard]] fi_addr_t insert_destination(Node& node);
// Sends one message from `from` and receives it at `at`.
[[nodiscard]] int receive_one(Node& at, Node& from, fi_addr_t source = FI_ADDR_UNSPEC,
                              std::uint64_t tag = 1);

}  // namespace hawser::test
