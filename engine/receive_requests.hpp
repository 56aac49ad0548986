// SPDX-License-Identifier: Apache-2.0
// Turns the arguments of hawser::Endpoint's receive calls into protocol requests. The operation has
// no name yet.
#pragma once

#include "proto/endpoint.hpp"

namespace hawser::engine {

[[nodiscard]] inline proto::ReceiveRequest receive_request(PeerId peer, std::uint16_t context,
                                                           std::uint64_t tag, std::uint64_t mask,
                                                           void* data, std::uint64_t bytes,
                                                           const ReceiveOptions& options) {
  return {.peer = peer,
          .context = context,
          .tag = tag,
          .mask = mask,
          .data = static_cast<std::byte*>(data),
          .bytes = bytes,
          .options = options};
}

[[nodiscard]] inline proto::ReceiveRequest claimed_request(MessageId message, void* data,
                                                           std::uint64_t bytes,
                                                           const ReceiveOptions& options) {
  return {.data = static_cast<std::byte*>(data),
          .bytes = bytes,
          .options = options,
          .claimed = message};
}

}  // namespace hawser::engine
