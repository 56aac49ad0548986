// SPDX-License-Identifier: Apache-2.0
#include "sim/input/topology.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "sim/input/text.hpp"

namespace hawser::fabric {

namespace {

constexpr std::uint64_t kMostNodes = 1 << 20;
constexpr std::uint64_t kMostRadix = 4096;
constexpr std::uint64_t kMostGbps = 10'000;
constexpr std::uint64_t kMostLatency = 1'000'000'000;
constexpr std::uint64_t kMostQueue = 1'000'000'000;
constexpr std::size_t kMostTiers = 3;

struct Value {
  std::uint64_t value = 0;
  std::size_t line = 0;  // 0: not given
};

struct TierText {
  std::size_t line = 0;
  Value speed, latency, down, up, switch_latency, bundle, oversubscribed, queue_down, queue_up;
};

class TopologyReader {
 public:
  TopologyReader(const std::string& name, std::string_view content) : text_(name, content) {}

  Shape read() {
    for (std::size_t line = 1; line <= text_.lines(); ++line) {
      const std::vector<std::string_view> words = text_.words(line);
      if (words.empty()) continue;
      if (words.size() != 2) text_.fail(line, "a line is a key and a number");
      std::string key(words[0]);
      std::ranges::transform(key, key.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      });
      if (key == "tier") {
        begin_tier(line, words[1]);
      } else if (tier_ == nullptr) {
        head(line, key, words[1]);
      } else {
        in_tier(line, key, words[1]);
      }
    }
    return shape();
  }

 private:
  void set(std::size_t line, Value& value, const std::string& key, std::string_view word,
           std::uint64_t least, std::uint64_t most) {
    if (value.line > 0) {
      text_.fail(line, key + " is given twice, first in line " + std::to_string(value.line));
    }
    value = {text_.number(line, word, key, least, most), line};
  }

  void head(std::size_t line, const std::string& key, std::string_view word) {
    if (key == "nodes") return set(line, nodes_, key, word, 1, kMostNodes);
    if (key == "tiers") return set(line, tiers_, key, word, 2, kMostTiers);
    if (key == "podsize") return set(line, pod_, key, word, 1, kMostNodes);
    text_.fail(line,
               "before the first tier there are Nodes, Tiers and Podsize, not " + quoted(key));
  }

  void begin_tier(std::size_t line, std::string_view word) {
    if (tiers_.line == 0) text_.fail(line, "Tiers must come before the first tier");
    tier_ = &text_of_tier_[text_.number(line, word, "a tier", 0, tiers_.value - 1)];
    if (tier_->line > 0) {
      text_.fail(line,
                 "this tier is described twice, first in line " + std::to_string(tier_->line));
    }
    tier_->line = line;
  }

  void in_tier(std::size_t line, const std::string& key, std::string_view word) {
    if (key == "downlink_speed_gbps") return set(line, tier_->speed, key, word, 1, kMostGbps);
    if (key == "downlink_latency_ns") return set(line, tier_->latency, key, word, 0, kMostLatency);
    if (key == "radix_down") return set(line, tier_->down, key, word, 1, kMostRadix);
    if (key == "radix_up") return set(line, tier_->up, key, word, 1, kMostRadix);
    if (key == "switch_latency_ns") {
      return set(line, tier_->switch_latency, key, word, 0, kMostLatency);
    }
    if (key == "bundle") return set(line, tier_->bundle, key, word, 1, kMostRadix);
    if (key == "oversubscribed") return set(line, tier_->oversubscribed, key, word, 1, kMostRadix);
    if (key == "queue_down") return set(line, tier_->queue_down, key, word, 1, kMostQueue);
    if (key == "queue_up") return set(line, tier_->queue_up, key, word, 1, kMostQueue);
    text_.fail(line, quoted(key) +
                         " is not a field of a tier; known are Downlink_speed_Gbps, "
                         "Downlink_Latency_ns, Radix_Down, Radix_Up, Switch_Latency_ns, Bundle, "
                         "Oversubscribed, Queue_Down and Queue_Up");
  }

