// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/fault/fault_spec.hpp"

#include <string>

#include "test/engine/driver/nic_user.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using engine::FaultActions;
using engine::FaultSettings;
using proto::microseconds;
using proto::NicEvent;

FaultSettings parsed(std::string_view spec, FaultSettings settings = {}) {
  FaultActions actions;
  const auto error = engine::parse_fault_spec(spec, settings, actions);
  INFO(spec);
  if (error) FAIL(error->word << " " << error->reason);
  return settings;
}

FaultActions actions_of(std::string_view spec) {
  FaultSettings settings;
  FaultActions actions;
  REQUIRE_FALSE(engine::parse_fault_spec(spec, settings, actions));
  return actions;
}

}  // namespace

TEST_CASE("fault spec: every word sets what it names") {
  CHECK(parsed("loss=0.001").tx.loss == 0.001);
  CHECK(parsed("loss=1e-3").tx.loss == 0.001);
  CHECK(parsed("loss=1").tx.loss == 1);
  const FaultSettings burst = parsed("burst-loss=0.01/0.25");
  CHECK(burst.tx.burst_enter == 0.01);
  CHECK(burst.tx.burst_leave == 0.25);
  CHECK(burst.tx.burst_loss == 1);
  CHECK(parsed("burst-loss=0.01/0.25/0.5").tx.burst_loss == 0.5);
  CHECK(parsed("duplicate=0.01").tx.duplicate == 0.01);
  CHECK(parsed("reorder=0.05").tx.reorder == 0.05);
  CHECK(parsed("reorder=0.05").tx.reorder_depth == 3);
  CHECK(parsed("reorder=0.05/12").tx.reorder_depth == 12);
  CHECK(parsed("delay=100us").tx.delay == microseconds(100));
  CHECK(parsed("delay=100us/20us").tx.jitter == microseconds(20));
  CHECK(parsed("delay=1.5ms").tx.delay == microseconds(1500));
  CHECK(parsed("delay=2s").tx.delay == microseconds(2'000'000));
  CHECK(parsed("delay=7ns").tx.delay == proto::nanoseconds(7));
  CHECK(parsed("delay=0").tx.delay == microseconds(0));
  CHECK(parsed("corrupt=0.5").tx.corrupt == 0.5);
  CHECK(parsed("truncate=0.5").tx.truncate == 0.5);
  CHECK(parsed("rate=1000000").tx.rate_bytes_per_s == 1'000'000);
  CHECK(parsed("late-reap=5us").late_reap == microseconds(5));
  CHECK(parsed("partial-burst=0.3").partial_burst == 0.3);
  CHECK(parsed("kill").dead);
  CHECK_FALSE(parsed("kill,revive").dead);
  CHECK(actions_of("seed=18446744073709551615").seed == ~std::uint64_t{0});
  CHECK(actions_of("kill:event").event == NicEvent::Kind::down);
  CHECK(actions_of("kill:event,revive:event").event == NicEvent::Kind::up);
  CHECK_FALSE(actions_of("kill,revive").event);
  CHECK_FALSE(parsed("kill,revive:moved").dead);
  CHECK(actions_of("kill,revive:moved").event == NicEvent::Kind::up);
  CHECK(actions_of("revive:moved").moves);
  CHECK_FALSE(actions_of("revive:event").moves);
}

TEST_CASE("fault spec: a direction before the word, tx if there is none") {
  const FaultSettings s =
      parsed("rx.loss=0.1,tx.loss=0.2,rx.rate=5,rx.delay=1us/2us,rx.reorder=1/9");
  CHECK(s.rx.loss == 0.1);
  CHECK(s.tx.loss == 0.2);
  CHECK(s.rx.rate_bytes_per_s == 5);
  CHECK(s.tx.rate_bytes_per_s == 0);
  CHECK(s.rx.jitter == microseconds(2));
  CHECK(s.rx.reorder_depth == 9);
  CHECK(s.tx.reorder == 0);
}

TEST_CASE("fault spec: black holes face either way") {
  const auto holes = [](std::string_view spec) {
    const FaultSettings s = parsed(spec, parsed("blackhole=both"));
    return std::pair(s.tx.blackhole, s.rx.blackhole);
  };
  CHECK(holes("") == std::pair(true, true));
  CHECK(holes("blackhole=tx") == std::pair(true, false));
  CHECK(holes("blackhole=rx") == std::pair(false, true));
  CHECK(holes("blackhole=none") == std::pair(false, false));
}

TEST_CASE("fault spec: what is not named stays, and clear clears all but death") {
  const FaultSettings first = parsed("loss=0.1,delay=5us/1us,rx.corrupt=0.2,kill");
  const FaultSettings second = parsed("loss=0.3", first);
  CHECK(second.tx.loss == 0.3);
  CHECK(second.tx.delay == microseconds(5));
  CHECK(second.rx.corrupt == 0.2);
  CHECK(second.dead);
  CHECK(parsed("delay=6us", first).tx.jitter == microseconds(0));
  const FaultSettings third = parsed("clear,duplicate=0.5", second);
  CHECK(third.tx.loss == 0);
  CHECK(third.rx.corrupt == 0);
  CHECK(third.tx.duplicate == 0.5);
  CHECK(third.dead);
  CHECK(parsed("rate=none", parsed("rate=5")).tx.rate_bytes_per_s == 0);
}

