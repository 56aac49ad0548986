// SPDX-License-Identifier: Apache-2.0
// Sends and receives the votes with which the members of a revoked communicator agree on who is
// left (survivors.hpp).
//
// Rank i sends its vote to i + 1, i + 2, ..., and receives those of i - 1, i - 2, ..., of the
// latter kMostReceives at once. The oldest vote that is missing anywhere thus has a receive, and
// nothing holds up its sender. Votes have tags of their own, as the revoked communicator discards
// all other messages. At the end the rank awaits the decision of every other survivor, so that none
// of their votes is left over. Those of others are discarded.
//
// A session shows its end by a receive, not by a send: votes that came before its end count.
//
// A rank that is given up although its session stands may have decided otherwise, and would wait in
// vain for this one. When it has this rank's last vote, its session is therefore ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "coll/channel.hpp"
#include "coll/survivors.hpp"

namespace hawser::coll {

class Shrinking {
 public:
  Shrinking(const Channel& channel, std::uint32_t first_id, std::span<const Rank> without);

  // Posts what is possible. After `again` the rest waits for the next turn.
  void advance(const Channel& channel);
  void on_completion(const Channel& channel, const Mark& mark, const Completion& completion);
  // Receives nothing more, but still sends this rank's votes.
  void retire() noexcept { retired_ = true; }

  // `again`: it goes on. `ok`: the survivors have decided. `endpoint_closed`: this endpoint is.
  // `store_full`: unmatched messages leave no room for votes. `nic_error`: a vote could not be sent
  // or received, or was none.
  [[nodiscard]] Status status() const noexcept;
  // Requires ok.
  [[nodiscard]] const Survivors& survivors() const noexcept { return survivors_; }

  [[nodiscard]] bool held_back() const noexcept { return held_back_; }
  // Operations whose completion is outstanding, and those that are still to be sent.
  [[nodiscard]] std::uint64_t in_flight() const noexcept;
  // The same, but of receives none, and of sends those to survivors.
  [[nodiscard]] std::uint64_t untold() const noexcept;

 private:
  static constexpr std::uint32_t kMostReceives = 64;
  // A turn ends after as many sends that the endpoint has refused.
  static constexpr std::uint32_t kMostRefusals = 16;
  // Receives that end because the store is full. Each takes as long as peer_timeout.
  static constexpr std::uint32_t kMostRefusedVotes = 3;
  // The marks of receives have the number of their place.
  static constexpr std::uint32_t kDiscard = kMostReceives;
  static constexpr std::uint32_t kSend = kMostReceives + 1;

  struct Place {
    enum class State : std::uint8_t { free, taken, posted };
    State state = State::free;
    bool cancel_asked = false;
    Rank from = 0;
    OperationId operation = kNoOperation;
    std::vector<std::byte> vote;
  };
  // The votes of this rank to another.
  struct Sends {
    std::uint32_t posted = 0;     // of votes_
    std::uint32_t in_flight = 0;  // of those
  };

  [[nodiscard]] bool goes_on() const noexcept { return status() == Status::again && !retired_; }
  [[nodiscard]] bool end_round();
  [[nodiscard]] bool send_votes(const Channel& channel);
  // Returns false if the endpoint takes it later.
  [[nodiscard]] bool send_next(const Channel& channel, Rank to);
  void receive_votes(const Channel& channel, std::uint32_t places);
  [[nodiscard]] bool is_awaited_in_vain(Rank rank) const noexcept;
  void discard_votes(const Channel& channel);
  void on_late_vote(const Channel& channel, const Completion& completion);
  void end_sessions(const Channel& channel);
  void cancel(const Channel& channel, Place& place);
  [[nodiscard]] Status post(const Channel& channel, Place& place, std::uint32_t index);
  // A receive from this rank has ended with `status`, or was refused.
  void on_failure(const Channel& channel, Rank rank, Status status);
  [[nodiscard]] bool is_session_end(const Channel& channel, Status status);

  Survivors survivors_;
  Rank own_;
  Rank ranks_;
  std::deque<std::vector<std::byte>> votes_;     // those of this rank, the newest last
  std::vector<Sends> sends_;                     // by rank
  std::size_t sending_ = 0;                      // all votes before this one are sent
  Rank send_step_ = 1;                           // the first that may have something to send
  std::uint64_t unsent_ = 0;                     // votes to all ranks together
  std::uint64_t sends_in_flight_ = 0;            // the same
  Rank receive_step_ = 1;                        // of the present round
  std::array<Place, kMostReceives + 1> places_;  // the last one is for votes to be discarded
  std::vector<Rank> sessions_to_end_;
  std::uint32_t refused_votes_ = 0;
  Status failure_ = Status::ok;
  bool held_back_ = false;
  bool retired_ = false;
};

}  // namespace hawser::coll
