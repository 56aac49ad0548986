// Sessions: how they begin under loss, and every way in which they end.
#include <catch2/catch.hpp>

#include "test/support/virtual_world.hpp"

namespace hawser::test {
namespace {

using proto::milliseconds;

WorldConfig impatient() {
  WorldConfig config;
  config.tunables.peer_timeout_ms = 100;
  return config;
}

bool failed_with(World& world, std::uint32_t node, Status status) {
  for (const Event& event : world.events(node)) {
    if (event.kind == Event::Kind::peer_failed && event.status == status) return true;
  }
  return false;
}

TEST_CASE("sessions__begin_whatever_packets_of_the_handshake_are_lost") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.nics = 2;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.4,duplicate=0.2,reorder=0.2";
    World world(config);
    world.connect_all();  // both sides at once
    const std::string sent = "a word";
    std::string got(sent.size(), 'x');
    world.receive(1, world.peer(1, 0), 1, got);
    world.send(0, 1, 1, sent);
    REQUIRE(world.run_until_completed(1, 1, milliseconds(9000)));
    REQUIRE(world.run_until_completed(0, 1, milliseconds(9000)));
    CHECK(got == sent);
    CHECK(world.stats(0).sessions_established == 1);
    CHECK(world.stats(1).sessions_established == 1);
  }
}

TEST_CASE("sessions__a_peer_that_never_answers_is_unreachable") {
  World world(impatient());
  REQUIRE_FALSE(world.nic(1, 0).apply("kill").has_value());
  const std::string word = "word";
  const OperationId send = world.send(0, 1, 1, word);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(300)));
  CHECK(world.completion(0, send)->status == Status::peer_unreachable);
}

TEST_CASE("sessions__another_secret_is_as_good_as_none") {
  WorldConfig config = impatient();
  config.secrets = {"one secret", "another"};
  World world(config);
  const std::string word = "word";
  const OperationId send = world.send(0, 1, 1, word);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(300)));
  CHECK(world.completion(0, send)->status == Status::peer_unreachable);
  CHECK(world.stats(1).drops[static_cast<std::size_t>(DropReason::bad_mac)] > 0);
}

TEST_CASE("sessions__a_crash_fails_what_waits_for_that_peer_and_nothing_else") {
  WorldConfig config = impatient();
  config.nodes = 3;
  World world(config);
  world.connect_all();
  std::string first(8, 'x');
  std::string second(8, 'x');
  std::string third(8, 'x');
  world.run_for(milliseconds(5));
  const OperationId from_crashed = world.receive(0, world.peer(0, 1), 1, first);
  const OperationId from_living = world.receive(0, world.peer(0, 2), 1, second);
  const OperationId from_any = world.receive(0, kAnyPeer, 1, third);
  const std::string word = "01234567";
  world.run_for(milliseconds(5));
  world.crash(1, false);
  const proto::Time crash = world.now();
  REQUIRE(world.run_until_completed(0, 1, milliseconds(400)));
  CHECK(world.completion(0, from_crashed)->status == Status::peer_timeout);
  CHECK((world.now() - crash).ns < milliseconds(200).ns);
  CHECK(failed_with(world, 0, Status::peer_timeout));
  world.send(2, 0, 1, word);
  world.send(2, 0, 1, word);
  REQUIRE(world.run_until_completed(0, 3, milliseconds(100)));
  CHECK(world.completion(0, from_living)->status == Status::ok);
  CHECK(world.completion(0, from_any)->status == Status::ok);
}

TEST_CASE("sessions__a_restarted_peer_is_a_new_session") {
  World world(impatient());
  world.connect_all();
  std::string old(8, 'x');
  const OperationId waits = world.receive(0, world.peer(0, 1), 1, old);
  world.run_for(milliseconds(5));
  world.crash(1, true);
  const std::string word = "01234567";
  std::string fresh(8, 'x');
  world.send(1, 0, 2, word);  // by itself it makes the session anew
  REQUIRE(world.run_until_completed(0, 1, milliseconds(300)));
  const Status status = world.completion(0, waits)->status;
  CHECK((status == Status::peer_restarted || status == Status::peer_timeout));
  const OperationId again = world.receive(0, kAnyPeer, 2, fresh);
  REQUIRE(
      world.run_until([&] { return world.completion(0, again) != nullptr; }, milliseconds(300)));
  CHECK(fresh == word);
}