TEST_CASE("fault spec: an error names the word, and nothing changes") {
  for (const std::string_view bad : {"lose=0.1",
                                     "loss",
                                     "loss=",
                                     "loss=x",
                                     "loss=1.5",
                                     "loss=-0.1",
                                     "loss=nan",
                                     "loss=0.1x",
                                     "loss=0.1/2",
                                     "tx.kill",
                                     "rx.blackhole=tx",
                                     "tx.late-reap=1us",
                                     "burst-loss=0.1",
                                     "burst-loss=0.1/",
                                     "burst-loss=0.1/2",
                                     "burst-loss=0.1/0.2/0.3/0.4",
                                     "reorder=0.1/0",
                                     "reorder=0.1/5000",
                                     "reorder=0.1/x",
                                     "delay=5",
                                     "delay=5m",
                                     "delay=us",
                                     "delay=-1us",
                                     "delay=2h",
                                     "delay=3601s",
                                     "delay=1us/",
                                     "rate=0",
                                     "rate=-5",
                                     "rate=1.5",
                                     "rate=2000000000000",
                                     "blackhole=yes",
                                     "seed=",
                                     "seed=-1",
                                     "kill:",
                                     "kill:now",
                                     "=",
                                     "=1",
                                     " loss=0.1",
                                     "",
                                     "partial-burst=2",
                                     "corrupt=inf"}) {
    const std::string spec = "duplicate=0.5,seed=3,kill:event," + std::string(bad) + ",loss=0.9";
    FaultSettings settings = parsed("loss=0.25");
    FaultActions actions;
    const auto error = engine::parse_fault_spec(spec, settings, actions);
    INFO(spec);
    REQUIRE(error);
    CHECK(error->word == bad);
    CHECK_FALSE(error->reason.empty());
    CHECK(settings.tx.loss == 0.25);
    CHECK(settings.tx.duplicate == 0);
    CHECK_FALSE(settings.dead);
    CHECK_FALSE(actions.seed);
    CHECK_FALSE(actions.event);
  }
  FaultSettings settings;
  FaultActions actions;
  CHECK(engine::parse_fault_spec("loss=0.1,", settings, actions));
  CHECK_FALSE(engine::parse_fault_spec("", settings, actions));
}

TEST_CASE("fault spec: whatever the bytes, an error or settings within their ranges") {
  for_each_seed(50, [](proto::Random& random) {
    constexpr std::string_view kPieces[] = {
        "loss", "burst-loss", "duplicate", "reorder", "delay",  "corrupt", "truncate", "blackhole",
        "rate", "late-reap",  "seed",      "kill",    ":event", "revive",  "clear",    "=",
        ",",    "/",          ".",         "rx.",     "tx.",    "0",       "1",        "9",
        "e",    "-",          "us",        "ms",      "s",      "none",    "both",     "inf",
        "nan",  "0x",         "\xff",      " "};
    for (int round = 0; round < 400; ++round) {
      std::string spec;
      for (std::uint64_t n = random.below(12); n-- > 0;) {
        spec += kPieces[random.below(std::size(kPieces))];
      }
      FaultSettings settings;
      FaultActions actions;
      const auto error = engine::parse_fault_spec(spec, settings, actions);
      INFO(spec);
      for (const auto& faults : {settings.tx, settings.rx}) {
        for (const double p :
             {faults.loss, faults.burst_enter, faults.burst_leave, faults.burst_loss,
              faults.duplicate, faults.reorder, faults.corrupt, faults.truncate}) {
          REQUIRE((p >= 0 && p <= 1));
        }
        REQUIRE(faults.reorder_depth >= 1);
        REQUIRE(faults.delay.ns >= 0);
        REQUIRE(faults.jitter.ns >= 0);
      }
      // The word is a part of the specification.
      if (error) REQUIRE(spec.find(std::string(error->word)) != std::string::npos);
    }
  });
}

TEST_CASE("fault spec: no damage where it would be believed") {
  proto::NicCaps trusted;
  trusted.needs_checksum = false;
  proto::NicCaps checked;
  CHECK_FALSE(engine::find_unsupported(parsed("corrupt=0.1"), checked));
  REQUIRE(engine::find_unsupported(parsed("corrupt=0.1"), trusted));
  CHECK(engine::find_unsupported(parsed("rx.corrupt=0.1"), trusted)->word == "corrupt");
  CHECK_FALSE(engine::find_unsupported(parsed("truncate=0.1,loss=1"), trusted));
}

}  // namespace hawser::test
