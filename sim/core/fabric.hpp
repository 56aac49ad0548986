// SPDX-License-Identifier: Apache-2.0
// Ports, switches and the links between them. A port is one NIC's place: a cable to one switch. A
// frame that enters at a port goes from switch to switch along the shortest ways. Among equal ways
// a switch chooses by the hash of the port pair and the entropy, as ECMP does, so one flow keeps
// one way. A cable is two links.
//
//   port 0 --cable-- switch 0 --cable-- switch 1 --cable-- port 1
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/core/digest.hpp"
#include "sim/core/event_queue.hpp"
#include "sim/core/frame.hpp"
#include "sim/core/link.hpp"

namespace hawser::sim {

// The owner of a port gets the frames that arrive there.
class PortOwner {
 public:
  // The frame belongs to the owner from now on.
  virtual void on_frame(std::uint32_t frame) = 0;

 protected:
  ~PortOwner() = default;
};

class Fabric final : public Actor {
 public:
  Fabric(EventQueue& events, std::uint64_t seed) : events_(events), seed_(seed) {}

  // ---- construction, before the first frame
  [[nodiscard]] std::uint32_t add_switch();
  [[nodiscard]] std::uint32_t add_port(std::uint32_t at_switch, const LinkConfig& cable);
  // Returns the cable's number.
  std::uint32_t join(std::uint32_t switch_a, std::uint32_t switch_b, const LinkConfig& cable);
  void finish();

  void plug(std::uint32_t port, PortOwner* owner) { ports_[port].owner = owner; }

  [[nodiscard]] FrameStore& frames() { return frames_; }
  // The frame, whose `from` and `to` are ports, enters its port's cable now. Returns when the NIC
  // has read all of it.
  proto::Time send(std::uint32_t frame);
  // When a port's cable will have sent all that waits in front of it.
  [[nodiscard]] proto::Time busy_until(std::uint32_t port) const {
    return links_[ports_[port].up].busy_until();
  }

  // ---- faults
  [[nodiscard]] std::uint32_t ports() const { return static_cast<std::uint32_t>(ports_.size()); }
  [[nodiscard]] Link& to_fabric(std::uint32_t port) { return links_[ports_[port].up]; }
  [[nodiscard]] Link& to_port(std::uint32_t port) { return links_[ports_[port].up + 1]; }
  [[nodiscard]] std::uint32_t cables() const { return static_cast<std::uint32_t>(cables_.size()); }
  // A cable between switches; `back` chooses its other direction.
  [[nodiscard]] Link& cable(std::uint32_t number, bool back) {
    return links_[cables_[number] + (back ? 1 : 0)];
  }
  // Frames from one port to another vanish, those of one queue or of both.
  void close_way(std::uint32_t from, std::uint32_t to,
                 std::optional<proto::Queue> queue = std::nullopt) {
    closed_ways_.push_back({from, to, queue});
  }
  void open_all_ways() { closed_ways_.clear(); }

  [[nodiscard]] LinkCounters totals() const;
  [[nodiscard]] std::uint64_t lost_on_closed_ways() const { return lost_on_closed_ways_; }
  // A digest of every frame that came to a port: when, where, how long it was, and its headers.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

  void on_event(proto::Time now, std::uint64_t what) override;

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Port {
    std::uint32_t at = 0;  // switch
    std::uint32_t up = 0;  // the link to the switch; the next one is the link back
    PortOwner* owner = nullptr;
  };
  struct Switch {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> links;  // (link, switch at its end)
    // For each destination switch, where its choices begin in `choices`; one more at the end.
    std::vector<std::uint32_t> first_choice;
    std::vector<std::uint32_t> choices;  // links
  };

  [[nodiscard]] std::uint32_t add_link(const LinkConfig& config, std::uint32_t to_switch);
  struct ClosedWay {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::optional<proto::Queue> queue;  // nothing: both
  };
  [[nodiscard]] bool is_closed(const Frame& frame) const;
  proto::Time enter(std::uint32_t link, std::uint32_t frame);
  void leave(std::uint32_t link, std::uint32_t frame);
  void spoil(Frame& frame, const Link::Passage& passage);

  EventQueue& events_;
  std::uint64_t seed_;
  FrameStore frames_;
  std::vector<Port> ports_;
  std::vector<Switch> switches_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> link_ends_;  // switch, or kNone: the port's
  std::vector<std::uint32_t> cables_;     // first link of each
  std::vector<ClosedWay> closed_ways_;
  std::uint64_t lost_on_closed_ways_ = 0;
  Digest digest_;
};

}  // namespace hawser::sim
