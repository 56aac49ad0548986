// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/storm.hpp"

#include "sim/storm/application.hpp"
#include "sim/storm/bounds.hpp"
#include "sim/storm/oracle.hpp"
#include "sim/storm/world.hpp"

namespace hawser::sim {

namespace {

using proto::Duration;
using proto::microseconds;
using proto::milliseconds;

// The most turns in a row with a deadline in the past about which they do nothing.
constexpr std::uint32_t kMostIdleTurns = 1000;

// A close_timeout, in ms, that is long enough for some answers.
constexpr std::uint64_t kEnoughToClose = 100;

// All operations must have ended this long after the healing. In that time sessions that nobody
// answers fail, new ones begin, and DOWN paths are found; the slowest tunable may delay each of
// these.
Duration patience(const Plan& plan) {
  const Tunables& t = plan.tunables;
  return milliseconds(20 * (t.peer_timeout_ms + t.longest_absence_ms) + 2000) +
         microseconds(20 * (t.path_probe_max_us + t.handshake_retry_us + t.initial_rtt_us +
                            t.max_ack_delay_us + t.timer_granularity_us + t.late_wakeup_us));
}

// Checks that nothing is left anywhere, and no timer is armed, when every peer is at rest.
void check_quiet(World& world, Oracle& oracle) {
  for (std::uint32_t i = 0; i < world.hosts(); ++i) {
    if (!world.is_running(i)) continue;
    const EndpointStats stats = world.host(i).endpoint().stats();
    const std::string at = " at host " + std::to_string(i);
    if (stats.operations_pending != 0) oracle.accuse("operations are left" + at);
    if (stats.sends_unreleased != 0) oracle.accuse("sends are not released" + at);
    if (stats.unexpected_bytes_held != 0) oracle.accuse("the store of messages leaks" + at);
    if (stats.messages_claimed != 0) oracle.accuse("claims are left" + at);
    if (stats.replies_pending != 0) oracle.accuse("replies are left" + at);
    if (stats.packets_in_flight != 0) oracle.accuse("packets are in flight" + at);
    if (world.host(i).buffers_in_use() != 0) oracle.accuse("packet buffers are lost" + at);
    if (world.host(i).wants_turn() != proto::kNever) oracle.accuse("a timer is armed" + at);
  }
}

// Checks the scribe's complaints, and that no host turns in vain.
void check_turning(World& world, Oracle& oracle) {
  if (!world.scribe().complaint().empty()) oracle.accuse(world.scribe().complaint());
  for (std::uint32_t i = 0; i < world.hosts(); ++i) {
    if (world.has_started(i) && world.host(i).idle_turns() > kMostIdleTurns) {
      oracle.accuse("a timer is due, but the endpoint does not act");
    }
  }
}

// Runs until all operations have completed.
void run_to_end(const Plan& plan, World& world, Application& application, Oracle& oracle) {
  EventQueue& events = world.events();
  Bounds bounds(plan, world, oracle);
  const proto::Time heals = World::kStart + plan.heals_at;
  const proto::Time healed = plan.faults.empty() ? World::kStart : heals;
  const proto::Time limit = heals + patience(plan);
  std::uint64_t steps = 0;
  bool is_healed = false;
  const auto is_done = [&] { return application.is_done() && !application.flush_failure(); };
  while (!is_done() && oracle.verdict().empty()) {
    if (events.next() > limit) return oracle.accuse("not at its end in time");
    if (!is_healed && events.next() >= healed) {  // before any host wakes and acts on it
      is_healed = true;
      bounds.healed();
    }
    events.step();
    if (++steps % 1024 != 0) continue;
    bounds.look();
    check_turning(world, oracle);
  }
  bounds.judge();
  check_turning(world, oracle);
}

void run_until_quiet(const Plan& plan, World& world) {
  EventQueue& events = world.events();
  const proto::Time quiet =
      events.now() + patience(plan) + milliseconds(plan.tunables.rest_after_ms) * 2;
  while (events.next() < quiet) events.step();
}

// Lets all processes close at once.
void run_closing(const Plan& plan, World& world, Application& application, Oracle& oracle) {
  const bool answered = application.all_have_peers();
  application.close_all();
  while (!application.all_left() && oracle.verdict().empty()) world.events().step();
  const bool in_time = plan.tunables.close_timeout_ms >= kEnoughToClose;
  if (answered && in_time && application.any_closed_late()) {
    oracle.accuse("nobody answers the closing");
  }
}

}  // namespace

StormOutcome run_storm(const Plan& plan, Recording* recording) {
  Scribe scribe(plan, recording);
  Oracle oracle(plan);
  Application* application = nullptr;
  World world(plan,
              {.turned = [&](std::uint32_t host) { application->turned(host); },
               .crashed = [&](std::uint32_t host) { application->crashed(host); },
               .started = [&](std::uint32_t host) { application->started(host); }},
              scribe);
  Application made(plan, world, oracle);
  application = &made;
  StormOutcome outcome;
  run_to_end(plan, world, made, oracle);
  outcome.lasted = world.since_start();
  outcome.after_healing = outcome.lasted - plan.heals_at;
  outcome.failed_sessions = oracle.failures();
  if (oracle.verdict().empty()) {
    run_until_quiet(plan, world);
    if (made.drain_rest()) run_until_quiet(plan, world);
    check_turning(world, oracle);
    check_quiet(world, oracle);
    oracle.judge();
    made.one_sided().judge();
  }
  if (oracle.verdict().empty() && plan.closes_at_end) {
    run_closing(plan, world, made, oracle);
    check_turning(world, oracle);
  }
  oracle.judge_buffers();
  made.one_sided().judge_buffers();

  outcome.verdict = oracle.verdict();
  Digest digest;
  digest.mix(world.fabric().digest());
  digest.mix(made.digest());
  outcome.digest = digest.value();
  outcome.events = world.events().done();
  outcome.frames = world.fabric().totals().frames;
  for (std::uint32_t port = 0; port < world.fabric().ports(); ++port) {
    outcome.packets += world.fabric().to_fabric(port).counters().frames;
  }
  outcome.completions = made.completions();
  outcome.faults = world.begun();
  for (std::uint32_t i = 0; i < world.hosts(); ++i) {
    if (world.is_running(i)) made.count_places(i);
    if (world.has_started(i)) outcome.turns += world.host(i).turns();
  }
  outcome.census = scribe.census();
  return outcome;
}

}  // namespace hawser::sim
