// SPDX-License-Identifier: Apache-2.0
// The property that every accepted packet must have: written again it parses to an equal view.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proto/wire/packet.hpp"

namespace hawser::test {

// Every field that a view shows, in order; reserved bytes, `checksum` and `hwords` left out (the
// writer zeroes the first and computes the others). Equal views give equal results.
[[nodiscard]] std::vector<std::uint64_t> flatten(const proto::wire::PacketView& packet);

// Writes what the view shows into `buffer` and returns the whole datagram, payload included.
// Unknown blocks are left out. The headers of `packet` are at most PacketBuffer::kBytes.
[[nodiscard]] std::vector<std::byte> reencode(const proto::wire::PacketView& packet,
                                              bool with_checksum);

// Parses; if accepted, reads all of the view and checks that reencode gives a packet with an equal
// view, whose second encoding is the same bytes as the first. Aborts if not.
//   Returns whether the datagram was accepted.
bool check_round_trip(std::span<const std::byte> datagram, proto::Queue queue, bool check_checksum);

}  // namespace hawser::test
