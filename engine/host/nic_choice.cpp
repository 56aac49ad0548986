// SPDX-License-Identifier: Apache-2.0
// Chooses among a host's NICs: hawser::choose_nics. Pure, except for the calls that ask the host.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "engine/host/nic_family.hpp"
#include "engine/host/nic_list.hpp"
#include "hawser/nics.hpp"

namespace hawser {
namespace {

using engine::ChosenNic;
using engine::DeviceChoice;
using engine::is_ipv4;
using engine::is_udp;
using engine::NicItem;

constexpr std::size_t kMostNics = 16;  // of an engine
constexpr const char* kListVariable = "HAWSER_NICS";

// True for the bridges that managers of containers and of virtual machines make. Every host has the
// same address on its own bridge, and the bridge leads to nothing beyond the host.
bool is_host_only(const HostNic& nic) {
  constexpr std::array<std::string_view, 6> kHeads{"docker", "virbr", "cni",
                                                   "podman", "lxcbr", "lxdbr"};
  constexpr std::string_view kDockerNetwork = "br-";
  constexpr std::size_t kDockerIdentifier = 12;  // hexadecimal digits
  const std::string_view name = nic.device;
  if (std::ranges::any_of(kHeads, [&](std::string_view head) { return name.starts_with(head); })) {
    return true;
  }
  return name.size() == kDockerNetwork.size() + kDockerIdentifier &&
         name.starts_with(kDockerNetwork) &&
         name.find_first_not_of("0123456789abcdef", kDockerNetwork.size()) == std::string::npos;
}

// Explains why no pattern chooses this NIC; empty if one may.
std::string unfitness(const HostNic& nic) {
  switch (nic.address_state) {
    case AddressState::preferred: break;
    case AddressState::deprecated:
      return "its address is deprecated: its preferred lifetime is over";
    case AddressState::tentative:
      return "its address is tentative: duplicate address detection has not ended";
    case AddressState::duplicate:
      return "its address is a duplicate: another host on the link has it";
  }
  if (!nic.obstacle.empty()) return nic.obstacle;
  return nic.up ? std::string() : nic.device + " is down";
}

// True if a user who named no NIC would want to know that this one is left out.
bool is_surprising(const HostNic& nic) {
  return nic.address_state == AddressState::tentative ||
         nic.address_state == AddressState::duplicate || (is_udp(nic) && !nic.obstacle.empty());
}

class Chooser {
 public:
  Chooser(std::string_view list, std::span<const HostNic> host)
      : list_(list), items_(engine::parse_nic_list(list)) {
    for (const HostNic& nic : host) choice_.candidates.push_back({nic, false, {}});
  }

  DeviceChoice run() {
    leave_out();
    if (std::ranges::all_of(items_, &NicItem::is_negated)) {
      choose_by_default();
    } else {
      for (const NicItem& item : items_) {
        if (!item.is_negated) choose(item);
      }
    }
    for (NicCandidate& candidate : choice_.candidates) {
      if (candidate.reason.empty()) candidate.reason = "no item matches it";
    }
    if (choice_.nics.empty()) throw NicChoiceError(complaint(), choice_.candidates);
    tell();
    return {std::move(choice_), std::move(chosen_)};
  }

 private:
  using Group = std::vector<NicCandidate*>;

  // Gives a reason to excluded NICs, and to those that no pattern chooses.
  void leave_out() {
    for (NicCandidate& candidate : choice_.candidates) {
      const auto item = std::ranges::find_if(
          items_, [&](const NicItem& one) { return one.is_negated && one.matches(candidate.nic); });
      candidate.reason =
          item != items_.end() ? "left out by !" + item->text : unfitness(candidate.nic);
    }
  }

  template <class Predicate>
  Group group_of(Predicate predicate) {
    Group group;
    for (NicCandidate& candidate : choice_.candidates) {
      const bool is_free = candidate.reason.empty() && !candidate.chosen;
      if (is_free && predicate(candidate.nic)) group.push_back(&candidate);
    }
    // IPv4 comes before IPv6 among a device's addresses.
    std::stable_partition(group.begin(), group.end(),
                          [](const auto* one) { return !is_udp(one->nic) || is_ipv4(one->nic); });
    return group;
  }

  // Removes the NICs for which `is_lesser` is true from the group, if others remain.
  template <class Predicate>
  static void prefer_others(Group& group, const char* reason, Predicate is_lesser) {
    const auto lesser = std::stable_partition(
        group.begin(), group.end(), [&](const auto* one) { return !is_lesser(one->nic); });
    if (lesser == group.begin()) return;
    std::for_each(lesser, group.end(), [&](NicCandidate* one) { one->reason = reason; });
    group.erase(lesser, group.end());
  }

  void take(const Group& group, const std::string& reason) {
    for (NicCandidate* one : group) {
      if (is_udp(one->nic) && !devices_.insert(one->nic.device).second) {
        one->reason = one->nic.device + " is in use by another of its addresses";
        remember_other(one->nic);
      } else if (choice_.nics.size() == kMostNics) {
        one->reason = "the choice has " + std::to_string(kMostNics) + " NICs, which is the maximum";
      } else {
        one->chosen = true;
        one->reason = reason;
        choice_.nics.push_back(one->nic.name);
        chosen_.push_back({one->nic.name, one->nic.device, false, {}, {}});
        remember(chosen_.back(), one->nic);
      }
    }
  }

