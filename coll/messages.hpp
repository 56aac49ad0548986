// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, which the caller sends and receives himself.
//
// Each has a place: free -> posted -> ended -> free. It has ended with its operation's first
// completion, and is free when the caller has been told. One that has failed keeps its place, as
// the communicator is revoked. No place is made beyond the most that were in use at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coll/channel.hpp"

namespace hawser::coll {

class Messages {
 public:
  explicit Messages(std::uint32_t most) : most_(most) {
    places_.reserve(most);
    free_.reserve(most);
  }

  // `ok`: `place` and `generation` name the message. Otherwise the endpoint's status, or `again`.
  [[nodiscard]] Status send(const Channel& channel, const void* data, std::uint64_t bytes, Rank to,
                            std::uint32_t tag, Request& name);
  [[nodiscard]] Status receive(const Channel& channel, void* data, std::uint64_t bytes, Rank from,
                               std::uint32_t tag, Request& name);

  [[nodiscard]] std::optional<Failure> on_completion(const Channel& channel, const Mark& mark,
                                                     const Completion& completion);

  // `again`: it is posted. Otherwise it has told the message's end, and frees the place.
  [[nodiscard]] Status test(const Request& name, Received* received);
  // Whether the buffer is the caller's.
  [[nodiscard]] bool released(const Request& name) const noexcept;

  // Asks to cancel what is posted, each operation once, in several calls if need be.
  void cancel(const Channel& channel);

  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  // Whether a receive from any rank is posted.
  [[nodiscard]] bool awaits_any() const noexcept { return wildcards_ > 0; }

 private:
  enum class State : std::uint8_t { free, posted, ended };
  struct Place {
    std::uint32_t generation = 0;
    State state = State::free;
    Status status = Status::ok;
    bool is_receive = false;
    bool in_flight = false;
    bool cancel_asked = false;
    OperationId operation = kNoOperation;
    Rank other = 0;
    Received received{};
  };

  [[nodiscard]] std::optional<std::uint32_t> take();
  void give_back(std::uint32_t index);
  [[nodiscard]] std::uint64_t user_data(const Channel& channel, std::uint32_t index) const noexcept;
  [[nodiscard]] Status posted(std::uint32_t index, Status status, OperationId operation,
                              Request& name);
  [[nodiscard]] const Place* find(const Request& name) const noexcept;

  std::uint32_t most_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t wildcards_ = 0;
};

}  // namespace hawser::coll
