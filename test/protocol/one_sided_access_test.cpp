// SPDX-License-Identifier: Apache-2.0
// Who may reach a region, and until when.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "test/protocol/one_sided_scene.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

// A program mixes up the keys of its peers, or a peer passes another's key on as its own.
TEST_CASE("one_sided__a_key_opens_nothing_at_another_peer_than_its_owner", "[O7][O40]") {
  WorldConfig config;
  config.nodes = 3;
  OneSidedScene at(config);
  const std::string sent(100, 's');
  std::string got(100, 'x');
  auto write = at.write_to(0, 1, 0, sent);
  auto read = at.read_from(0, 1, 0, got);
  auto add = at.add_at(0, 1, 0, 1);
  for (RegionKey* key : {&write.key, &read.key, &add.key}) *key = at.keys[2];
  CHECK(at.refusal(0, write) == Status::stale_region);
  CHECK(at.refusal(0, read) == Status::stale_region);
  CHECK(at.refusal(0, add) == Status::stale_region);

  // The region and its generation are right by chance; the secret is the other owner's.
  REQUIRE(at.keys[1].region == at.keys[2].region);
  for (RegionKey* key : {&write.key, &read.key, &add.key}) key->process = at.keys[1].process;
  CHECK(at.run(0, write).status == Status::access_denied);
  CHECK(at.run(0, read).status == Status::access_denied);
  CHECK(at.run(0, add).status == Status::access_denied);

  // A signal needs a key of the same owner as its write.
  auto signals = at.write_to(0, 1, 0, sent);
  signals.signal = Signal{at.keys[2], 512, {AtomicOperation::add, 8, 1, 0}};
  CHECK(at.refusal(0, signals) == Status::stale_region);
  signals.signal->key.process = at.keys[1].process;
  CHECK(at.run(0, signals).status == Status::access_denied);

  for (const std::uint32_t node : {1u, 2u})
    CHECK(at.text(node, 0, 1 << 16) == std::string(1 << 16, '\0'));
  CHECK(got == std::string(100, 'x'));
  CHECK(at.world.stats(0).sessions_established == 2);
}

TEST_CASE("one_sided__atomics_under_way_are_executed_before_a_withdrawal_or_not_at_all",
          "[O14][O41][O42]") {
  std::size_t executed = 0;
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    OneSidedScene at(bad_fabric(seed, 3));
    struct Posted {
      std::uint32_t node;
      OperationId operation;
      bool fetches;
    };
    std::vector<Posted> posted;
    for (std::size_t i = 0; i < 100; ++i) {
      for (const std::uint32_t node : {0u, 1u}) {
        auto add = at.add_at(node, 2, 8, 1);
        add.fetches = i % 2 == 0;
        posted.push_back({node, at.post(node, add), add.fetches});
      }
    }
    REQUIRE(at.world.run_until([&] { return at.word(2, 1) >= 10 * seed; }, milliseconds(500)));
    OperationId withdrawal{};
    REQUIRE(at.world.withdraw(2, at.regions[2], withdrawal) == Status::ok);
    CHECK(at.wait(2, withdrawal).status == Status::ok);
    const std::uint64_t sum = at.word(2, 1);
    std::uint64_t told = 0;
    std::set<std::uint64_t> fetched;
    for (const Posted& one : posted) {
      const Completion& done = at.wait(one.node, one.operation);
      CHECK_FALSE(done.outcome_unknown);
      const bool was_executed = done.status == Status::ok || done.executed;
      told += was_executed;
      if (!was_executed) {
        CHECK((done.status == Status::access_denied || done.status == Status::region_withdrawn));
        ++refused;
      } else if (done.status == Status::ok && one.fetches) {
        CHECK(fetched.insert(done.immediate).second);
        CHECK(done.immediate < sum);
      }
    }
    CHECK(told == sum);
    CHECK(at.word(2, 1) == sum);
    executed += static_cast<std::size_t>(told);
    at.world.run_for(milliseconds(100));
    CHECK(at.world.buffers_in_use(2) == 0);
  }
  CHECK(executed > 100);
  CHECK(refused > 100);
}

}  // namespace
}  // namespace hawser::test
