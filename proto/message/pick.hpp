// SPDX-License-Identifier: Apache-2.0
// A fragment chosen for sending.
#pragma once

#include <cstdint>

#include "proto/base/slab.hpp"

namespace hawser::proto {

// Or the first of several messages of one fragment each; then `more` says how many follow it by
// number.
struct Pick {
  std::uint32_t message = kNoIndex;
  std::uint32_t fragment = 0;
  std::uint32_t more = 0;
  bool again = false;
  bool at_end = false;           // when it was written, all of its message had been picked
  bool carries_control = false;  // what was due to the peer rides on it
  std::uint8_t order = 0;        // among the picks for several paths
  std::uint8_t share = 0;        // of those paths: whose it is (Division)
};

}  // namespace hawser::proto
