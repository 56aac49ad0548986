// SPDX-License-Identifier: Apache-2.0
// The judge's rule about probes that follow each other too fast.
#include <catch2/catch.hpp>

#include "sim/storm/chatter.hpp"

namespace hawser::test {
namespace {

using proto::Duration;
using proto::microseconds;

constexpr Duration kShortest = microseconds(200);

// Whether the judge finds these probes too many: `times` of them, `gap` apart, over `paths` paths
// in turn.
bool complains(sim::Chatter& chatter, Duration gap, int times, std::uint8_t paths = 1,
               bool anew = false) {
  bool any = false;
  proto::Time now{1};
  for (int i = 0; i < times; ++i) {
    TraceRecord probe;
    probe.kind = TraceKind::path_probe;
    probe.peer = 1;
    probe.slot = static_cast<std::uint8_t>(i % paths);
    probe.generation = static_cast<std::uint8_t>(anew ? i : 0);
    now = now + gap;
    any |= !chatter.on_probe(probe, now, kShortest).empty();
  }
  return any;
}

TEST_CASE("chatter__is_to_ask_one_path_again_and_again") {
  sim::Chatter chatter;
  CHECK_FALSE(complains(chatter, microseconds(99), 255));
  chatter.restart();
  CHECK(complains(chatter, microseconds(99), 256));
  CHECK_FALSE(complains(chatter, microseconds(101), 5000));
}

TEST_CASE("chatter__is_not_to_ask_many_paths") {
  sim::Chatter chatter;
  CHECK_FALSE(complains(chatter, microseconds(13), 5000, 8));
  chatter.restart();
  CHECK_FALSE(complains(chatter, microseconds(10), 5000, 1, true));
}

}  // namespace
}  // namespace hawser::test
