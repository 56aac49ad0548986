// SPDX-License-Identifier: Apache-2.0
// A rank's way to the rendezvous among several addresses. It tries them side by side, as RFC 8305
// ("Happy Eyeballs") does, so that an address that swallows packets costs no time. It takes the
// first at which the rendezvous itself answers.
//
// A connection proves nothing: an address of rank 0's host may belong to the own host too, as
// docker0 has the same one everywhere. The rendezvous is who answers HELLO with HERE.
//
// Timers of an attempt: `start_at`, the next one at this address; `give_up_at`, a connection that
// hasn't come about by then is made anew.
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
  // Addresses in the order of preference. `asks`: only an answer to HELLO with `nonce` wins; else
  // the first connection does.
  Race(const std::vector<Endpoint>& endpoints, bool asks, std::uint64_t nonce);

  // A connection to the rendezvous. None: the deadline has passed, or this host has had no way to
  // any of the addresses for a while; has_way() says which.
  [[nodiscard]] Descriptor run(proto::Time deadline);

  [[nodiscard]] bool has_way() const { return has_way_; }
  // Why there was none: of each address, if there are several ("10.0.0.1:29400: Connection
  // refused; ..."), else of the only one.
  [[nodiscard]] std::string reasons() const;

 private:
  enum class State : std::uint8_t { idle, connecting, asking };
  struct Attempt {
    Endpoint endpoint;
    State state = State::idle;
    bool was_started = false;
    bool is_other = false;  // whoever answers there is not this rendezvous
    int code = 0;           // errno of the last one that failed
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
