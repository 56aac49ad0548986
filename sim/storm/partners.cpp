// SPDX-License-Identifier: Apache-2.0
// The names that programs have for partners that come and go, and what is left of a peer that has
// gone.
#include <algorithm>
#include <utility>

#include "sim/storm/application.hpp"

namespace hawser::sim {

using proto::Duration;
using proto::milliseconds;

namespace {

// The least time between two events that report refused callers.
constexpr Duration kTellsRefusals = milliseconds(1000);

std::string name_of_host(std::uint32_t host) { return "host " + std::to_string(host); }

}  // namespace

void Application::started(std::uint32_t host) {
  oracle_.on_restarted(host, world_.life(host), world_.epoch(host));
  oracle_.places().on_started(host, world_.since_start());
  one_sided_.started(host);
}

// A name means one peer, for as long as the process lives; and a peer has one name while it has a
// session.
void Application::learn_name(std::uint32_t at, PeerId peer, std::uint32_t other) {
  if (peer == kAnyPeer) return;
  const PeerId before = world_.name(at, other);
  if (before != kAnyPeer && before != peer && oracle_.sessions().lives(at, other)) {
    oracle_.accuse(name_of_host(at) + " has another name for " + name_of_host(other) +
                   " in the middle of their session");
  }
  if (!world_.learn_name(at, peer, other)) {
    oracle_.accuse(name_of_host(at) + " knows " + name_of_host(other) + " by the name of " +
                   name_of_host(world_.host_of(at, peer)));
  }
}

void Application::note_event(std::uint32_t at, const Event& event) {
  process(at).is_noted = false;
  if (event.endpoint_id == 0 || event.endpoint_id >= kStrangers) return;
  const auto other = static_cast<std::uint32_t>(event.endpoint_id - 1);
  Process& here = process(at);
  const Duration now = world_.since_start();
  switch (event.kind) {
    case Event::Kind::peer_calling:
      learn_name(at, event.peer, other);
      return oracle_.on_calling(at, other, now);
    case Event::Kind::peer_established:
      if (std::exchange(here.was_refused, false)) {
        world_.scribe().count_place(PlaceCell::let_in_later);
      }
      return learn_name(at, event.peer, other);
    case Event::Kind::peer_failed:
      here.was_refused |= event.status == Status::peer_full;
      return learn_name(at, event.peer, other);
    case Event::Kind::peer_refused: {
      if (!oracle_.places().can_run_out(at)) {
        oracle_.accuse(name_of_host(at) + " refuses " + name_of_host(other) +
                       ", but has enough places");
      }
      // The end of a turn has a later clock than its beginning.
      const proto::Time clock = world_.host(at).now();
      const Duration turn = plan_.hosts[at].turn;
      if (here.told_refusal.ns > 0 && clock + turn < here.told_refusal + kTellsRefusals) {
        oracle_.accuse(name_of_host(at) + " reports twice in a second that it refuses callers");
      }
      here.told_refusal = clock;
      for (std::uint32_t i = 0; i < world_.hosts(); ++i) {
        if (!oracle_.lies_there(i, at, true) || oracle_.sessions().lives(at, i)) continue;
        return world_.scribe().count_place(PlaceCell::kept_by_the_rest);
      }
      return;
    }
    default: return;
  }
}

// Whether the endpoint no longer knows this name of the other host, since another peer got its
// place.
bool Application::is_forgotten(std::uint32_t at, std::uint32_t other, PeerId name) {
  take_events(at);  // the judge has to know these first
  take_completions(at);
  world_.scribe().count_place(PlaceCell::name_forgotten);
  if (world_.host_of(at, name) != other) {
    oracle_.accuse(name_of_host(at) + " used a name that was never one of " + name_of_host(other));
  } else if (name == world_.name(at, other)) {
    oracle_.on_forgotten(at, other);
  }
  return true;
}

// Whether the endpoint has forgotten the name by which its program knows the other host.
bool Application::has_forgotten(std::uint32_t at, std::uint32_t other) {
  const PeerId name = world_.peer(at, other);
  if (!oracle_.places().can_run_out(at) || name == kAnyPeer) return false;
  PeerStats stats;
  Host& host = world_.host(at);
  return host.endpoint().peer_stats(host.now(), name, stats) == Status::unknown_peer &&
         is_forgotten(at, other, name);
}

// After the healing, a place that another peer has may stay so for ever.
bool Application::gives_up(Duration planned) const {
  if (!has_few_places(plan_) || !world_.is_healed()) return false;
  const Tunables& t = plan_.tunables;
  const Duration enough = milliseconds(3 * (t.peer_timeout_ms + t.longest_absence_ms));
  return world_.since_start() >= std::max(planned, plan_.heals_at) + enough;
}

// Tells the judge which peers have something left here: a message that nobody has received, a
// claim, a send that a NIC reads.
void Application::note_what_is_left(std::uint32_t at) {
  if (!world_.is_running(at) || std::exchange(process(at).is_noted, true)) return;
  const EndpointStats stats = world_.host(at).endpoint().stats();
  for (std::uint32_t other = 0; other < world_.hosts(); ++other) {
    if (other == at) continue;
    bool is_left = stats.messages_unmatched > 0 && oracle_.lies_there(other, at, false);
    for (std::uint32_t i = 0; !is_left && stats.sends_unreleased > 0 && i < sent_as_.size(); ++i) {
      const SendRecord& send = oracle_.send(i);
      is_left = send.posted && !send.released && !send.gone && plan_.messages[i].from == at &&
                plan_.messages[i].to == other;
    }
    oracle_.places().set_left(at, other, is_left, world_.since_start());
  }
}

// An envelope names the sender of its message.
void Application::check_name(std::uint32_t at, const Envelope& envelope) {
  if (envelope.immediate >= plan_.messages.size()) {
    return oracle_.accuse(name_of_host(at) + " finds a message that nobody sent");
  }
  const std::uint32_t from = plan_.messages[envelope.immediate].from;
  const std::uint32_t said = world_.host_of(at, envelope.peer);
  if (said == from) return;
  oracle_.accuse(name_of_host(at) + " finds message " + std::to_string(envelope.immediate) +
                 " of " + name_of_host(from) + " under the name of " +
                 (said == kAnyHost ? "nobody" : name_of_host(said)));
}

// Checks the counts. For each place that was given away its peer's name was reported, and each name
// that is nobody's any more was given away. Each refusal counts, and the first is reported.
void Application::count_places(std::uint32_t host) {
  for (const auto& nic : world_.host(host).nics()) {
    world_.scribe().count_way(WayCell::fragmented, nic->counters().fragmented);
  }
  if (!has_few_places(plan_)) return;
  const EndpointStats stats = world_.host(host).endpoint().stats();
  world_.scribe().count_place(PlaceCell::given_away, stats.peers_forgotten);
  world_.scribe().count_place(PlaceCell::call_refused, stats.calls_refused);
  const std::uint64_t known = stats.peers_awake + stats.peers_at_rest;
  const std::uint64_t names = world_.count_names(host);
  if (stats.peers_forgotten + known < names || stats.peers_forgotten > names) {
    oracle_.accuse(name_of_host(host) + " counts " + std::to_string(stats.peers_forgotten) +
                   " places given away, knows " + std::to_string(known) + " peers, and had " +
                   std::to_string(names) + " names for them");
  }
  const bool told = process(host).told_refusal.ns > 0;
  if (told != (stats.calls_refused > 0) && stats.events_lost == 0) {
    oracle_.accuse(name_of_host(host) + " counts " + std::to_string(stats.calls_refused) +
                   " refused calls, but reported" + (told ? "" : " none"));
  }
}

}  // namespace hawser::sim
