// SPDX-License-Identifier: Apache-2.0
// An endpoint in each of its forms, and a peer, for the table of statuses (statuses_test.cpp).
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "test/engine/c_endpoint.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {

inline constexpr PeerId kStranger{7};

struct Variant {
  unsigned threads = 0;
  bool in_c = false;
  friend std::ostream& operator<<(std::ostream& out, const Variant& variant) {
    return out << (variant.in_c ? "C, " : "C++, ") << variant.threads << " threads";
  }
};

inline Tunables low_limits() {
  Tunables tunables = short_close();
  tunables.max_peers = 1;
  tunables.max_operations = 16;
  tunables.max_messages_per_peer = 4;
  tunables.max_registrations = 1;
  return tunables;
}

// The endpoint under test, and one with inline progress that it knows. The far one therefore does
// nothing while nobody polls it.
class Scene {
 public:
  explicit Scene(const Variant& variant)
      : fabric_(nic_names({"memory", 0}, 0, 1)),
        engine_({fabric_, variant.threads, low_limits(), "loss=0"}),
        far_engine_({fabric_, 0, short_close()}),
        subject_(engine_.create_endpoint({})),
        far_(far_engine_.create_endpoint({})) {
    if (variant.in_c) subject_ = std::make_unique<test::CEndpoint>(std::move(subject_));
    REQUIRE(subject_->connect(far_->address(), peer) == Status::ok);
    REQUIRE(far_->connect(subject_->address(), subject_of_far_) == Status::ok);
  }

  PeerId peer = kAnyPeer;
  std::array<std::byte, 64> bytes{};
  OperationId operation = kNoOperation;
  Envelope envelope{};
  MessageId message = kNoMessage;
  RegistrationId registration = kNoRegistration;

  [[nodiscard]] Endpoint& subject() { return *subject_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] const Address& far_address() { return far_->address(); }
  [[nodiscard]] std::unique_ptr<Endpoint> third() { return far_engine_.create_endpoint({}); }

  // The status of an operation: that of the call, or of its completion if the call accepted it.
  Status outcome(Status called) {
    if (called != Status::ok) return called;
    const Completion completion = next_of(*subject_, *far_);
    REQUIRE(completion.operation == operation);
    return completion.status;
  }
  void send_from_far(std::uint64_t tag, std::uint64_t length) {
    far_bytes_.resize(length);
    OperationId sent = kNoOperation;
    REQUIRE(far_->send(
                {.peer = subject_of_far_, .tag = tag, .data = far_bytes_.data(), .bytes = length},
                sent) == Status::ok);
  }
  // Lets a message arrive unmatched.
  void let_arrive(std::uint64_t tag, std::uint64_t length) {
    send_from_far(tag, length);
    REQUIRE(becomes([&] { return subject_->probe({.tag = tag}, envelope) == Status::ok; }));
  }
  void claim_one() {
    let_arrive(1, 8);
    REQUIRE(subject_->claim({.tag = 1}, envelope, message) == Status::ok);
  }
  // Posts receives until no operation is left.
  void use_up_operations() {
    Status status = Status::ok;
    while (status == Status::ok) status = subject_->receive({.tag = 99}, operation);
    REQUIRE(status == Status::again);
  }
  void close_far() {
    REQUIRE(becomes([&] { return is_established(); }));
    far_->close();
    REQUIRE(becomes([&] {
      return subject_->probe({.peer = peer, .tag = 98}, envelope) == Status::peer_closed;
    }));
  }
  // The key of memory that the far end exposes. The session is established when this returns.
  [[nodiscard]] RegionKey far_key() {
    RegionId region = kNoRegion;
    RegionKey key;
    REQUIRE(far_->expose({.data = far_words_.data(), .bytes = 64, .access = RegionAccess::all},
                         region) == Status::ok);
    REQUIRE(far_->region_key(region, key) == Status::ok);
    let_arrive(97, 8);
    return key;
  }
  template <class Condition>
  [[nodiscard]] bool becomes(Condition&& condition) {
    for (const HangLimit limit; !condition();) {
      if (limit.is_over()) return condition();
      std::array<Completion, 4> completions;
      (void)subject_->wait(completions, 100'000);
      (void)far_->poll(completions);
    }
    return true;
  }

 private:
  [[nodiscard]] bool is_established() {
    PeerStats stats;
    return far_->peer_stats(subject_of_far_, stats) == Status::ok && stats.established;
  }

  std::vector<std::string> fabric_;
  Engine engine_;
  Engine far_engine_;
  std::unique_ptr<Endpoint> subject_;
  std::unique_ptr<Endpoint> far_;
  PeerId subject_of_far_ = kAnyPeer;
  std::vector<std::byte> far_bytes_;
  std::array<std::uint64_t, 8> far_words_{};
};

using Provoke = std::function<Status(Scene&)>;
struct Row {
  std::string call;
  Status status = Status::ok;
  Provoke provoke;
};

}  // namespace hawser::engine
