// SPDX-License-Identifier: Apache-2.0
// How the ranks of a run come together: at its start, and again when one of them has been started
// anew. docs/internals/run_command.md describes all of it.
//
// A waiting rank makes progress, so that the engine answers others and leftovers of failed
// communication can end. It receives stray messages of that communication without room for them, as
// nobody else will.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hawser/collectives.hpp"
#include "hawser/engine.hpp"
#include "tool/run/options.hpp"

namespace hawser::tool {

// A round of a rendezvous. Both throw hawser::Error or ReplayError.
struct Exchange {
  using Blobs = std::vector<std::vector<std::byte>>;
  std::function<void(std::span<const std::byte> blob, std::uint32_t timeout_ms)> begin;
  std::function<std::optional<Blobs>()> poll;  // nothing until all ranks have begun
  Blobs last_round;  // set if this rank takes the place of one that is gone
};

// The contribution of a rank to a round.
struct Arrival {
  // The point at which the rank failed (see Replay). A rank that begins was nowhere.
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  Address address;
  std::uint64_t point = kNowhere;
  std::uint64_t generation = 0;  // of its next communicators
};
[[nodiscard]] std::vector<std::byte> encode(const Arrival& arrival);
// Throws Error.
[[nodiscard]] Arrival decode(std::span<const std::byte> blob);

class Gathering {
 public:
  // All arguments outlive it. It calls the function of on_tick() once a turn.
  Gathering(const RunOptions& options, std::uint32_t rank, const Exchange& exchange,
            coll::CompletionRouter& router, const volatile std::sig_atomic_t& interrupted);

  void on_tick(std::function<void()> tick) { tick_ = std::move(tick); }

  // The first meeting of this process. Throws Error or ReplayError.
  void meet();
  // After a failure at `point`, when communicators are gone: waits until nothing is in flight, then
  // for all other ranks. Throws ReplayError.
  void meet_again(std::uint64_t point);

  // By rank; this rank's own entry is not used.
  [[nodiscard]] const std::vector<PeerId>& peers() const { return peers_; }
  // The point from which all ranks go on.
  [[nodiscard]] std::uint64_t point() const { return point_; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

 private:
  void turn();
  void settle();
  void receive_strays();
  void exchange(std::uint64_t point, std::uint64_t generation, std::uint32_t timeout_ms);
  void connect(const std::vector<Arrival>& arrivals);

  const RunOptions& options_;
  std::uint32_t rank_;
  const Exchange& exchange_;
  coll::CompletionRouter& router_;
  const volatile std::sig_atomic_t& interrupted_;
  std::function<void()> tick_ = [] {};
  std::vector<PeerId> peers_;
  std::uint64_t point_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace hawser::tool
