// SPDX-License-Identifier: Apache-2.0
// How the members of a communicator learn that it has failed.
//
// Every member keeps one receive posted, for the abort tag from anyone. Who is revoked, by its own
// discovery or by the first abort message, tells its neighbours: the ranks at distances ±2^i. That
// graph has diameter log2(n), and it takes as many dead as a member has neighbours to cut it off.
// Abort messages carry nothing but their immediate.
//
// A revoked member also keeps a receive posted that takes whatever else comes in this
// communicator's name, without room for it: sends to it end, instead of waiting for receives that
// it has cancelled.
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

  // Posts what is missing of listeners and abort messages; `again` leaves it to the next turn.
  void advance(const Channel& channel);

  // Tells the neighbours from now on; the first call counts.
  void revoke(const AbortNotice& notice);

  // The completion of one of its operations. Returns the notice when it is the first.
  std::optional<AbortNotice> on_completion(const Mark& mark, const Completion& completion);

  // Listens no more; still tells.
  void retire() noexcept { retired_ = true; }

  [[nodiscard]] bool revoked() const noexcept { return revoked_; }
  [[nodiscard]] bool held_back() const noexcept { return held_back_; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return untold() + sends_to_dead_ + listeners();
  }
  // Abort messages to the living that have still to be sent or to complete.
  [[nodiscard]] std::uint32_t untold() const noexcept {
    return sends_ + (revoked_ ? static_cast<std::uint32_t>(neighbours_.size() - next_) : 0);
  }

 private:
  struct Listener {
    bool posted = false;
    bool cancel_asked = false;
    OperationId operation = kNoOperation;
  };
  static constexpr std::uint32_t kAborts = 0;      // index of the listener for abort messages
  static constexpr std::uint32_t kStragglers = 1;  // of the one for all else

  [[nodiscard]] std::uint32_t listeners() const noexcept;
  void listen(const Channel& channel, std::uint32_t index);
  void cancel_listeners(const Channel& channel);
  void tell(const Channel& channel);

  std::vector<Rank> neighbours_;
  std::size_t next_ = 0;  // of the neighbours to be told
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
