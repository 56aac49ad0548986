// SPDX-License-Identifier: Apache-2.0
// What an endpoint's statistics tell of one-sided operations.
#include <catch2/catch.hpp>
#include <string>

#include "test/protocol/one_sided_scene.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

TEST_CASE("one_sided__statistics_count_operations_at_both_ends", "[O1][O10]") {
  WorldConfig config;
  config.nics = 2;
  config.faults = "delay=5us,loss=0.05,duplicate=0.3,reorder=0.3";
  OneSidedScene at(config, 1 << 20);
  const std::string sent = pattern(3, 9000);
  std::string into(9000, 'x');
  const Signal signal{.key = at.keys[1], .offset = 8, .word = {AtomicOperation::add, 8, 1, 0}};
  for (std::uint64_t i = 0; i < 30; ++i) {
    auto write = at.write_to(0, 1, 64, sent);
    if (i < 10) write.signal = signal;
    CHECK(at.run(0, write).status == Status::ok);
    if (i < 20) CHECK(at.run(0, at.read_from(0, 1, 64, into)).status == Status::ok);
    if (i < 15) CHECK(at.run(0, at.add_at(0, 1, 0, 1)).status == Status::ok);
  }
  CHECK(at.run(0, at.add_at(0, 1, 4, 1)).status == Status::misaligned);
  CHECK(at.wait(0, at.flush(0, 1, 0)).status == Status::predecessor_failed);
  at.world.run_for(milliseconds(50));
  const EndpointStats asked = at.world.stats(0);
  CHECK(asked.writes_completed == 30);
  CHECK(asked.reads_completed == 20);
  CHECK(asked.atomics_completed == 15);
  CHECK(asked.writes_placed + asked.reads_answered + asked.atomics_executed == 0);
  CHECK(asked.replies_pending == 0);
  const EndpointStats target = at.world.stats(1);
  CHECK(target.writes_placed == 30);
  CHECK(target.reads_answered == 20);
  CHECK(target.atomics_executed == 25);
  CHECK(target.one_sided_refused == 1);
  CHECK(target.one_sided_repeats > 0);
  CHECK(target.regions_exposed == 1);
  CHECK(target.replies_pending == 0);
  CHECK(target.writes_completed + target.reads_completed + target.atomics_completed == 0);
}

}  // namespace
}  // namespace hawser::test
