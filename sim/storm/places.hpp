// SPDX-License-Identifier: Apache-2.0
// The judge's view of places: which peers an endpoint knows, and when a newcomer must get in.
//
// A host knows max_peers others at a time. A peer takes a place while a session with it lives or is
// being called for. It keeps the place for as long as something is left of it: a message that
// nobody has received, a claim, a send that a NIC still reads. A peer whose process died keeps its
// place until it has been silent for its patience.
//
// A newcomer gets in within a bound. The time runs from the moment when it calls and a place can be
// had:
//  - The bound is two intervals between its calls, and the timers of a handshake.
//  - The place of a dead peer can be had when it was silent for its patience. The peer is probed
//    first, so that takes half of peer_timeout and the longest absence from the call on. The
//    longest absence is also added to the bound.
//  - Calls may be lost if the plan has other faults than ends of processes: then peer_timeout is
//    added.
// Only undisturbed time counts (reasons.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/storm/reasons.hpp"
#include "sim/storm/sessions.hpp"

namespace hawser::sim {

class Places {
 public:
  Places(const Plan& plan, const Reasons& reasons, const Sessions& sessions);

  // Whether a peer may find no place there.
  [[nodiscard]] bool can_run_out(std::uint32_t host) const { return can_run_out_[host]; }
  // A process of the host runs from now on, or is gone.
  void on_started(std::uint32_t host, proto::Duration at);
  void on_gone(std::uint32_t host, proto::Duration at);
  // `host` calls the other one, or its program asks for that.
  void on_calling(std::uint32_t host, std::uint32_t other, proto::Duration at);
  // The host's session or call with the other one has begun or ended. Sessions must have been told.
  void on_change(std::uint32_t host, std::uint32_t other, proto::Duration at);
  // An operation for the other host was posted.
  void on_posted(std::uint32_t host, std::uint32_t other, proto::Duration at) {
    side(host, other).posted_at = at;
  }
  // Whether something of the other one is left at the host.
  void set_left(std::uint32_t host, std::uint32_t other, bool is_left, proto::Duration at);

  [[nodiscard]] bool is_calling(std::uint32_t host, std::uint32_t other) const {
    return side(host, other).calls;
  }
  // When its last call began.
  [[nodiscard]] proto::Duration called_at(std::uint32_t host, std::uint32_t other) const {
    return side(host, other).called_at;
  }
  // `host` has let the call of `caller` in, or refused it for good. Returns what is wrong with the
  // time that it took, or an empty text.
  [[nodiscard]] std::string on_answer(std::uint32_t caller, std::uint32_t host, bool refused,
                                      proto::Duration at) const;
  // The host's own endpoint has no place for another one that its program connects. Returns what is
  // wrong with that, or an empty text.
  [[nodiscard]] std::string on_none(std::uint32_t host, std::uint32_t other, proto::Duration at);

 private:
  struct Side {
    bool calls = false;
    bool called = false;  // by an earlier process: an answer may be in flight
    bool is_left = false;
    proto::Duration called_at{};
    proto::Duration posted_at{};
    std::optional<proto::Duration> asked_at;  // since when it asks in vain for a place here
  };
  // Since when a place could be had, and whether that is one of a process that is gone.
  struct Vacancy {
    proto::Duration since{};
    bool is_of_dead = false;
  };
  [[nodiscard]] Side& side(std::uint32_t host, std::uint32_t other) {
    return sides_[host * plan_.hosts.size() + other];
  }
  [[nodiscard]] const Side& side(std::uint32_t host, std::uint32_t other) const {
    return sides_[host * plan_.hosts.size() + other];
  }
  [[nodiscard]] bool is_gone(std::uint32_t host) const { return gone_at_[host].ns >= 0; }
  [[nodiscard]] std::uint64_t count_living(std::uint32_t host, std::uint32_t but) const;
  [[nodiscard]] bool holds_as_dead(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] proto::Duration silent_from(std::uint32_t host, std::uint32_t other) const;
  [[nodiscard]] std::optional<Vacancy> vacancy(std::uint32_t host, std::uint32_t caller) const;
  void refresh(std::uint32_t host, proto::Duration at);
  void refresh_all(proto::Duration at);

  const Plan& plan_;
  const Reasons& reasons_;
  const Sessions& sessions_;
  bool judges_;
  std::vector<bool> can_run_out_;  // by host
  proto::Duration patience_;
  proto::Duration interval_;  // the longest one between two calls
  proto::Duration timers_;    // of a handshake
  bool is_calm_;
  std::vector<Side> sides_;
  std::vector<proto::Duration> gone_at_;  // by host; below 0: it runs
  // By host: since when fewer living peers have places than there are; and fewer living and dead.
  std::vector<std::optional<proto::Duration>> free_of_living_;
  std::vector<std::optional<Vacancy>> free_;
  std::vector<proto::Duration>
      dead_until_;  // by host: a place could last not be had for one that died
};

}  // namespace hawser::sim
