// SPDX-License-Identifier: Apache-2.0
// The property of every accepted packet: written again, it parses to an equal view.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/wire/packet.hpp"

namespace hawser::test {

// Every field that a view shows, in order, without the reserved bytes (the writer zeroes them) and
// without `checksum` and `hwords` (it computes them). Equal views give equal results.
[[nodiscard]] std::vector<std::uint64_t> flatten(const proto::wire::PacketView& packet);

// Writes what the view shows into `buffer`, without unknown blocks. Returns the whole datagram,
// payload included. The headers of `packet` are at most PacketBuffer::kBytes.
[[nodiscard]] std::vector<std::byte> reencode(const proto::wire::PacketView& packet,
                                              bool with_checksum);

// Parses the datagram. If it is accepted, reads all of the view and writes it with reencode. The
// result must parse to an equal view, and written once more give the same bytes; else this aborts.
//   Returns whether the datagram was accepted.
bool check_round_trip(std::span<const std::byte> datagram, proto::Queue queue, bool check_checksum);

}  // namespace hawser::test
