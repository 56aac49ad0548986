// SPDX-License-Identifier: Apache-2.0
// What the caller of an endpoint says of a send or a receive.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hawser/types.hpp"
#include "proto/base/pieces.hpp"
#include "proto/options.hpp"

namespace hawser::proto {

// The caller names operations. The low 32 bits are an index below max_operations that no live
// operation has; the high 32 bits are free. The completion returns the name. Then the index is
// free.
struct SendRequest {
  OperationId operation = kNoOperation;
  PeerId peer = kAnyPeer;
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  SendOptions options{};
  bool readable = true;  // false: the bytes are in a device's memory, which only NICs may read
  GatherList* pieces = nullptr;  // of all `bytes`, instead of `data`; stays until the release
};

struct ReceiveRequest {
  OperationId operation = kNoOperation;
  PeerId peer = kAnyPeer;
  std::uint16_t channel = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  ReceiveOptions options{};
  MessageId claimed = kNoMessage;       // takes this message; peer, channel, tag, mask mean nothing
  const ScatterList* pieces = nullptr;  // for all `bytes`, instead of `data`; stays until the end
};

}  // namespace hawser::proto
