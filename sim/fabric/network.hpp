// SPDX-License-Identifier: Apache-2.0
// Packets through a fabric, from port to port: which way each takes, and what happens on it.
//
// A switch sends a packet down if the destination's leaf is below it, else up. Among equal ways the
// packet takes the one that the hash of (source, destination, entropy) and the switch says, as ECMP
// does. Adaptive routing instead takes one of the ways with the shortest queue at that moment, as
// exactly as a switch can compare queues; this reorders packets.
// A hash never learns of faults: a packet whose way is broken is lost. Adaptive routing sees which
// of its own switch's cables are down, as it sees their queues, but nothing beyond them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/digest.hpp"
#include "sim/fabric/event_wheel.hpp"
#include "sim/fabric/wiring.hpp"

namespace hawser::fabric {

// The owner of a port gets the packets that arrive there.
class Receiver {
 public:
  // The packet belongs to the receiver, which gives it back to the store or sends it on.
  virtual void on_packet(Instant now, PacketId id) = 0;
  // The light on the port's cable went out, or is back. A port sees no more than that: neither the
  // fate of the packets that it sends, nor anything beyond its switch. May be said twice.
  virtual void on_cable(Instant now, bool is_up) {
    static_cast<void>(now);
    static_cast<void>(is_up);
  }

 protected:
  ~Receiver() = default;
};

class Network final : public Actor {
 public:
  // `header_room`: see PacketStore. Throws InputError, as measure() does.
  Network(EventWheel& events, const Shape& shape, std::uint64_t seed, std::size_t header_room = 0);

  [[nodiscard]] const Wiring& wiring() const { return wiring_; }
  [[nodiscard]] PacketStore& packets() { return packets_; }
  // Null: packets that arrive there are given back.
  void plug(std::uint32_t port, Receiver* receiver) { receivers_[port] = receiver; }
  // The receiver at that port, for code that puts another one between it and the port.
  [[nodiscard]] Receiver* plugged(std::uint32_t port) const { return receivers_[port]; }

  // The packet, whose `from` and `to` are ports of one tree, enters its port's cable now. It
  // belongs to the network until a receiver gets it.
  void send(PacketId id);
  // How long the packets that wait in a port will take to be sent.
  [[nodiscard]] Span backlog(std::uint32_t port) const {
    return links_[port].backlog(events_.now());
  }
  [[nodiscard]] const Link& link(std::uint32_t number) const { return links_[number]; }

  // ---- faults, of one direction of a cable; see Link
  void put_down(std::uint32_t link) { links_[link].put_down(packets_); }
  void put_up(std::uint32_t link) { links_[link].put_up(); }
  void set_rate(std::uint32_t link, std::uint64_t bits_per_s) {
    links_[link].set_rate(events_.now(), bits_per_s, packets_);
  }
  void set_loss(std::uint32_t link, double probability) { links_[link].set_loss(probability); }

  // If the link ends at a port, its receiver hears whether the link is up.
  void tell_port(std::uint32_t link) {
    if (!wiring_.ends_at_port(link) || receivers_[wiring_.end(link)] == nullptr) return;
    receivers_[wiring_.end(link)]->on_cable(events_.now(), !links_[link].is_down());
  }

  // How often packets have passed a link; how many packets came to their port.
  [[nodiscard]] std::uint64_t hops() const { return hops_; }
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }
  // The total length of the delivered packets.
  [[nodiscard]] std::uint64_t delivered_bytes() const { return delivered_bytes_; }
  // Sums over all links.
  [[nodiscard]] LinkCounters totals() const;
  // Counts from now on the delivered bytes that each port sent, and those that it received.
  void count_ports() { port_bytes_.resize(wiring_.ports()); }
  struct PortBytes {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  [[nodiscard]] const PortBytes& port_bytes(std::uint32_t port) const { return port_bytes_[port]; }
  // A digest of every packet that came to its port: when, where, and what it was.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

  void on_event(Instant now, std::uint32_t link) override;
  void prepare(std::uint32_t link, Ahead ahead) const override;

 private:
  void enter(std::uint32_t link, PacketId id);
  [[nodiscard]] std::uint32_t next_link(std::uint32_t at, const Packet& packet);
  [[nodiscard]] std::uint32_t choose(std::uint32_t first, std::uint32_t count, std::uint32_t at,
                                     const Packet& packet);
  [[nodiscard]] std::uint32_t shortest(std::uint32_t first, std::uint32_t count);
  // The length of a queue, as adaptive routing sees it.
  [[nodiscard]] std::int64_t level(std::uint32_t link) const {
    return links_[link].backlog(events_.now()).ps / adaptive_step_.ps;
  }
  void deliver(Instant now, std::uint32_t port, PacketId id);

  EventWheel& events_;
  Wiring wiring_;
  PacketStore packets_;
  std::vector<Link> links_;
  std::vector<Receiver*> receivers_;
  std::uint64_t seed_;
  bool adaptive_;
  Span adaptive_step_;
  std::uint64_t choices_ = 0;
  std::uint64_t hops_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t delivered_bytes_ = 0;
  std::vector<PortBytes> port_bytes_;  // empty: nobody asked for it
  sim::Digest digest_;
};

}  // namespace hawser::fabric