  // Keeps the first address of each family.
  static void remember(ChosenNic& chosen, const HostNic& nic) {
    if (!is_udp(nic)) return;
    std::string& name = is_ipv4(nic) ? chosen.v4 : chosen.v6;
    if (name.empty()) name = nic.name;
  }

  void remember_other(const HostNic& nic) {
    const auto chosen = std::ranges::find(chosen_, nic.device, &ChosenNic::device);
    if (chosen != chosen_.end() && !chosen->is_named) remember(*chosen, nic);
  }

  static void leave_loopback(Group& group) {
    prefer_others(group, "loopback, and there are other NICs",
                  [](const HostNic& nic) { return nic.loopback; });
  }
  static void leave_bridges(Group& group) {
    prefer_others(group,
                  "a bridge of this host's containers or virtual machines; name it to use it",
                  is_host_only);
  }

  void choose_by_default() {
    Group group = group_of([](const HostNic&) { return true; });
    prefer_others(group, "a network interface, and there are RDMA ports; name it to use it",
                  is_udp);
    leave_loopback(group);
    leave_bridges(group);
    take(group, "chosen");
  }

  void choose(const NicItem& item) {
    if (item.kind == NicItem::Kind::exact) return choose_exactly(item);
    Group group = group_of([&](const HostNic& nic) { return item.matches(nic); });
    if (group.empty()) without_match_.push_back(&item);
    leave_loopback(group);
    if (!item.is_by_name()) leave_bridges(group);
    take(group, "chosen by " + item.text);
  }

  // Takes the NIC as named. If it is unavailable, the engine says why.
  void choose_exactly(const NicItem& item) {
    choice_.nics.push_back(item.pattern);
    chosen_.push_back(engine::named_nic(item.pattern));
    // host_nics lists no link-local address.
    const std::string_view interface = engine::udp_place(item.pattern).interface;
    if (!interface.empty()) devices_.emplace(interface);
    for (NicCandidate& candidate : choice_.candidates) {
      if (engine::canonical_name(candidate.nic.name) != item.canonical) continue;
      candidate.chosen = true;
      candidate.reason = "chosen by " + item.text;
      devices_.insert(candidate.nic.device);
      chosen_.back().device = candidate.nic.device;
    }
  }

  [[nodiscard]] std::string complaint() const {
    std::string text = items_.empty()
                           ? "This host has no usable NIC"
                           : "NICs \"" + std::string(list_) + "\" choose no NIC of this host";
    std::string comma = ": ";
    for (const NicCandidate& candidate : choice_.candidates) {
      text += comma + candidate.nic.name +
              (is_udp(candidate.nic) ? " (" + candidate.nic.device + ")" : "") + ": " +
              candidate.reason;
      comma = "; ";
    }
    return choice_.candidates.empty() ? text + ": it has none at all" : text;
  }

  void tell() {
    for (const NicCandidate& candidate : choice_.candidates) tell_of(candidate);
    for (const NicItem* item : without_match_) {
      choice_.notes.push_back("NICs \"" + std::string(list_) + "\": " + item->text +
                              " matches no usable NIC of this host");
    }
    for (const NicItem& item : items_) tell_of_prefix(item);
  }

  // A device that is in use by another address needs no note.
  void tell_of(const NicCandidate& candidate) {
    const HostNic& nic = candidate.nic;
    if (candidate.chosen || candidate.reason != unfitness(nic) || !is_surprising(nic)) return;
    if (devices_.contains(nic.device) || !is_wanted(nic)) return;
    choice_.notes.push_back("NIC " + nic.name + " (" + nic.device +
                            ") is left out: " + candidate.reason);
  }

  [[nodiscard]] bool is_wanted(const HostNic& nic) const {
    if (std::ranges::all_of(items_, &NicItem::is_negated)) return true;
    return std::ranges::any_of(
        items_, [&](const NicItem& item) { return !item.is_negated && item.matches(nic); });
  }

  // In NCCL a name matches every interface that begins with it. Here names must match whole.
  void tell_of_prefix(const NicItem& item) {
    if (!item.is_negated || !item.is_by_name()) return;
    for (const NicCandidate& candidate : choice_.candidates) {
      if (item.matches(candidate.nic)) return;
    }
    for (const NicCandidate& candidate : choice_.candidates) {
      if (!candidate.chosen || !candidate.nic.device.starts_with(item.pattern)) continue;
      choice_.notes.push_back("NICs \"" + std::string(list_) + "\": !" + item.text +
                              " excludes nothing, not even " + candidate.nic.device + "; write !" +
                              item.text + "* to exclude all names with that beginning");
      return;
    }
  }

  std::string_view list_;
  std::vector<NicItem> items_;
  NicChoice choice_;
  std::vector<ChosenNic> chosen_;  // of choice_.nics
  std::set<std::string> devices_;  // interfaces that have a chosen address
  std::vector<const NicItem*> without_match_;
};

}  // namespace

DeviceChoice engine::choose_devices(std::string_view list, std::span<const HostNic> host) {
  return Chooser(list, host).run();
}

NicChoice choose_nics(std::string_view list, std::span<const HostNic> host) {
  return engine::choose_devices(list, host).choice;
}

NicChoice choose_nics(std::string_view list) { return choose_nics(list, host_nics()); }

std::vector<std::string> usable_nics() {
  const char* const list = std::getenv(kListVariable);
  if (list != nullptr && *list != '\0') return choose_nics(list).nics;
  try {
    return choose_nics({}).nics;
  } catch (const NicChoiceError&) {
    return {};
  }
}

}  // namespace hawser
