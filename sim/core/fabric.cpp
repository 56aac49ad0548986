// SPDX-License-Identifier: Apache-2.0
#include "sim/core/fabric.hpp"

#include <algorithm>

#include "proto/base/assert.hpp"

namespace hawser::sim {

namespace {

// This much covers all headers and control blocks of nearly every frame. In an intact frame the
// payload follows from them; in a corrupted one the checksum shows the difference.
constexpr std::uint32_t kBytesInDigest = 128;

constexpr std::uint64_t event_of(std::uint32_t link, std::uint32_t frame) {
  return std::uint64_t{link} << 32 | frame;
}

}  // namespace

std::uint32_t Fabric::add_switch() {
  switches_.emplace_back();
  return static_cast<std::uint32_t>(switches_.size() - 1);
}

std::uint32_t Fabric::add_link(const LinkConfig& config, std::uint32_t to_switch) {
  const auto number = static_cast<std::uint32_t>(links_.size());
  links_.emplace_back(config, scramble(seed_ + number));
  link_ends_.push_back(to_switch);
  return number;
}

std::uint32_t Fabric::add_port(std::uint32_t at_switch, const LinkConfig& cable) {
  Port port;
  port.at = at_switch;
  port.up = add_link(cable, at_switch);
  (void)add_link(cable, kNone);
  ports_.push_back(port);
  return static_cast<std::uint32_t>(ports_.size() - 1);
}

std::uint32_t Fabric::join(std::uint32_t switch_a, std::uint32_t switch_b,
                           const LinkConfig& cable) {
  const std::uint32_t there = add_link(cable, switch_b);
  switches_[switch_a].links.emplace_back(there, switch_b);
  switches_[switch_b].links.emplace_back(add_link(cable, switch_a), switch_a);
  cables_.push_back(there);
  return static_cast<std::uint32_t>(cables_.size() - 1);
}

// Breadth first from each switch: a link is a choice towards it if its end is one step nearer.
void Fabric::finish() {
  const std::size_t count = switches_.size();
  std::vector<std::vector<std::uint32_t>> distances(count);  // [destination][switch]
  for (std::uint32_t target = 0; target < count; ++target) {
    std::vector<std::uint32_t>& distance = distances[target];
    distance.assign(count, kNone);
    distance[target] = 0;
    std::vector<std::uint32_t> wave{target};
    for (std::size_t i = 0; i < wave.size(); ++i) {
      for (const auto& [link, end] : switches_[wave[i]].links) {  // every cable goes both ways
        if (distance[end] != kNone) continue;
        distance[end] = distance[wave[i]] + 1;
        wave.push_back(end);
      }
    }
  }
  for (std::uint32_t at = 0; at < count; ++at) {
    Switch& here = switches_[at];
    for (std::uint32_t target = 0; target < count; ++target) {
      here.first_choice.push_back(static_cast<std::uint32_t>(here.choices.size()));
      for (const auto& [link, end] : here.links) {
        if (distances[target][end] != kNone && distances[target][end] < distances[target][at]) {
          here.choices.push_back(link);
        }
      }
    }
    here.first_choice.push_back(static_cast<std::uint32_t>(here.choices.size()));
  }
}

bool Fabric::is_closed(const Frame& frame) const {
  return std::ranges::any_of(closed_ways_, [&](const ClosedWay& way) {
    return way.from == frame.from && way.to == frame.to &&
           way.queue.value_or(frame.queue) == frame.queue;
  });
}

proto::Time Fabric::send(std::uint32_t frame) {
  return enter(ports_[frames_.at(frame).from].up, frame);
}

proto::Time Fabric::enter(std::uint32_t link, std::uint32_t frame) {
  const Link::Passage passage = links_[link].pass(events_.now(), frames_.at(frame).bytes);
  if (!passage.arrives) {
    frames_.give(frame);
    return passage.departs;
  }
  frames_.at(frame).congestion_experienced |= passage.marked;
  if (passage.duplicated) {
    events_.at(passage.arrival, *this, event_of(link, frames_.copy(frame)));
  }
  spoil(frames_.at(frame), passage);
  events_.at(passage.arrival, *this, event_of(link, frame));
  return passage.departs;
}

void Fabric::spoil(Frame& frame, const Link::Passage& passage) {
  if (frame.bytes == 0) return;
  frame.spoiled |= passage.corrupted || passage.truncated;
  if (passage.corrupted) {
    const std::uint64_t bit = passage.dice % (std::uint64_t{frame.bytes} * 8);
    frame.data()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
  if (passage.truncated) frame.bytes = static_cast<std::uint32_t>(passage.dice % frame.bytes);
}

void Fabric::on_event(proto::Time, std::uint64_t what) {
  leave(static_cast<std::uint32_t>(what >> 32), static_cast<std::uint32_t>(what));
}

void Fabric::leave(std::uint32_t link, std::uint32_t id) {
  Frame& frame = frames_.at(id);
  const std::uint32_t at = link_ends_[link];
  const Port& target = ports_[frame.to];
  if (at == kNone) {
    digest_.mix(static_cast<std::uint64_t>(events_.now().ns));
    digest_.mix(std::uint64_t{frame.to} << 32 | frame.bytes);
    digest_.mix(frame.data().first(std::min(frame.bytes, kBytesInDigest)));
    if (target.owner == nullptr) return frames_.give(id);
    return target.owner->on_frame(id);
  }
  if (is_closed(frame)) {
    ++lost_on_closed_ways_;
    return frames_.give(id);
  }
  if (at == target.at) {
    enter(target.up + 1, id);
    return;
  }
  const Switch& here = switches_[at];
  const std::uint32_t first = here.first_choice[target.at];
  const std::uint32_t choices = here.first_choice[target.at + 1] - first;
  if (choices == 0) return frames_.give(id);  // no way leads there
  const std::uint64_t flow =
      std::uint64_t{frame.from} << 40 | std::uint64_t{frame.to} << 16 | frame.entropy;
  const std::uint64_t hash = scramble(seed_ ^ flow ^ std::uint64_t{at} << 56);
  enter(here.choices[first + static_cast<std::uint32_t>(hash % choices)], id);
}

LinkCounters Fabric::totals() const {
  LinkCounters all;
  for (const Link& link : links_) {
    const LinkCounters& one = link.counters();
    all.frames += one.frames;
    all.bytes += one.bytes;
    all.queue_drops += one.queue_drops;
    all.queue_drop_bytes += one.queue_drop_bytes;
    all.marked += one.marked;
    all.lost += one.lost;
    all.lost_in_bursts += one.lost_in_bursts;
    all.lost_while_down += one.lost_while_down;
    all.duplicated += one.duplicated;
    all.reordered += one.reordered;
    all.stragglers += one.stragglers;
    all.spikes += one.spikes;
    all.corrupted += one.corrupted;
    all.truncated += one.truncated;
  }
  return all;
}

}  // namespace hawser::sim
