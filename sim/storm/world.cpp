// SPDX-License-Identifier: Apache-2.0
#include "sim/storm/world.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "proto/base/assert.hpp"
#include "sim/core/lies.hpp"
#include "sim/storm/plan_check.hpp"

namespace hawser::sim {

namespace {

constexpr std::string_view kSecret = "the job's secret, of thirty bytes";

// The encoding of World's events: a fault's number and whether it begins or ends, or a host that
// starts.
constexpr std::uint64_t kHeals = ~std::uint64_t{0};
constexpr std::uint64_t kStarts = std::uint64_t{1} << 63;
constexpr std::uint64_t beginning(std::size_t fault) { return fault * 2; }
constexpr std::uint64_t ending(std::size_t fault) { return fault * 2 + 1; }

Host::Place place_of(const FaultPlan& fault) {
  return static_cast<Host::Place>(1 + static_cast<int>(fault.amount));
}

}  // namespace

World::World(const Plan& plan, WorldHooks hooks, Scribe& scribe)
    : plan_(plan),
      hooks_(std::move(hooks)),
      scribe_(scribe),
      events_(kStart),
      intruder_(plan.seed + 1),
      fabric_(events_, plan.seed),
      lives_(plan.hosts.size(), 0),
      epochs_(plan.hosts.size(), first_epoch(plan)),
      peers_(plan.hosts.size(), std::vector<PeerId>(plan.hosts.size(), kAnyPeer)),
      names_(plan.hosts.size()),
      is_taken_over_(plan.hosts.size(), false),
      active_(plan.faults.size(), false) {
  scribe_.begin(events_);
  build_fabric();
  for (std::uint32_t i = 0; i < plan.hosts.size(); ++i) {
    told_dead_.emplace_back(plan.hosts[i].nics.size(), false);
    hosts_.emplace_back();
    if (plan.hosts[i].starts.ns == 0) {
      start(i, {});
    } else {
      events_.at(kStart + plan.hosts[i].starts, *this, kStarts | i);
    }
  }
  for (std::size_t i = 0; i < plan.faults.size(); ++i) {
    events_.at(kStart + plan.faults[i].at, *this, beginning(i));
    events_.at(kStart + plan.faults[i].at + plan.faults[i].lasts, *this, ending(i));
  }
  events_.at(kStart + plan.heals_at, *this, kHeals);
}

void World::build_fabric() {
  for (std::uint32_t i = 0; i < plan_.switches; ++i) (void)fabric_.add_switch();
  for (const CablePlan& cable : plan_.cables) (void)fabric_.join(cable.a, cable.b, cable.link);
  for (const HostPlan& host : plan_.hosts) {
    first_port_.push_back(fabric_.ports());
    for (const PortPlan& nic : host.nics) (void)fabric_.add_port(nic.at_switch, nic.cable);
  }
  fabric_.finish();
}

void World::start(std::uint32_t i, const std::vector<std::uint32_t>& numbers) {
  const HostPlan& plan = plan_.hosts[i];
  names_[i] = {{}, std::vector<PeerId>(plan_.hosts.size(), kAnyPeer), {}};
  HostConfig config;
  config.endpoint.tunables = plan_.tunables;
  config.endpoint.endpoint_id = i + 1;
  config.endpoint.epoch = epochs_[i];
  config.endpoint.seed = plan_.seed * 1000 + i * 10 + lives_[i];
  if (plan_.has_secret) config.endpoint.job_secret = std::as_bytes(std::span(kSecret));
  if (plan_.traced || scribe_.records()) config.endpoint.trace = Scribe::hook;
  config.endpoint.trace_context = scribe_.new_process(i);
  config.nic = plan.nic;
  for (std::uint32_t nic = 0; nic < plan.nics.size(); ++nic) {
    config.ports.push_back(port(i, nic));
    config.networks.push_back(plan.nics[nic].network);
  }
  config.numbers = numbers;
  config.turn = plan.turn;
  config.wake_up = plan.wake_up;
  config.clock = plan.clock;
  config.seed = config.endpoint.seed + 7;
  hosts_[i] =
      std::make_unique<Host>(events_, fabric_, book_, config, [this, i] { hooks_.turned(i); });
}

// A host that starts later may take over the addresses of another one whose process is gone.
void World::start_late(std::uint32_t host) {
  const std::uint32_t before = plan_.hosts[host].takes_over;
  std::vector<std::uint32_t> numbers;
  if (before != kAnyHost && has_started(before) && !is_running(before) && !is_taken_over_[before]) {
    numbers = this->host(before).last_numbers();
    is_taken_over_[before] = true;
  }
  start(host, numbers);
  hooks_.started(host);
  apply_all();
}

void World::crash(std::uint32_t host) {
  if (!is_running(host)) return;
  hooks_.crashed(host);
  leave(host);
}

void World::leave(std::uint32_t host) {
  hosts_[host]->crash();
  std::ranges::fill(peers_[host], kAnyPeer);
}

Status World::connect(std::uint32_t from, std::uint32_t to) {
  std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
  const std::size_t bytes = host(to).endpoint().write_address(blob);
  const Status status = host(from).endpoint().connect(
      host(from).now(), std::span(blob).first(bytes), peers_[from][to]);
  host(from).wake();
  return status;
}

bool World::learn_name(std::uint32_t at, PeerId peer, std::uint32_t other) {
  Names& names = names_[at];
  const auto [known, is_new] = names.hosts.emplace(peer, other);
  if (!is_new) return known->second == other;
  PeerId& newest = names.newest[other];
  if (newest != kAnyPeer) names.old.push_back(newest);
  newest = peer;
  return true;
}

std::uint32_t World::host_of(std::uint32_t at, PeerId peer) const {
  const auto found = names_[at].hosts.find(peer);
  return found == names_[at].hosts.end() ? kAnyHost : found->second;
}

void World::on_event(proto::Time, std::uint64_t what) {
  if (what == kHeals) return heal();
  if ((what & kStarts) != 0) return start_late(static_cast<std::uint32_t>(what));
  const FaultPlan& fault = plan_.faults[what / 2];
  if (healed_) return;
  active_[what / 2] = what % 2 == 0;
  scribe_.note(what % 2 == 0 ? Happening::Kind::fault_begins : Happening::Kind::fault_ends,
               fault.host, static_cast<std::uint32_t>(what / 2));
  if (what % 2 == 0) {
    ++begun_[static_cast<std::size_t>(fault.kind)];
    begin(fault);
  } else {
    end(fault);
  }
  apply_all();
}

// Acts that happen once when a fault begins; apply_all sets the lasting state.
void World::begin(const FaultPlan& fault) {
  if (!is_running(fault.host)) return;
  switch (fault.kind) {
    case FaultKind::clock_jump: return host(fault.host).jump(fault.delay);
    case FaultKind::crash:
    case FaultKind::stale_epoch:
    case FaultKind::restart: return crash(fault.host);
    case FaultKind::strangers: return call_as_strangers(fault);
    case FaultKind::narrow:
      return host(fault.host).nics()[fault.nic]->tell(proto::NicEvent::Kind::ways);
    default: return;
  }
}

void World::end(const FaultPlan& fault) {
  if (fault.kind == FaultKind::restart || fault.kind == FaultKind::stale_epoch) {
    return restart(fault);
  }
  if (fault.kind == FaultKind::narrow && is_running(fault.host))
    host(fault.host).nics()[fault.nic]->tell(proto::NicEvent::Kind::ways);
  if (fault.kind == FaultKind::nic_moves || fault.kind == FaultKind::both_move) {
    if (is_running(fault.host)) host(fault.host).nics()[fault.nic]->move();
    if (fault.kind == FaultKind::both_move && is_running(fault.other_host)) {
      host(fault.other_host).nics()[fault.other_nic]->move();
    }
  }
}

void World::restart(const FaultPlan& fault) {
  if (!has_started(fault.host) || is_running(fault.host)) return;
  std::vector<std::uint32_t> numbers = host(fault.host).last_numbers();
  if (is_taken_over_[fault.host]) numbers.clear();
  gone_.push_back(std::move(hosts_[fault.host]));  // pending events may still refer to it
  ++lives_[fault.host];
  std::uint64_t& epoch = epochs_[fault.host];
  const auto back = static_cast<std::uint64_t>(fault.amount);
  epoch = fault.kind == FaultKind::restart ? epoch + 1 : std::max(epoch, back + 1) - back;
  std::fill(told_dead_[fault.host].begin(), told_dead_[fault.host].end(), false);
  start(fault.host, numbers);
  hooks_.started(fault.host);
}

// Some of the calls come in the name of an unknown host, some in that of `other_host`. The owner of
// the address that they give hears answers to calls that it never made.
void World::call_as_strangers(const FaultPlan& fault) {
  if (!is_running(fault.other_host)) return;
  StrangeHello hello;
  hello.target_id = fault.host + 1;
  hello.address = host(fault.other_host).nics()[fault.other_nic]->number();
  hello.checksum = plan_.hosts[fault.host].nic.needs_checksum;
  for (auto left = static_cast<std::uint64_t>(fault.amount); left > 0; --left) {
    const bool in_its_name = intruder_.chance(0.2);
    hello.sender_id = in_its_name ? fault.other_host + 1 : kStrangers + intruder_.below(1000);
    const std::uint32_t id = fabric_.frames().take();
    Frame& frame = fabric_.frames().at(id);
    write_hello(intruder_, hello, frame);
    frame.from = port(fault.other_host, fault.other_nic);
    frame.to = port(fault.host, fault.nic);
    frame.address = host(fault.host).nics()[fault.nic]->number();
    frame.entropy = 0;
    (void)fabric_.send(id);
  }
}

void World::heal() {
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    if (!active_[i]) continue;
    scribe_.note(Happening::Kind::fault_ends, plan_.faults[i].host, static_cast<std::uint32_t>(i));
    end(plan_.faults[i]);
    active_[i] = false;
  }
  scribe_.note(Happening::Kind::heals, 0, 0);
  healed_ = true;
  apply_all();
}

