// SPDX-License-Identifier: Apache-2.0
// Packets for tests of the codec and seeds for its fuzzer.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "proto/wire/packet.hpp"

namespace hawser::test {

// A datagram in an allocation of exactly its size, so that a sanitizer notices a read beyond it.
struct Sample {
  std::string name;
  proto::Queue queue = proto::Queue::data;
  std::vector<std::byte> bytes;
};

// At least one well-formed packet of every type, with every kind of block, with every set of flags
// of a WRITE, and with every operation of an ATOMIC. Checksums are set.
[[nodiscard]] std::vector<Sample> wire_samples();

// A well-formed packet of a random type with random fields, blocks and payload, and the right
// checksum.
[[nodiscard]] Sample random_packet(std::mt19937_64& random);

// Corrects the checksum of a datagram of at least 32 bytes, whatever else is wrong with it.
void fix_checksum(std::span<std::byte> datagram);

}  // namespace hawser::test
