// SPDX-License-Identifier: Apache-2.0
#include "engine/host/nic_family.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace hawser::engine {
namespace {

// An offer on the wire: this word, a byte of flags, and the host's name.
constexpr std::string_view kWord = "families";
constexpr unsigned kV4 = 1;
constexpr unsigned kV6 = 2;
constexpr unsigned kMayChoose = 4;
constexpr unsigned kHasOthers = 8;
constexpr std::size_t kMostHostBytes = 255;

constexpr std::array<Family, 2> kInOrder{Family::v4, Family::v6};
constexpr std::size_t kMostNamed = 4;  // ranks of one kind in a sentence

bool has_any(const FamilyOffer& offer) { return offer.v4 || offer.v6; }

std::string kind_of(const FamilyOffer& offer) {
  if (offer.v4 && offer.v6) return "IPv4 and IPv6";
  return offer.v4 ? "only IPv4" : "only IPv6";
}

// "only IPv4 at rank 0 (alpha), rank 1 (alpha); only IPv6 at rank 2 (beta)"
std::string whereabouts(std::span<const FamilyOffer> ranks) {
  struct Kind {
    std::string name;
    std::string ranks;
    std::size_t count = 0;
  };
  std::vector<Kind> kinds;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!has_any(ranks[rank])) continue;
    const std::string name = kind_of(ranks[rank]);
    auto kind = std::ranges::find(kinds, name, &Kind::name);
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Kind{name, {}, 0});
    if (++kind->count > kMostNamed) continue;
    kind->ranks += (kind->count > 1 ? ", rank " : "rank ") + std::to_string(rank) + " (" +
                   ranks[rank].host + ")";
  }
  std::string text;
  for (const Kind& kind : kinds) {
    text += (text.empty() ? "" : "; ") + kind.name + " at " + kind.ranks;
    if (kind.count > kMostNamed)
      text += " and " + std::to_string(kind.count - kMostNamed) + " more";
  }
  return text;
}

}  // namespace

ChosenNic named_nic(std::string_view name) {
  ChosenNic nic;
  nic.name = name;
  nic.is_named = true;
  if (const std::optional<Family> family = family_of(name)) {
    (*family == Family::v4 ? nic.v4 : nic.v6) = name;
  }
  return nic;
}

FamilyOffer offer_of(std::span<const ChosenNic> devices, std::string_view host) {
  FamilyOffer offer;
  offer.host = host.substr(0, kMostHostBytes);
  for (const ChosenNic& device : devices) {
    offer.v4 |= !device.v4.empty();
    offer.v6 |= !device.v6.empty();
    const bool is_udp = !device.v4.empty() || !device.v6.empty();
    offer.may_choose |= is_udp && !device.is_named;
    offer.has_others |= !is_udp;
  }
  return offer;
}

std::vector<std::byte> encode(const FamilyOffer& offer) {
  std::string text(kWord);
  text +=
      static_cast<char>((offer.v4 ? kV4 : 0) | (offer.v6 ? kV6 : 0) |
                        (offer.may_choose ? kMayChoose : 0) | (offer.has_others ? kHasOthers : 0));
  text += offer.host;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

FamilyOffer decode_offer(std::span<const std::byte> bytes) {
  const std::size_t head = kWord.size() + 1;
  if (bytes.size() < head || bytes.size() > head + kMostHostBytes ||
      std::memcmp(bytes.data(), kWord.data(), kWord.size()) != 0) {
    throw Error("A rank sent something other than its address families: do all have this version?");
  }
  const auto flags = static_cast<unsigned>(bytes[kWord.size()]);
  const auto host = bytes.subspan(head);
  return {(flags & kV4) != 0, (flags & kV6) != 0, (flags & kMayChoose) != 0,
          (flags & kHasOthers) != 0,
          std::string(reinterpret_cast<const char*>(host.data()), host.size())};
}

std::optional<Family> shared_family(std::span<const FamilyOffer> ranks) {
  if (std::ranges::none_of(ranks, &FamilyOffer::may_choose)) return std::nullopt;
  for (const Family family : kInOrder) {
    if (std::ranges::all_of(
            ranks, [&](const FamilyOffer& rank) { return rank.has(family) || !has_any(rank); })) {
      return family;
    }
  }
  if (std::ranges::all_of(ranks, &FamilyOffer::has_others)) return std::nullopt;
  throw NoSharedFamily("The ranks' NICs have no address family in common: " + whereabouts(ranks) +
                       "; give every host an address of one family, or name other NICs");
}

FamilyChoice keep_family(std::span<const ChosenNic> devices, Family family, std::size_t most) {
  FamilyChoice kept;
  for (const ChosenNic& device : devices) {
    const std::string& own = family == Family::v4 ? device.v4 : device.v6;
    const bool stays = device.is_named || (device.v4.empty() && device.v6.empty());
    if (!stays && own.empty()) {
      kept.notes.push_back("NIC " + device.name + " (" + device.device +
                           ") is left out: it has no " + std::string(to_string(family)) +
                           " address, which is the family that all ranks have");
    } else if (kept.nics.size() < most) {
      kept.nics.push_back(stays ? device.name : own);
    }
  }
  return kept;
}

}  // namespace hawser::engine
