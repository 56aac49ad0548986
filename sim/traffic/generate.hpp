// SPDX-License-Identifier: Apache-2.0
// Traffic by its kind and numbers: a plan uses it in place of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

struct Traffic {
  enum class Kind : std::uint8_t {
    ring,         // all-reduce: reduce-scatter and all-gather around a ring
    butterfly,    // all-reduce by recursive halving and doubling
    doubling,     // all-reduce by recursive doubling
    all_to_all,   // each node to each, in windows
    incast,       // many to one, several times side by side
    permutation,  // each node to one other, and from one other
    moe,          // mixture of experts: tokens to the experts that were drawn for them, and back
    background,   // messages at random times
  };
  enum class Sizes : std::uint8_t {
    fixed,        // `bytes`
    exponential,  // with `bytes` as their mean; from 1 byte to kMostMeans means
    web_search,   // 1 to 30,000,000 as in DCTCP's cluster: the table that HPCC's generator has
  };

  static constexpr std::uint64_t kMostMeans = 64;

  Kind kind = Kind::ring;
  std::uint32_t nodes = 2;
  // The length of an all-reduce's vector, or else of a message. For moe it is that of a token; for
  // background, the number that `sizes` uses.
  std::uint64_t bytes = 0;
  std::uint32_t rounds = 1;  // of collectives (the first four and moe): one after the other

  std::uint32_t channels = 1;   // ring: pieces of each block, which go side by side
  std::uint32_t window = 0;     // all_to_all: messages in flight from each node; 0: all at once
  bool shuffled = false;        // all_to_all: the order of receivers is drawn, as in REPS's files
  std::uint32_t senders = 0;    // incast: to each receiver; 0: all nodes that don't receive
  std::uint32_t receivers = 1;  // incast: nodes 0, 1 ...; senders are shared out among them

  std::uint32_t experts = 0;  // moe: expert i is at node i mod nodes; 0: as many as nodes
  std::uint32_t tokens = 0;   // moe: of each node in a round
  std::uint32_t top = 2;      // moe: experts of a token, all different
  double skew = 0;            // moe: the i-th most popular expert is drawn as often as i^-skew
  Span compute{};             // moe: from dispatch to combine

  double load = 0;               // background: of each node's link, in bytes of messages
  std::uint64_t bits_per_s = 0;  // background: of that link
  Span duration{};               // background: messages start before it is over
  Sizes sizes = Sizes::fixed;    // background
};

// The matrix for these numbers and this seed, always the same. The seed doesn't matter to kinds
// that draw nothing. Throws InputError with a sentence that says what is impossible and what would
// do.
[[nodiscard]] ConnectionMatrix generate(const Traffic& traffic, std::uint64_t seed);

// The names in plans.
[[nodiscard]] std::string_view name_of(Traffic::Kind kind);
[[nodiscard]] std::string_view name_of(Traffic::Sizes sizes);
[[nodiscard]] std::optional<Traffic::Kind> kind_named(std::string_view name);
[[nodiscard]] std::optional<Traffic::Sizes> sizes_named(std::string_view name);

}  // namespace hawser::fabric