void World::apply_all() {
  fabric_.open_all_ways();
  for (std::uint32_t i = 0; i < fabric_.ports(); ++i) {
    fabric_.to_fabric(i).faults = fabric_.to_port(i).faults = {};
  }
  for (std::uint32_t i = 0; i < fabric_.cables(); ++i) {
    fabric_.cable(i, false).faults = fabric_.cable(i, true).faults = {};
  }
  std::vector<bool> pause(hosts(), false);
  std::vector<Host::Place> stand(hosts(), Host::Place::none);
  std::vector<std::vector<bool>> dead;
  for (std::uint32_t i = 0; i < hosts(); ++i) {
    dead.emplace_back(plan_.hosts[i].nics.size(), false);
    if (!is_running(i)) continue;
    host(i).set_lateness({});
    host(i).set_dry(false);
    for (auto& nic : host(i).nics()) nic->faults = {};
  }
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    if (!active_[i]) continue;
    const FaultPlan& fault = plan_.faults[i];
    apply(fault);
    if (fault.kind == FaultKind::pause || fault.kind == FaultKind::absence ||
        fault.kind == FaultKind::announced) {
      pause[fault.host] = true;
    }
    if (fault.kind == FaultKind::stands) stand[fault.host] = place_of(fault);
    if (fault.kind == FaultKind::nic_told || fault.kind == FaultKind::nic_moves ||
        fault.kind == FaultKind::both_move) {
      dead[fault.host][fault.nic] = true;
      if (fault.kind == FaultKind::both_move) dead[fault.other_host][fault.other_nic] = true;
    }
  }
  for (std::uint32_t i = 0; i < hosts(); ++i) {
    if (!is_running(i)) continue;
    if (host(i).is_paused() != pause[i]) host(i).pause(pause[i]);
    host(i).stand(stand[i]);
    for (std::size_t nic = 0; nic < dead[i].size(); ++nic) {
      if (dead[i][nic]) host(i).nics()[nic]->faults.dead = true;
      if (dead[i][nic] == told_dead_[i][nic]) continue;
      told_dead_[i][nic] = dead[i][nic];
      const auto news = dead[i][nic] ? proto::NicEvent::Kind::down : proto::NicEvent::Kind::up;
      host(i).nics()[nic]->tell(news);
      if (nic % 2 == 1) host(i).nics()[nic]->tell(news);  // some drivers report it twice
    }
    host(i).wake();  // a send that a NIC held may be reaped now
  }
}

