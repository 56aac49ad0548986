// SPDX-License-Identifier: Apache-2.0
// The lists of sends from and receives to several pieces, one place for each operation. Callers
// keep no list: the endpoint copies it here, and the protocol reads it until the operation is
// released.
//
// One thread at a time uses the place of an operation: the one that holds the operation.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "engine/operation_id.hpp"
#include "hawser/types.hpp"
#include "proto/base/pieces.hpp"
#include "proto/base/untouched.hpp"
#include "proto/endpoint.hpp"

namespace hawser::engine {

class PieceLists {
 public:
  explicit PieceLists(std::size_t max_operations)
      : gathers_(max_operations), scatters_(max_operations) {}

  // Copies the list, if there is one, and lets the request name it. Without a name for its
  // operation the request can't be accepted, and needs no list.
  void keep(proto::SendRequest& asked, std::span<const SendPiece> pieces) {
    keep(gathers_, asked, pieces);
  }
  void keep(proto::ReceiveRequest& asked, std::span<const ReceivePiece> pieces) {
    keep(scatters_, asked, pieces);
  }

 private:
  template <class List, class Asked, class Piece>
  static void keep(proto::Untouched<List>& lists, Asked& asked, std::span<const Piece> pieces) {
    if (pieces.empty() || asked.operation == kNoOperation) return;
    List& list = *std::construct_at(&lists[index_of(asked.operation)]);
    list.assign(pieces);
    asked.pieces = &list;
    asked.bytes = list.bytes;
  }

  // By operation. The system backs only what was used.
  proto::Untouched<proto::GatherList> gathers_;
  proto::Untouched<proto::ScatterList> scatters_;
};

}  // namespace hawser::engine
