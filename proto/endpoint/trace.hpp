// SPDX-License-Identifier: Apache-2.0
// The common part of records for the caller's trace hook.
#pragma once

#include <cstdint>

#include "hawser/trace.hpp"
#include "proto/endpoint/peer.hpp"
#include "proto/message/incoming.hpp"

namespace hawser::proto {

[[nodiscard]] TraceRecord record_of(TraceKind kind, const Peer& peer);
[[nodiscard]] TraceRecord record_of(TraceKind kind, const Peer& peer,
                                    const IncomingMessage& message, std::uint32_t fragment);

}  // namespace hawser::proto