void World::apply_to_cables(const FaultPlan& fault) {
  for (std::uint32_t nic = 0; nic < plan_.hosts[fault.host].nics.size(); ++nic) {
    for (Link* link :
         {&fabric_.to_fabric(port(fault.host, nic)), &fabric_.to_port(port(fault.host, nic))}) {
      LinkFaults& faults = link->faults;
      switch (fault.kind) {
        case FaultKind::loss: faults.loss = std::max(faults.loss, fault.amount); break;
        case FaultKind::burst_loss:
          faults.burst_begin = std::max(faults.burst_begin, fault.amount);
          faults.burst_end = 0.2;
          break;
        case FaultKind::duplicate:
          faults.duplicate = std::max(faults.duplicate, fault.amount);
          break;
        case FaultKind::reorder:
          faults.reorder = std::max(faults.reorder, fault.amount);
          faults.reorder_delay = fault.delay;
          break;
        case FaultKind::straggle:
          faults.straggle = std::max(faults.straggle, fault.amount);
          faults.straggle_delay = fault.delay;
          break;
        case FaultKind::corrupt: faults.corrupt = std::max(faults.corrupt, fault.amount); break;
        case FaultKind::truncate: faults.truncate = std::max(faults.truncate, fault.amount); break;
        default: HAWSER_ASSERT(false);
      }
    }
  }
}