TEST_CASE("sessions__a_pause_within_peer_timeout_is_no_failure_and_no_loss") {
  WorldConfig config;
  config.nics = 2;
  World world(config);
  world.connect_all();
  const std::string sent = pattern(3, 8 << 20);
  std::string got(sent.size(), 'x');
  world.receive(1, world.peer(1, 0), 1, got);
  world.send(0, 1, 1, sent);
  world.run_for(milliseconds(1));
  world.pause(1, true);
  world.run_for(milliseconds(2000));
  world.pause(1, false);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(5000)));
  REQUIRE(world.run_until_completed(1, 1, milliseconds(5000)));
  CHECK(got == sent);
  CHECK(world.completions(0)[0].status == Status::ok);
  CHECK(world.stats(0).evacuations == 0);
  const EndpointStats stats = world.stats(0);
  CHECK(stats.spurious_retransmits * 50 <= stats.data_packets_sent);
}

TEST_CASE("sessions__a_pause_beyond_peer_timeout_fails_both_sides") {
  World world(impatient());
  world.connect_all();
  std::string a(8, 'x');
  std::string b(8, 'x');
  world.run_for(milliseconds(5));
  world.receive(0, world.peer(0, 1), 1, a);
  world.receive(1, world.peer(1, 0), 1, b);
  world.run_for(milliseconds(5));
  world.pause(1, true);
  world.run_for(milliseconds(500));
  world.pause(1, false);
  REQUIRE(world.run_until_completed(0, 1, milliseconds(500)));
  REQUIRE(world.run_until_completed(1, 1, milliseconds(500)));
  CHECK(is_peer_failure(world.completions(0)[0].status));
  CHECK(is_peer_failure(world.completions(1)[0].status));
}

TEST_CASE("sessions__closing_hands_over_the_last_statuses") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    WorldConfig config;
    config.seed = seed;
    config.faults = "delay=5us,loss=0.3";
    World world(config);
    world.connect_all();
    const std::string word = "01234567";
    std::string got(8, 'x');
    const OperationId send = world.send(0, 1, 1, word, {.level = Level::delivered});
    world.receive(1, world.peer(1, 0), 1, got);
    REQUIRE(world.run_until_completed(1, 1, milliseconds(5000)));
    world.endpoint(1).close(world.now());  // at once, the status perhaps lost
    REQUIRE(world.run_until_completed(0, 1, milliseconds(5000)));
    CHECK(world.completion(0, send)->status == Status::ok);
    REQUIRE(world.run_until([&] { return world.endpoint(1).closed(); }, milliseconds(5000)));
  }
}

TEST_CASE("sessions__closing_ends_every_operation_on_both_sides") {
  World world({});
  world.connect_all();
  std::string a(8, 'x');
  std::string b(8, 'x');
  world.receive(0, world.peer(0, 1), 1, a);
  world.receive(1, kAnyPeer, 1, b);
  world.run_for(milliseconds(5));
  world.endpoint(1).close(world.now());
  REQUIRE(world.run_until([&] { return world.endpoint(1).closed(); }, milliseconds(5000)));
  REQUIRE(world.run_until_completed(0, 1, milliseconds(5000)));
  CHECK(world.completions(0)[0].status == Status::peer_closed);
  REQUIRE(world.completions(1).size() == 1);
  CHECK(world.completions(1)[0].status == Status::endpoint_closed);
  proto::SendRequest request;
  request.peer = world.peer(0, 1);
  CHECK(world.post(0, request) == Status::peer_closed);
}

}  // namespace
}  // namespace hawser::test
