// SPDX-License-Identifier: Apache-2.0
// Connects a rank to the rendezvous, which may have several addresses. The race tries them side by
// side, as RFC 8305 ("Happy Eyeballs") does, so an address that swallows packets costs no time. The
// first address at which the rendezvous itself answers wins.
//
// A connection alone proves nothing: an address of rank 0's host may also belong to this host
// (docker0 has the same address everywhere). Only the rendezvous answers HELLO with HERE.
//
// Timers of an attempt: `start_at` begins the next try at this address. `give_up_at` abandons a
// connection that is not established by then, and makes a new one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap_wire.hpp"
#include "engine/descriptor.hpp"
#include "proto/base/time.hpp"

namespace hawser::engine::bootstrap {

class Race {
 public:
  // `endpoints` are in order of preference. With `asks`, only an answer to HELLO with `nonce` wins;
  // without it, the first connection wins.
  Race(const std::vector<Endpoint>& endpoints, bool asks, std::uint64_t nonce);

  // Returns a connection to the rendezvous. Returns none if the deadline has passed, or if for a
  // while this host has had no route to any address. has_way() tells the two apart. May be called
  // again, to go on.
  [[nodiscard]] Descriptor run(proto::Time deadline);

  [[nodiscard]] bool has_way() const { return has_way_; }  // of the last run
  // Explains the failure for each address ("10.0.0.1:29400: Connection refused; ..."). A single
  // address is not named.
  [[nodiscard]] std::string reasons() const;

 private:
  enum class State : std::uint8_t { idle, connecting, asking };
  struct Attempt {
    Endpoint endpoint;
    State state = State::idle;
    bool was_started = false;
    bool is_other = false;  // another program answers there, not this rendezvous
    int code = 0;           // errno of the last failed try
    proto::Time start_at{};
    proto::Time give_up_at = proto::kNever;
    Descriptor socket;
    std::vector<std::byte> in;
  };

  void start(Attempt& attempt, proto::Time now);
  void fail(Attempt& attempt, int code, proto::Time now);
  void be_told_other(Attempt& attempt, proto::Time now);
  [[nodiscard]] bool take_connection(Attempt& attempt, proto::Time now);
  [[nodiscard]] bool ask(Attempt& attempt, proto::Time now);
  [[nodiscard]] bool take_answer(Attempt& attempt, proto::Time now);
  [[nodiscard]] bool step(Attempt& attempt, proto::Time now);
  void wait(proto::Time now, proto::Time deadline);
  [[nodiscard]] bool lacks_way(proto::Time now);
  [[nodiscard]] std::string reason_of(const Attempt& attempt) const;

  std::vector<Attempt> attempts_;
  bool asks_;
  std::uint64_t nonce_;
  bool has_way_ = true;
  proto::Time had_way_{};
};

}  // namespace hawser::engine::bootstrap
