// SPDX-License-Identifier: Apache-2.0
// Where a message lies that does not lie in one place: a list of pieces, in order.
//
// The list belongs to the operation. Whoever gives the protocol an operation keeps its list until
// the operation has completed and is released.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "hawser/types.hpp"
#include "proto/base/assert.hpp"

namespace hawser::proto {

template <class Piece>
struct PieceList {
  std::array<Piece, kMostPieces> pieces{};
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;  // of all pieces

  // The caller has checked that the request has no more than kMostPieces.
  void assign(std::span<const Piece> from) {
    HAWSER_ASSERT(from.size() <= kMostPieces);
    std::ranges::copy(from, pieces.begin());
    count = static_cast<std::uint32_t>(from.size());
    bytes = 0;
    for (const Piece& piece : from) bytes += piece.bytes;
  }

  // Visits where `size` bytes from `begin` on lie, as visit(piece index, address, bytes), in order.
  // It leaves out what lies beyond the end of the list.
  template <class Visit>
  void for_each_run(std::uint64_t begin, std::uint64_t size, Visit&& visit) const {
    for (std::uint32_t i = 0; i < count && size > 0; ++i) {
      const Piece& piece = pieces[i];
      if (begin >= piece.bytes) {
        begin -= piece.bytes;
        continue;
      }
      const std::uint64_t run = std::min(size, piece.bytes - begin);
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(piece.data)>>,
                                      const std::byte, std::byte>;
      visit(i, static_cast<Byte*>(piece.data) + begin, static_cast<std::size_t>(run));
      size -= run;
      begin = 0;
    }
  }
};

// The memory that a send reads. A packet needs its payload in one place, so a fragment that begins
// in one piece and ends in another is copied into its packet's buffer. One that is too long for
// that is copied into a joint (proto/message/joints.hpp).
struct GatherList : PieceList<SendPiece> {
  std::array<std::uint32_t, kMostPieces - 1> joints{};  // one for each piece but the last
  std::uint32_t joint_count = 0;
  std::uint32_t filled = 0;  // bits of the joints that have their fragment's bytes
};

// The memory that a receive writes.
struct ScatterList : PieceList<ReceivePiece> {
  void put(std::uint64_t begin, std::span<const std::byte> from) const {
    for_each_run(begin, from.size(), [&](std::uint32_t, std::byte* to, std::size_t size) {
      std::memcpy(to, from.data(), size);
      from = from.subspan(size);
    });
  }
};

}  // namespace hawser::proto
