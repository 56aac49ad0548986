// SPDX-License-Identifier: Apache-2.0
// A process on a host: an unchanged endpoint over NICs of the fabric, and the loop that turns it.
//
// A turn costs time. After a turn that did something comes the next one. After any other the host
// sleeps until the moment that the endpoint asked for, or until a packet or a call wakes it. The
// host has a clock of its own: it starts anywhere, and may jump forward.
//
// A host may be descheduled between two turns (pause) or within one (stand). Within a turn there
// are three such places. The first is after the host has read the clock and before it looks at its
// NICs. The second is between a turn's halves. The third is after the host has read the clock again
// and before it sends. Packets that come meanwhile do not wake it, so it takes another turn before
// it sleeps, as the engine looks at its NICs once more.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "proto/endpoint.hpp"
#include "sim/core/pool.hpp"
#include "sim/core/sim_nic.hpp"

namespace hawser::sim {

struct HostConfig {
  proto::EndpointConfig endpoint;
  NicConfig nic;
  std::vector<std::uint32_t> ports;     // a NIC for each
  std::vector<std::uint32_t> numbers;   // addresses of the process before it; empty: own ones
  std::vector<std::uint32_t> networks;  // of the NICs; empty: all are in one
  proto::Duration turn = proto::nanoseconds(500);
  proto::Duration wake_up{};  // how late the host is when something wakes it
  proto::Duration clock{};    // how far its clock is ahead
  std::uint64_t seed = 1;
};

class Host final : public Actor {
 public:
  // `turned` is called after each turn.
  Host(EventQueue& events, Fabric& fabric, AddressBook& book, const HostConfig& config,
       std::function<void()> turned);

  [[nodiscard]] proto::Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const proto::Endpoint& endpoint() const { return *endpoint_; }
  [[nodiscard]] std::vector<std::unique_ptr<SimNic>>& nics() { return nics_; }
  [[nodiscard]] std::size_t buffers_in_use() const { return pool_.in_use(); }
  // The time by the host's own clock.
  [[nodiscard]] proto::Time now() const { return events_.now() + clock_; }
  // When the last turn did what the endpoint says that it did at `local`, by the host's own clock:
  // in its first half or in its second. The turn may have stood in between, or after it had read
  // the clock.
  [[nodiscard]] proto::Time when(proto::Time local) const {
    return local <= first_look_ ? first_half_ : events_.now();
  }
  // The program has called the endpoint, so a turn is due.
  void wake();

  // ---- faults
  // The process and its NICs are gone. The rest of it here does nothing more.
  void crash();
  [[nodiscard]] bool is_running() const { return endpoint_ != nullptr; }
  // The addresses that its NICs had, for the process after it.
  [[nodiscard]] const std::vector<std::uint32_t>& last_numbers() const { return last_numbers_; }
  void pause(bool paused);
  [[nodiscard]] bool is_paused() const { return paused_; }
  // The first turn from now on stands at that place until go_on().
  enum class Place : std::uint8_t { none, before_looking, between_halves, before_sending };
  void stand(Place place);
  void go_on() { stand(Place::none); }
  // While it stands, its program can't call anything.
  [[nodiscard]] bool stands() const { return stands_at_ != Place::none; }
  void set_dry(bool dry) { pool_.set_dry(dry); }
  void set_lateness(proto::Duration lateness) { lateness_ = lateness; }
  void jump(proto::Duration by) { clock_ = clock_ + by; }

  [[nodiscard]] std::uint64_t turns() const { return turns_; }
  // Turns in a row in which a timer was due but nothing was done about it.
  [[nodiscard]] std::uint32_t idle_turns() const { return idle_turns_; }
  // When the endpoint wants its next turn, by the simulated world's clock; kNever if no timer is
  // armed.
  [[nodiscard]] proto::Time wants_turn() const { return wants_; }

  void on_event(proto::Time now, std::uint64_t what) override;

 private:
  void schedule(proto::Time at);
  [[nodiscard]] bool stops_at(Place place);
  void end_turn(proto::Time now, const proto::TurnResult& result, bool has_stood);

  EventQueue& events_;
  Pool pool_;
  std::vector<std::unique_ptr<SimNic>> nics_;
  std::unique_ptr<proto::Endpoint> endpoint_;
  std::function<void()> turned_;
  proto::Duration turn_;
  proto::Duration wake_up_;
  proto::Duration lateness_{};
  proto::Duration clock_;
  proto::Time next_turn_ = proto::kNever;  // only the event for this time counts
  proto::Time wants_ = proto::kNever;
  bool paused_ = false;
  Place to_stand_ = Place::none;   // at the next turn
  Place stands_at_ = Place::none;  // a turn has begun
  proto::Time first_half_{};       // of the last turn
  proto::Time first_look_{};       // at the host's clock, for that half
  proto::Time looked_at_clock_{};
  std::vector<std::uint32_t> last_numbers_;
  std::uint64_t turns_ = 0;
  std::uint32_t idle_turns_ = 0;
};

}  // namespace hawser::sim
