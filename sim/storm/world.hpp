// SPDX-License-Identifier: Apache-2.0
// The fabric and the hosts of a plan, and what its faults do to them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/core/host.hpp"
#include "sim/storm/plan.hpp"
#include "sim/storm/scribe.hpp"

namespace hawser::sim {

// Called after each turn of a host, before its process is gone, and when a process has begun later
// than the world.
struct WorldHooks {
  std::function<void(std::uint32_t host)> turned;
  std::function<void(std::uint32_t host)> crashed;
  std::function<void(std::uint32_t host)> started;
};

class World final : public Actor {
 public:
  static constexpr proto::Time kStart{1'000'000'000};

  // The scribe outlives it.
  World(const Plan& plan, WorldHooks hooks, Scribe& scribe);

  [[nodiscard]] EventQueue& events() { return events_; }
  [[nodiscard]] Scribe& scribe() { return scribe_; }
  [[nodiscard]] Fabric& fabric() { return fabric_; }
  [[nodiscard]] std::uint32_t hosts() const { return static_cast<std::uint32_t>(hosts_.size()); }
  // Before that the host has no process, and no other state.
  [[nodiscard]] bool has_started(std::uint32_t host) const { return hosts_[host] != nullptr; }
  [[nodiscard]] bool is_running(std::uint32_t host) const {
    return has_started(host) && hosts_[host]->is_running();
  }
  [[nodiscard]] Host& host(std::uint32_t i) { return *hosts_[i]; }
  [[nodiscard]] const Host& host(std::uint32_t i) const { return *hosts_[i]; }
  // How many processes this host had before the present one.
  [[nodiscard]] std::uint64_t life(std::uint32_t host) const { return lives_[host]; }
  // The epoch of its present process, or of the last one.
  [[nodiscard]] std::uint64_t epoch(std::uint32_t host) const { return epochs_[host]; }
  // The name by which `from` knows `to`. kAnyPeer: it was not connected yet, or the process is
  // gone.
  [[nodiscard]] PeerId peer(std::uint32_t from, std::uint32_t to) const { return peers_[from][to]; }
  // Connects with the address that `to` has now, as a rendezvous would hand it out.
  [[nodiscard]] Status connect(std::uint32_t from, std::uint32_t to);
  // The host's process has nothing left to do, and is gone.
  void leave(std::uint32_t host);
  // The present process of `at` hears that this is a name of that host. Returns false if it was
  // another host's.
  [[nodiscard]] bool learn_name(std::uint32_t at, PeerId peer, std::uint32_t other);
  // The host that this peer is, or was; kAnyHost if there is none.
  [[nodiscard]] std::uint32_t host_of(std::uint32_t at, PeerId peer) const;
  // The newest name of the other host that `at` has heard of; kAnyPeer: none.
  [[nodiscard]] PeerId name(std::uint32_t at, std::uint32_t other) const {
    return names_[at].newest[other];
  }
  // Names that were followed by newer ones, in the order in which they were.
  [[nodiscard]] const std::vector<PeerId>& old_names(std::uint32_t at) const {
    return names_[at].old;
  }
  [[nodiscard]] std::size_t count_names(std::uint32_t at) const { return names_[at].hosts.size(); }

  // How many faults have begun, by kind.
  [[nodiscard]] const std::array<std::uint32_t, kFaultKinds>& begun() const { return begun_; }
  [[nodiscard]] proto::Duration since_start() const { return events_.now() - kStart; }
  // When the event of the host's last turn happened. Its program may hear of it much later, if the
  // host has stood in that turn.
  [[nodiscard]] proto::Duration time_of(std::uint32_t host, const Event& event) const {
    const proto::Time told{static_cast<std::int64_t>(event.time_ns)};
    return hosts_[host]->when(told) - kStart;
  }
  // True from the moment when all faults have ended.
  [[nodiscard]] bool is_healed() const { return healed_; }

  void on_event(proto::Time now, std::uint64_t what) override;

 private:
  // The names by which a process knows others.
  struct Names {
    std::map<PeerId, std::uint32_t> hosts;
    std::vector<PeerId> newest;  // by host
    std::vector<PeerId> old;
  };
  void build_fabric();
  void start_late(std::uint32_t host);
  void start(std::uint32_t host, const std::vector<std::uint32_t>& numbers);
  void restart(const FaultPlan& fault);
  void crash(std::uint32_t host);
  void begin(const FaultPlan& fault);
  void end(const FaultPlan& fault);
  void call_as_strangers(const FaultPlan& fault);
  void heal();
  // Sets the state of links, NICs and hosts anew, as the active faults make it.
  void apply_all();
  void apply(const FaultPlan& fault);
  void apply_to_cables(const FaultPlan& fault);
  void apply_to_nic(const FaultPlan& fault);
  [[nodiscard]] std::uint32_t port(std::uint32_t host, std::uint32_t nic) const {
    return first_port_[host] + nic;
  }
  void close_host(std::uint32_t host);

  const Plan& plan_;
  WorldHooks hooks_;
  Scribe& scribe_;
  EventQueue events_;
  proto::Random intruder_;
  Fabric fabric_;
  AddressBook book_;
  std::vector<std::uint32_t> first_port_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Host>> gone_;
  std::vector<std::uint64_t> lives_;
  std::vector<std::uint64_t> epochs_;
  std::vector<std::vector<PeerId>> peers_;
  std::vector<Names> names_;
  std::vector<bool> is_taken_over_;           // its addresses are another host's
  std::vector<bool> active_;                  // by fault
  std::vector<std::vector<bool>> told_dead_;  // [host][nic]: its driver has said so
  std::array<std::uint32_t, kFaultKinds> begun_{};
  bool healed_ = false;
};

}  // namespace hawser::sim
