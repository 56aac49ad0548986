// SPDX-License-Identifier: Apache-2.0
#include "test/plugin/ofi/name_scene.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>

namespace hawser::test {

std::string service(int i) { return std::to_string(10000 + (::getpid() * 4 + i) % 20000); }

NodeOptions server_options(const std::string& node, std::uint32_t format, int port) {
  NodeOptions options;
  options.node = node;
  options.service = service(port);
  options.info_flags = FI_SOURCE;
  options.addr_format = format;
  return options;
}

NodeOptions client_options(const std::string& node, std::uint32_t format, int port) {
  NodeOptions options;
  options.node = node;
  options.service = service(port);
  options.addr_format = format;
  return options;
}

int insert_address(Node& node, const void* address, fi_addr_t& out) {
  if (node.info->addr_format != FI_ADDR_STR) {
    return fi_av_insert(node.av.get(), address, 1, &out, 0, nullptr);
  }
  const auto* const text = static_cast<const char*>(address);
  return fi_av_insert(node.av.get(), &text, 1, &out, 0, nullptr);
}

fi_addr_t insert_destination(Node& node) {
  fi_addr_t to = FI_ADDR_NOTAVAIL;
  REQUIRE(node.info->dest_addr != nullptr);
  REQUIRE(insert_address(node, node.info->dest_addr, to) == 1);
  return to;
}

int receive_one(Node& at, Node& from, fi_addr_t source, std::uint64_t tag) {
  int value = -1;
  REQUIRE(fi_trecv(at.ep.get(), &value, sizeof value, nullptr, source, tag, 0, &value) == 0);
  const Entry entry = at.next(&from);
  REQUIRE(entry.answer == 1);
  REQUIRE(entry.entry.op_context == &value);
  return value;
}

}  // namespace hawser::test
