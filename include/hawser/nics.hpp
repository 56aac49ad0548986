// SPDX-License-Identifier: Apache-2.0
// The NICs of this host that EngineConfig::nics can name, and the choice among them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser {

// State of an IPv6 address as the kernel reports it (RFC 4862, section 5). An address of any other
// kind is preferred.
enum class AddressState : std::uint8_t {
  preferred = 0,
  deprecated = 1,  // its preferred lifetime is over; it works, but nothing new should use it
  tentative = 2,   // duplicate address detection is still running: no socket can bind it yet
  duplicate = 3,   // duplicate address detection found it on another host: no socket can bind it
};

struct HostNic {
  std::string name;    // as in EngineConfig::nics: "udp:10.0.0.1", "verbs:mlx5_0:1"
  std::string device;  // "eth0", "mlx5_0"
  bool up = false;     // it can be used
  bool loopback = false;
  std::uint32_t mtu = 0;              // bytes; 0: not known
  std::uint64_t bits_per_second = 0;  // of the link; 0: not known
  AddressState address_state = AddressState::preferred;
  std::string obstacle{};  // for people: why it can't be used; empty if it can
};

// A NIC's name in its parts. They refer to the text that was split.
struct NicName {
  std::string_view kind;   // "udp", "verbs" or "memory"; empty if the text names no single NIC
  std::string_view where;  // what follows the colon: "fe80::1%eth0", "mlx5_0:1@3"; may be empty
};
// Splits what names one NIC. Patterns such as "if:eth0" name none, and have no parts. Checks
// neither the address nor the device.
[[nodiscard]] NicName split_nic_name(std::string_view name);

// Lists every address of this host that a UDP NIC may use, and every port of an RDMA device. RDMA
// ports come first, loopback last. Leaves out IPv6 link-local addresses. Asks the system, and may
// block.
[[nodiscard]] std::vector<HostNic> host_nics();

// One NIC of the host, and whether it was chosen.
struct NicCandidate {
  HostNic nic;
  bool chosen = false;
  std::string reason;  // for people: why it was chosen, or why not
};

struct NicChoice {
  std::vector<std::string> nics;         // the chosen ones, as EngineConfig::nics takes them
  std::vector<NicCandidate> candidates;  // every NIC of the host, in the order of host_nics()
  std::vector<std::string> notes;        // for the user: unavailable NICs, items without a match
};

// Thrown if the list is malformed or chooses nothing. The text names each NIC of the host and the
// reason why it was not chosen.
class NicChoiceError : public Error {
 public:
  NicChoiceError(const std::string& text, std::vector<NicCandidate> candidates)
      : Error(text), candidates_(std::move(candidates)) {}
  [[nodiscard]] const std::vector<NicCandidate>& candidates() const noexcept { return candidates_; }

 private:
  std::vector<NicCandidate> candidates_;
};

// Chooses NICs by a list that may be the same for all hosts of a job. Commas separate the items:
//
//   udp:ADDRESS, verbs:DEVICE..., memory:FABRIC   this NIC, whether or not host_nics() lists it
//   if:NAME      the network interface of that name; * and ? are wildcards, as in a shell.
//   net:PREFIX   addresses of that prefix, as in net:10.0.0.0/8 or net:fd00::/8
//   udp, verbs   the network interfaces; the RDMA ports
//   NAME, PREFIX, ADDRESS   the same without a word before it; NAME is an interface or RDMA device
//   !ITEM        not these. A ^ before the first item negates all of them, as NCCL and UCX have it
//
// NICs come in the order of the items. Patterns choose NICs that are up and whose address is
// preferred. They choose one address per device (IPv4 if there is one), and loopback only if
// nothing else matches. At most 16 NICs are chosen.
// If no item includes anything, the list chooses the first of these groups that has a member:
// 1. The RDMA ports.
// 2. The network interfaces, except bridges of container managers (docker0, virbr0 and the like).
// 3. Those bridges.
// 4. Loopback.
//
// Throws NicChoiceError. Asks the system, and may block.
[[nodiscard]] NicChoice choose_nics(std::string_view list);
// The same among NICs that the caller names.
[[nodiscard]] NicChoice choose_nics(std::string_view list, std::span<const HostNic> host);

// Returns the NICs that one would use together: the choice of the environment variable HAWSER_NICS,
// or else the choice of an empty list. Empty if the variable isn't set and no NIC of this host can
// be used. Throws NicChoiceError if the variable is set and chooses nothing.
[[nodiscard]] std::vector<std::string> usable_nics();

}  // namespace hawser
