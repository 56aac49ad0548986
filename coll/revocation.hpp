// SPDX-License-Identifier: Apache-2.0
// Spreads the news among the members of a communicator that it has failed.
//
// Every member keeps one receive posted, for control messages from any rank. A member is revoked
// when it notices a failure itself, or by the first abort message. It then tells its neighbours:
// the ranks at distances ±2^i. That graph has diameter log2(n). To cut off a member, as many ranks
// must be dead as it has neighbours. Abort messages have no payload, only their immediate.
//
// A revoked member also keeps a receive without room posted, which takes all other messages of this
// communicator but votes (Shrinking). They hold nothing then, and sends to this member end, rather
// than wait for receives that it has cancelled. When the communicator is destroyed, the router
// discards them (leftovers).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "coll/channel.hpp"

namespace hawser::coll {

class Revocation {
 public:
  explicit Revocation(const Channel& channel);

  // Posts missing listeners and abort messages. After `again` the rest waits for the next turn.
  void advance(const Channel& channel);

  // Tells the neighbours from now on. Only the first call counts.
  void revoke(const AbortNotice& notice);

  // Handles the completion of one of its operations. Returns the notice if it is the first.
  std::optional<AbortNotice> on_completion(const Mark& mark, const Completion& completion);

  // Stops listening, but still tells the neighbours.
  void retire() noexcept { retired_ = true; }

  [[nodiscard]] bool revoked() const noexcept { return revoked_; }
  [[nodiscard]] bool held_back() const noexcept { return held_back_; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return untold() + sends_to_dead_ + listeners();
  }
  // Abort messages to living ranks that are still to be sent or to complete.
  [[nodiscard]] std::uint32_t untold() const noexcept {
    return sends_ + (revoked_ ? static_cast<std::uint32_t>(neighbours_.size() - next_) : 0);
  }

 private:
  struct Listener {
    bool posted = false;
    bool cancel_asked = false;
    OperationId operation = kNoOperation;
  };
  static constexpr std::uint32_t kAborts = 0;      // index of the listener for control messages
  static constexpr std::uint32_t kStragglers = 1;  // of the listener for all other messages

  [[nodiscard]] std::uint32_t listeners() const noexcept;
  void listen(const Channel& channel, std::uint32_t index);
  void cancel_listeners(const Channel& channel);
  void tell(const Channel& channel);

  std::vector<Rank> neighbours_;
  std::size_t next_ = 0;  // the next neighbour to tell
  std::uint32_t sends_ = 0;
  std::uint32_t sends_to_dead_ = 0;
  std::array<Listener, 2> listeners_{};
  AbortNotice notice_{};
  bool revoked_ = false;
  bool held_back_ = false;
  bool retired_ = false;
  bool closed_ = false;  // the endpoint takes no more receives
};

}  // namespace hawser::coll
