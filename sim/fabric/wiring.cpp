// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/wiring.hpp"

namespace hawser::fabric {

namespace {

// The settings of a link that ends at a switch of that tier: the switch's own latency counts.
LinkSettings upwards(const Shape& shape, std::size_t to_tier) {
  const Tier& tier = shape.tiers[to_tier];
  LinkSettings settings{tier.bits_per_s, tier.cable_latency + tier.switch_latency, shape.queue};
  if (to_tier == 0) {
    settings.queue = {.capacity = kUnlimited, .trim_to = 0};
  } else if (shape.tiers[to_tier - 1].queue_up > 0) {
    settings.queue.capacity = shape.tiers[to_tier - 1].queue_up;
  }
  return settings;
}

LinkSettings downwards(const Shape& shape, std::size_t from_tier) {
  const Tier& tier = shape.tiers[from_tier];
  LinkSettings settings{tier.bits_per_s, tier.cable_latency, shape.queue};
  if (from_tier > 0)
    settings.latency = settings.latency + shape.tiers[from_tier - 1].switch_latency;
  if (tier.queue_down > 0) settings.queue.capacity = tier.queue_down;
  return settings;
}

}  // namespace

Wiring::Wiring(const Shape& shape)
    : size_(measure(shape)),
      nics_(shape.nics),
      tiers_(static_cast<std::uint32_t>(shape.tiers.size())) {
  place_ports(shape);
  make_switches(shape);
  make_links(shape);
}

void Wiring::place_ports(const Shape& shape) {
  const std::uint32_t down = shape.tiers[0].down;
  places_.resize(shape.ports());
  for (std::uint32_t host = 0; host < shape.hosts; ++host) {
    for (std::uint32_t nic = 0; nic < nics_; ++nic) {
      PortPlace& place = places_[port(host, nic)];
      switch (shape.placement) {
        case Placement::together:
          place.leaf = port(host, nic) / down;
          place.place = port(host, nic) % down;
          break;
        case Placement::rails:
          place.leaf = host / down * nics_ + nic;
          place.place = host % down;
          break;
        case Placement::planes:
          place.tree = nic;
          place.leaf = nic * size_.leaves + host / down;
          place.place = host % down;
          break;
      }
      place.pod = place.leaf / size_.leaves_per_pod;
    }
  }
}

void Wiring::make_switches(const Shape& shape) {
  const std::uint32_t counts[] = {size_.leaves, size_.uppers_per_pod * size_.pods, size_.cores};
  std::uint32_t link = ports();
  first_of_tier_.push_back(0);
  for (std::uint32_t tier = 0; tier < tiers_; ++tier) {
    const Tier& kind = shape.tiers[tier];
    for (std::uint32_t n = 0; n < counts[tier] * shape.trees(); ++n) {
      Switch one;
      one.tier = tier;
      one.first_down = link;
      one.first_up = link + kind.down;
      one.up = kind.up;
      one.bundle = kind.bundle;
      if (tier == 1) {
        one.group = n / size_.uppers_per_pod;
        one.first_below = one.group * size_.leaves_per_pod;
      } else if (tier == 2) {
        one.group = n / size_.cores;
        one.first_below = one.group * size_.pods;
      }
      link += kind.down + kind.up;
      switches_.push_back(one);
    }
    first_of_tier_.push_back(switches());
  }
  ends_.resize(link);
  back_.resize(link);
  settings_.resize(link);
}

// The lower switch's n-th link upwards and the upper one's m-th downwards are one cable.
void Wiring::join(std::uint32_t lower, std::uint32_t n, std::uint32_t upper, std::uint32_t m) {
  const std::uint32_t there = up(lower, n);
  const std::uint32_t back = down(upper, m);
  ends_[there] = upper;
  ends_[back] = lower;
  back_[there] = back;
  back_[back] = there;
}

void Wiring::make_links(const Shape& shape) {
  for (std::uint32_t port = 0; port < ports(); ++port) {
    const PortPlace& place = places_[port];
    const std::uint32_t back = down(place.leaf, place.place);
    ends_[port] = place.leaf;
    ends_[back] = port | kPort;
    back_[port] = back;
    back_[back] = port;
    settings_[port] = upwards(shape, 0);
  }
  for (std::uint32_t number = 0; number < switches(); ++number) {
    const Switch& one = switches_[number];
    const Tier& kind = shape.tiers[one.tier];
    for (std::uint32_t n = 0; n < kind.down; ++n)
      settings_[down(number, n)] = downwards(shape, one.tier);
    for (std::uint32_t n = 0; n < one.up; ++n) {
      settings_[up(number, n)] = upwards(shape, one.tier + 1);
      const std::uint32_t bundle = shape.tiers[one.tier + 1].bundle;
      const std::uint32_t nth = number - in_tier(one.tier, 0);
      if (one.tier == 0) {
        const std::uint32_t pod = nth / size_.leaves_per_pod;
        join(number, n, in_tier(1, pod * size_.uppers_per_pod + n / bundle),
             nth % size_.leaves_per_pod * bundle + n % bundle);
      } else {
        // The k-th upper switch of each pod shares its cores with the k-th of all other pods.
        const std::uint32_t tree = one.group / size_.pods;
        const std::uint32_t core = nth % size_.uppers_per_pod + size_.uppers_per_pod * (n / bundle);
        join(number, n, in_tier(2, tree * size_.cores + core),
             one.group % size_.pods * bundle + n % bundle);
      }
    }
  }
}

std::vector<std::uint32_t> Wiring::of_switch(std::uint32_t number) const {
  const Switch& one = switches_[number];
  std::vector<std::uint32_t> links;
  for (std::uint32_t link = one.first_down; link < one.first_up + one.up; ++link) {
    links.push_back(link);
    links.push_back(back_[link]);
  }
  return links;
}

std::string Wiring::end_name(std::uint32_t link) const {
  const std::uint32_t number = end(link);
  if (ends_at_port(link)) {
    return "host " + std::to_string(number / nics_) + " nic " + std::to_string(number % nics_);
  }
  const std::uint32_t tier = switches_[number].tier;
  const char* const kind = tier == 0     ? "leaf "
                           : tier == 2   ? "core "
                           : tiers_ == 2 ? "spine "
                                         : "upper ";
  return kind + std::to_string(number - in_tier(tier, 0));
}

std::string Wiring::name(std::uint32_t link) const {
  return end_name(back_[link]) + " -> " + end_name(link);
}

}  // namespace hawser::fabric
