// SPDX-License-Identifier: Apache-2.0
// The address family that the NICs of a job share.
//
// A device may have IPv4 and IPv6 addresses, and is one NIC all the same. Each rank takes IPv4 if
// it may choose, which fails if another host has none. Each rank therefore tells the others which
// families its chosen devices have (FamilyOffer), and all take the first one that every rank has.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/host/nic_spec.hpp"
#include "hawser/nics.hpp"

namespace hawser::engine {

// A chosen NIC. The list that chose its device may allow addresses of both families.
struct ChosenNic {
  std::string name;
  std::string device;     // empty if the host does not list the NIC
  bool is_named = false;  // the user named it, so no other address replaces it
  std::string v4;         // "udp:10.0.0.1"; empty: none
  std::string v6;         // "udp:fd00::1"; empty: none
};

struct DeviceChoice {
  NicChoice choice;
  std::vector<ChosenNic> devices;  // of choice.nics, in their order
};

// hawser::choose_nics, with the other addresses of the chosen devices. Throws NicChoiceError.
[[nodiscard]] DeviceChoice choose_devices(std::string_view list, std::span<const HostNic> host);
[[nodiscard]] ChosenNic named_nic(std::string_view name);

// A rank tells this to the others.
struct FamilyOffer {
  bool v4 = false;          // one of its devices has an address of this family
  bool v6 = false;          //
  bool may_choose = false;  // a pattern chose one of its UDP NICs
  bool has_others = false;  // NICs without a family: RDMA ports
  std::string host;         // for people

  [[nodiscard]] bool has(Family family) const { return family == Family::v4 ? v4 : v6; }
};
[[nodiscard]] FamilyOffer offer_of(std::span<const ChosenNic> devices, std::string_view host);
[[nodiscard]] std::vector<std::byte> encode(const FamilyOffer& offer);
// Throws hawser::Error if the bytes are no offer.
[[nodiscard]] FamilyOffer decode_offer(std::span<const std::byte> bytes);

// The text says which host has which family.
class NoSharedFamily : public Error {
  using Error::Error;
};

// Returns the first family that all ranks have (IPv4, then IPv6). Ranks without UDP NICs do not
// count. Nothing if all NICs remain as they are: no rank may choose, or RDMA ports connect ranks
// that share no family. Throws NoSharedFamily.
[[nodiscard]] std::optional<Family> shared_family(std::span<const FamilyOffer> ranks);

struct FamilyChoice {
  std::vector<std::string> nics;   // at most as many as asked for
  std::vector<std::string> notes;  // for the user: devices that are left out
};
// Takes the address of this family of every device. Named NICs and RDMA ports stay.
[[nodiscard]] FamilyChoice keep_family(std::span<const ChosenNic> devices, Family family,
                                       std::size_t most);

}  // namespace hawser::engine
