// SPDX-License-Identifier: Apache-2.0
// Sends and receives the votes with which the members of a revoked communicator agree on who is
// left (survivors.hpp).
//
// Rank i sends its vote to i + 1, i + 2, ..., and receives those of i - 1, i - 2, ..., of the
// latter kMostReceives at once. The oldest vote that is missing anywhere thus has a receive, and a
// sender that nothing holds up. Votes have tags of their own, as the revoked communicator discards
// all other messages. Once the rank has decided it discards votes, too.
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
  void on_completion(const Mark& mark, const Completion& completion);
  // Receives nothing more, but still sends this rank's votes.
  void retire() noexcept { retired_ = true; }

  // `again`: it goes on. `ok`: the survivors have decided. Otherwise it has failed.
  [[nodiscard]] Status status() const noexcept;
  // Requires ok.
  [[nodiscard]] const Survivors& survivors() const noexcept { return survivors_; }

  [[nodiscard]] bool held_back() const noexcept { return held_back_; }
  // Operations whose completion is outstanding, and those that are still to be sent.
  [[nodiscard]] std::uint64_t in_flight() const noexcept;
  // Of those, the sends to ranks that are not given up.
  [[nodiscard]] std::uint64_t untold() const noexcept;

 private:
  static constexpr std::uint32_t kMostReceives = 64;
  // Numbers of operations: receives have those of their places, then
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

  void send_votes(const Channel& channel);
  void receive_votes(const Channel& channel);
  void discard_votes(const Channel& channel);
  void end_sessions(const Channel& channel);
  void cancel(const Channel& channel, Place& place);
  [[nodiscard]] Status post(const Channel& channel, Place& place, std::uint32_t index,
                            std::uint64_t bytes);
  // An operation with this rank has ended with `status`, or was refused.
  void on_failure(Rank rank, Status status);
  [[nodiscard]] std::uint64_t unsent() const noexcept;

  Survivors survivors_;
  Rank own_;
  Rank ranks_;
  std::deque<std::vector<std::byte>> votes_;     // those of this rank, the newest last
  std::size_t sending_ = 0;                      // of votes_
  Rank next_step_ = 1;                           // of the vote that is being sent
  Rank receive_step_ = 1;                        // of the present round
  std::array<Place, kMostReceives + 1> places_;  // the last one is for votes to be discarded
  std::uint64_t sends_ = 0;
  std::uint64_t sends_to_gone_ = 0;
  Status failure_ = Status::ok;
  bool are_sessions_ended_ = false;
  bool held_back_ = false;
  bool retired_ = false;
};

}  // namespace hawser::coll
