// SPDX-License-Identifier: Apache-2.0
// Forged and spoiled datagrams that say something impossible. An intruder makes them from frames
// that it has overheard. A switch makes them when it spoils a frame and then gives it a new
// checksum.
//
// A receiver must drop every datagram that is made here, whatever it knows. It can tell by the
// datagram alone (lengths, versions, types, ranges), by its name, token or MAC, or by the session's
// state. Forgeries that no receiver can tell from the truth are not made here: whoever knows a
// session's token may end its messages, and docs/security.md says so.
#pragma once

#include <cstdint>

#include "proto/base/random.hpp"
#include "sim/core/frame.hpp"

namespace hawser::sim {

// Whether the frame begins or ends a session.
[[nodiscard]] bool is_of_session(const Frame& frame);

// Asserts that a frame that an endpoint sent is well formed and can be put in words.
void overhear(Frame& frame);

// Changes something in the frame's headers and makes its checksum right, if it has one.
// `signed_frames`: there is a secret, so headers of session packets can't be changed unnoticed.
void tell_lie(proto::Random& random, bool signed_frames, Frame& frame);

// A forged HELLO: nobody listens for the answer.
struct StrangeHello {
  std::uint64_t sender_id = 0;
  std::uint64_t target_id = 0;
  std::uint32_t address = 0;  // where the answer goes
  bool checksum = true;
};
void write_hello(proto::Random& random, const StrangeHello& hello, Frame& frame);

}  // namespace hawser::sim
