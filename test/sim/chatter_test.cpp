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

TEST_CASE("chatter__is_not_to_ask_for_each_fragment_that_is_lost") {
  sim::Chatter chatter;
  proto::Time now{1};
  const auto run = [&](std::uint32_t peer, Duration gap, int lost_every) {
    bool any = false;
    for (int i = 0; i < 1000; ++i) {
      TraceRecord record;
      record.peer = peer;
      record.slot = 0;
      now = now + gap;
      record.kind = TraceKind::path_probe;
      any |= !chatter.on_probe(record, now, kShortest).empty();
      record.slot = 1;  // another path lost it, or the same
      record.kind = TraceKind::packet_lost;
      if (i % lost_every == 0) chatter.on_loss(record);
    }
    return any;
  };
  CHECK_FALSE(run(1, microseconds(40), 1));
  CHECK(run(2, microseconds(40), 2));  // every second one was for nothing
}

}  // namespace
}  // namespace hawser::test
