// SPDX-License-Identifier: Apache-2.0
// What an intruder makes of frames that it has heard, and what a switch makes of one that it spoils
// and then gives a new checksum: datagrams that say something that can't be.
//
// A receiver owes it to everybody to drop what is told here, whatever it knows: by itself (lengths,
// versions, types, ranges), for its name, token or MAC, or for what it has of the session. What it
// can't tell from the truth is not told: who knows a session's token may end its messages, and
// docs/security.md says so.
#pragma once

#include <cstdint>

#include "proto/base/random.hpp"
#include "sim/core/frame.hpp"

namespace hawser::sim {

// It begins a session, or ends one.
[[nodiscard]] bool is_of_session(const Frame& frame);

// What an endpoint sends is well formed, and there are words for it.
void overhear(Frame& frame);

// Changes something of the frame's headers and makes its checksum right, if it has one.
// `signed_frames`: there is a secret, so that headers of session packets can't be changed at all.
void tell_lie(proto::Random& random, bool signed_frames, Frame& frame);

// A HELLO that its sender doesn't mean: nobody listens for the answer.
struct StrangeHello {
  std::uint64_t sender_id = 0;
  std::uint64_t target_id = 0;
  std::uint32_t address = 0;  // that the answer goes to
  bool checksum = true;
};
void write_hello(proto::Random& random, const StrangeHello& hello, Frame& frame);

}  // namespace hawser::sim
