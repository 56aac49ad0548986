// SPDX-License-Identifier: Apache-2.0
// What a caller asks of an operation beyond its message and buffer.
#pragma once

#include <cstdint>

#include "hawser/types.hpp"

namespace hawser::proto {

struct SendOptions {
  Level level = Level::accepted;
  std::uint64_t immediate = 0;
  std::uint64_t user_data = 0;
  Hint hint{};
};

struct ReceiveOptions {
  std::uint64_t user_data = 0;
  Hint hint{};
};

}  // namespace hawser::proto
