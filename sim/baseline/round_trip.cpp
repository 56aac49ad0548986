// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline/round_trip.hpp"

namespace hawser::baseline {

using fabric::Pace;
using fabric::Span;

Span round_trip(const fabric::Wiring& wiring, const PacketSizes& sizes) {
  Span all;
  // Each upward cable stands for a downward one, too; both the packet and the ack take both.
  for (std::uint32_t link = wiring.from_port(0);; link = wiring.up(wiring.end(link), 0)) {
    const fabric::LinkSettings& up = wiring.settings(link);
    const fabric::LinkSettings& down = wiring.settings(wiring.back(link));
    for (const fabric::LinkSettings& one : {up, down}) {
      const Pace pace = Pace::of(one.bits_per_s);
      all = all + pace.time_of(sizes.most()) + pace.time_of(sizes.ack) + one.latency * 2;
    }
    if (wiring.at(wiring.end(link)).up == 0) return all;
  }
}

std::uint32_t round_trip_packets(const fabric::Wiring& wiring, const PacketSizes& sizes,
                                 std::uint64_t bytes) {
  const Pace pace = Pace::of(wiring.settings(wiring.from_port(0)).bits_per_s);
  const Span time = bytes > 0 ? pace.time_of(bytes) : round_trip(wiring, sizes);
  const std::int64_t packet = pace.time_of(sizes.most()).ps;
  return static_cast<std::uint32_t>((time.ps + packet - 1) / packet);
}

}  // namespace hawser::baseline
