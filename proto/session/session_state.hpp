// SPDX-License-Identifier: Apache-2.0
// The states of a session with a peer (docs/internals/protocol.md §6).
#pragma once

#include <cstdint>

namespace hawser::proto {

enum class SessionState : std::uint8_t { idle, calling, answered, ready, failed };

}  // namespace hawser::proto