  void need(const Value& value, std::size_t line, const std::string& key) const {
    if (value.line == 0) text_.fail(std::max<std::size_t>(line, 1), key + " is missing");
  }

  Shape shape() {
    need(nodes_, 1, "Nodes");
    need(tiers_, 1, "Tiers");
    need(pod_, 1, "Podsize");
    Shape shape;
    shape.hosts = static_cast<std::uint32_t>(nodes_.value);
    if (tiers_.value == 3) {
      shape.pod_ports = static_cast<std::uint32_t>(pod_.value);
    } else if (pod_.value != nodes_.value) {
      text_.fail(pod_.line, "with two tiers all nodes are one pod: Podsize must be " +
                                std::to_string(nodes_.value));
    }
    for (std::size_t i = 0; i < tiers_.value; ++i) {
      if (text_of_tier_[i].line > 0) continue;
      text_.fail(tiers_.line, "Tier " + std::to_string(i) + " of these is not described");
    }
    for (std::size_t i = 0; i < tiers_.value; ++i) shape.tiers.push_back(tier(i));
    for (std::size_t i = 0; i + 1 < tiers_.value; ++i) check_oversubscription(shape, i);
    try {
      static_cast<void>(measure(shape));
    } catch (const ShapeError& error) {
      const bool is_whole = error.tier() == ShapeError::kWhole;
      text_.fail(is_whole ? nodes_.line : text_of_tier_[error.tier()].line, error.what());
    }
    return shape;
  }

  Tier tier(std::size_t number) const {
    const TierText& said = text_of_tier_[number];
    need(said.speed, said.line, "Downlink_speed_Gbps");
    need(said.latency, said.line, "Downlink_Latency_ns");
    need(said.down, said.line, "Radix_Down");
    const bool is_top = number + 1 == tiers_.value;
    if (!is_top) need(said.up, said.line, "Radix_Up");
    for (const Value* value : {&said.up, &said.queue_up}) {
      if (is_top && value->line > 0) text_.fail(value->line, "nothing is above the highest tier");
    }
    Tier tier;
    tier.bits_per_s = said.speed.value * kGigabit;
    tier.cable_latency = nanoseconds(static_cast<std::int64_t>(said.latency.value));
    tier.switch_latency = nanoseconds(static_cast<std::int64_t>(said.switch_latency.value));
    tier.down = static_cast<std::uint32_t>(said.down.value);
    tier.up = static_cast<std::uint32_t>(said.up.value);
    if (said.bundle.line > 0) tier.bundle = static_cast<std::uint32_t>(said.bundle.value);
    tier.queue_down = static_cast<std::uint32_t>(said.queue_down.value);
    tier.queue_up = static_cast<std::uint32_t>(said.queue_up.value);
    return tier;
  }

  void check_oversubscription(const Shape& shape, std::size_t number) const {
    const Value& said = text_of_tier_[number].oversubscribed;
    if (said.line == 0) return;
    const Tier& tier = shape.tiers[number];
    const std::uint64_t down = tier.down * (tier.bits_per_s / kGigabit);
    const std::uint64_t up = tier.up * (shape.tiers[number + 1].bits_per_s / kGigabit);
    if (down == up * said.value) return;
    text_.fail(said.line, "Oversubscribed is " + std::to_string(said.value) +
                              ", but a switch has " + std::to_string(down) +
                              " Gb/s downwards and " + std::to_string(up) +
                              " upwards: correct one of the two");
  }

  Text text_;
  Value nodes_, tiers_, pod_;
  std::array<TierText, kMostTiers> text_of_tier_;
  TierText* tier_ = nullptr;
};

}  // namespace

Shape read_topology(const std::string& name, std::string_view content) {
  return TopologyReader(name, content).read();
}

}  // namespace hawser::fabric
