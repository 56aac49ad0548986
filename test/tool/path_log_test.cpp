// SPDX-License-Identifier: Apache-2.0
#include "tool/run/path_log.hpp"

#include <catch2/catch.hpp>

#include "test/tool/figures.hpp"

namespace hawser::tool {
namespace {

using Change = PathChange::Kind;
constexpr std::uint64_t kMs = 1'000'000;

struct Bench {
  Figures endpoint;
  PathLog log{endpoint};
  std::uint64_t number = 0;

  Bench() { log.begin(1000 * kMs); }
  void tell(Event event) {
    event.number = number++;
    endpoint.events.push_back(event);
  }
};

TEST_CASE("path_log: events become changes, at times since the run began, by ranks") {
  Bench bench;
  bench.tell({.kind = Event::Kind::peer_established, .endpoint_id = 3, .time_ns = 999 * kMs});
  bench.tell({.kind = Event::Kind::path_down,
              .endpoint_id = 3,
              .nic = 1,
              .remote_nic = 4,
              .time_ns = 1020 * kMs});
  bench.tell({.kind = Event::Kind::nic_down, .nic = 2, .time_ns = 1021 * kMs});
  bench.tell({.kind = Event::Kind::verdict_reached,
              .blame = Blame::link,
              .endpoint_id = 3,
              .nic = 1,
              .remote_nic = 4,
              .time_ns = 1120 * kMs});
  bench.tell({.kind = Event::Kind::verdict_reached,
              .blame = Blame::local_nic,
              .nic = 2,
              .time_ns = 1121 * kMs});
  bench.log.look();
  CHECK(bench.log.changes() ==
        std::vector<PathChange>{{Change::path_down, 20 * kMs, 1, 2, 4},
                                {Change::driver_down, 21 * kMs, 2, 0, 0},
                                {Change::blamed, 120 * kMs, 1, 2, 4, Blame::link},
                                {Change::blamed, 121 * kMs, 2, 0, 0, Blame::local_nic}});
  bench.tell({.kind = Event::Kind::verdict_withdrawn,
              .blame = Blame::local_nic,
              .nic = 2,
              .time_ns = 1200 * kMs});
  bench.log.look();
  CHECK(bench.log.changes().back().kind == Change::cleared);
  CHECK(bench.log.changes_left_out() == 0);
}

TEST_CASE("path_log: it keeps no more than its limit, and says what was left out") {
  Bench bench;
  for (std::size_t i = 0; i < PathLog::kMaxChanges + 10; ++i) {
    bench.tell({.kind = i % 2 == 0 ? Event::Kind::path_down : Event::Kind::path_up});
  }
  bench.number += 7;  // dropped by the endpoint
  bench.tell({.kind = Event::Kind::path_down});
  bench.log.look();
  CHECK(bench.log.changes().size() == PathLog::kMaxChanges);
  CHECK(bench.log.changes_left_out() == 18);
}

}  // namespace
}  // namespace hawser::tool
