// SPDX-License-Identifier: Apache-2.0
// Fills in what all plans of a kind have in common, and puts them in line.
#pragma once

#include <cstdint>

#include "coll/communicator_state.hpp"

namespace hawser::coll {

// One turn of a call that waits blocks at most this long. A completion ends it; it waits for
// nothing else.
inline constexpr std::uint64_t kWait_ns = 100'000'000;

inline Request launch_ring(CommunicatorState& state, Signature signature, RingArguments arguments) {
  const CommunicatorOptions& options = state.options();
  signature.options = digest_of(options);
  arguments.rank = state.channel().rank;
  arguments.ranks = state.channel().ranks();
  arguments.chunk_bytes = options.chunk_bytes;
  arguments.depth = options.pipeline;
  return state.launch(signature, RingPlan(arguments));
}

inline Request launch_rooted(CommunicatorState& state, Signature signature,
                             RootedArguments arguments) {
  signature.options = digest_of(state.options());
  arguments.rank = state.channel().rank;
  arguments.ranks = state.channel().ranks();
  return state.launch(signature, RootedPlan(arguments));
}

}  // namespace hawser::coll
