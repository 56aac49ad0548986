// SPDX-License-Identifier: Apache-2.0
// Turns requests of the public API into those of the protocol. The operation has no name yet.
#pragma once

#include "hawser/types.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

// Whether the request names a channel of its owner's.
template <class Request>
[[nodiscard]] bool names_own_channel(const Request& request) {
  return owner_of(request.channel) == request.owner;
}

// Whether the request has one buffer, or a list of pieces, with at most so many bytes in all.
template <class Request>
[[nodiscard]] bool has_memory(const Request& request, std::uint64_t most_bytes) {
  const auto is_there = [](const auto& place) { return place.data != nullptr || place.bytes == 0; };
  if (request.pieces.empty()) return is_there(request) && request.bytes <= most_bytes;
  if (request.data != nullptr || request.bytes > 0 || request.pieces.size() > kMostPieces) {
    return false;
  }
  std::uint64_t left = most_bytes;
  for (const auto& piece : request.pieces) {
    if (!is_there(piece) || piece.bytes > left) return false;
    left -= piece.bytes;
  }
  return true;
}

// Whether the request can be one, whatever the state of the endpoint.
[[nodiscard]] inline bool is_valid(const SendRequest& request) {
  return has_memory(request, kMaxMessageBytes) && request.level <= Level::delivered &&
         names_own_channel(request);
}
[[nodiscard]] inline bool is_valid(const ReceiveRequest& request) {
  return has_memory(request, ~std::uint64_t{0}) && names_own_channel(request);
}
[[nodiscard]] inline bool is_valid(const ClaimedRequest& request) {
  return has_memory(request, ~std::uint64_t{0});
}

[[nodiscard]] inline proto::SendRequest to_protocol(const SendRequest& request) {
  return {.peer = request.peer,
          .channel = request.channel,
          .tag = request.tag,
          .data = static_cast<const std::byte*>(request.data),
          .bytes = request.bytes,
          .options = {.level = request.level,
                      .immediate = request.immediate,
                      .user_data = request.user_data,
                      .hint = request.hint}};
}

[[nodiscard]] inline proto::ReceiveRequest to_protocol(const ReceiveRequest& request) {
  return {.peer = request.peer,
          .channel = request.channel,
          .tag = request.tag,
          .mask = ~request.ignore,
          .data = static_cast<std::byte*>(request.data),
          .bytes = request.bytes,
          .options = {.user_data = request.user_data, .hint = request.hint}};
}

[[nodiscard]] inline proto::ReceiveRequest to_protocol(MessageId message,
                                                       const ClaimedRequest& request) {
  return {.data = static_cast<std::byte*>(request.data),
          .bytes = request.bytes,
          .options = {.user_data = request.user_data, .hint = request.hint},
          .claimed = message};
}

}  // namespace hawser::engine
