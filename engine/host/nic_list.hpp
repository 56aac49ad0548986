// SPDX-License-Identifier: Apache-2.0
// Parses the list that chooses NICs: the grammar of hawser::choose_nics in hawser/nics.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/nics.hpp"

namespace hawser::engine {

struct IpPrefix {
  bool is_v6 = false;
  std::uint32_t bits = 0;
  std::array<std::byte, 16> address{};
};

struct NicItem {
  enum class Kind : std::uint8_t {
    exact,            // the name of one NIC
    any_name,         // a pattern of names, of an interface or an RDMA device
    interface_name,   // a pattern of names of interfaces
    rdma_name,        // a pattern of names of RDMA devices
    prefix,           // addresses
    every_interface,  // the word "udp"
    every_rdma_port,  // the word "verbs"
  };
  Kind kind = Kind::exact;
  bool is_negated = false;
  std::string text;       // as written, without its negation
  std::string pattern;    // a NIC's name, or the pattern
  std::string canonical;  // of an exact item: the name as canonical_name writes it
  IpPrefix prefix;

  [[nodiscard]] bool matches(const HostNic& nic) const;
  // True for a NIC that the user names, false for one that a prefix or a word happens to include.
  [[nodiscard]] bool is_by_name() const {
    return kind == Kind::any_name || kind == Kind::interface_name || kind == Kind::rdma_name;
  }
};

// Throws NicChoiceError, with no candidates in it.
[[nodiscard]] std::vector<NicItem> parse_nic_list(std::string_view list);

// True if the text names one NIC, so that engines need not ask the host to expand it.
[[nodiscard]] bool is_nic_name(std::string_view text);

// A NIC has many names ("udp:FD00::7", "verbs:mlx5_0:1@3"). All of them have the same canonical
// name, the one that host_nics writes ("udp:fd00::7", "verbs:mlx5_0"). A text that names no NIC is
// returned as it is.
[[nodiscard]] std::string canonical_name(std::string_view text);

[[nodiscard]] bool is_udp(const HostNic& nic);
[[nodiscard]] bool is_ipv4(const HostNic& nic);

}  // namespace hawser::engine