void World::close_host(std::uint32_t host) {
  for (std::uint32_t other = 0; other < hosts(); ++other) {
    if (other == host) continue;
    for (std::uint32_t a = 0; a < plan_.hosts[host].nics.size(); ++a) {
      for (std::uint32_t b = 0; b < plan_.hosts[other].nics.size(); ++b) {
        fabric_.close_way(port(host, a), port(other, b));
        fabric_.close_way(port(other, b), port(host, a));
      }
    }
  }
}

// Sets the faulty state of a NIC, or of its host, while the fault lasts.
void World::apply_to_nic(const FaultPlan& fault) {
  if (!is_running(fault.host)) return;
  Host& there = host(fault.host);
  SimNic& nic = *there.nics()[fault.nic];
  switch (fault.kind) {
    case FaultKind::nic_silent: nic.faults.dead = true; return;
    case FaultKind::all_but_one:
      for (auto& one : there.nics()) {
        if (one.get() != &nic) one->faults.dead = true;
      }
      return;
    case FaultKind::late_host: return there.set_lateness(fault.delay);
    case FaultKind::reaps_late: nic.faults.reap_delay = fault.delay; return;
    case FaultKind::holds_sends: nic.faults.holds_sends = true; return;
    case FaultKind::partial_bursts: nic.faults.partial_burst = fault.amount; return;
    case FaultKind::overrun:
      nic.faults.ring_slots = static_cast<std::uint32_t>(fault.amount);
      return;
    case FaultKind::garbled:
    case FaultKind::forged:
      nic.faults.is_signed = plan_.has_secret;
      (fault.kind == FaultKind::garbled ? nic.faults.garbled : nic.faults.forged) = fault.amount;
      return;
    case FaultKind::unresolved: nic.faults.unresolved = true; return;
    case FaultKind::no_buffers: return there.set_dry(true);
    case FaultKind::narrow:
      nic.faults.narrow_ways.push_back(
          {port(fault.other_host, fault.other_nic), static_cast<std::uint32_t>(fault.amount)});
      return;
    default: return;  // begin, end and apply_all do these
  }
}

void World::apply(const FaultPlan& fault) {
  const std::uint32_t here = port(fault.host, fault.nic);
  switch (fault.kind) {
    case FaultKind::loss:
    case FaultKind::burst_loss:
    case FaultKind::duplicate:
    case FaultKind::reorder:
    case FaultKind::straggle:
    case FaultKind::corrupt:
    case FaultKind::truncate: return apply_to_cables(fault);
    case FaultKind::spike:
      fabric_.to_fabric(here).faults.spike = fault.amount;
      fabric_.to_fabric(here).faults.spike_delay = fault.delay;
      return;
    case FaultKind::slow:
      for (Link* const link : {&fabric_.to_fabric(here), &fabric_.to_port(here)}) {
        link->faults.slowdown = fault.amount;
        link->faults.slow_until = kStart + std::min(fault.at + fault.lasts, plan_.heals_at);
      }
      return;
    case FaultKind::flap:
      for (const bool back : {false, true}) {
        Link& port_link = back ? fabric_.to_port(here) : fabric_.to_fabric(here);
        (fault.amount > 0 ? fabric_.cable(fault.other_host, back) : port_link).faults.down = true;
      }
      return;
    case FaultKind::both_ways:
      fabric_.close_way(port(fault.other_host, fault.other_nic), here);
      [[fallthrough]];
    case FaultKind::one_way:
      return fabric_.close_way(here, port(fault.other_host, fault.other_nic));
    case FaultKind::deaf_queue:
      return fabric_.close_way(here, port(fault.other_host, fault.other_nic), queue_of(fault));
    case FaultKind::mute_queue:
      for (std::uint32_t to = 0; to < fabric_.ports(); ++to) {
        fabric_.close_way(here, to, queue_of(fault));
      }
      return;
    case FaultKind::partition: return close_host(fault.host);
    default: return apply_to_nic(fault);
  }
}

}  // namespace hawser::sim
