// SPDX-License-Identifier: Apache-2.0
#include "sim/baseline/named.hpp"

#include <cmath>

#include "sim/baseline/hawser_window.hpp"
#include "sim/baseline/lanes.hpp"
#include "sim/baseline/oblivious.hpp"
#include "sim/baseline/one_way.hpp"
#include "sim/baseline/two_choices.hpp"
#include "sim/fabric/input_error.hpp"

namespace hawser::baseline {

namespace {

// NCCL's defaults, which its src/transport/net_ib.cc has: IB_TIMEOUT 20 and IB_RETRY_CNT 7. With
// them a connection takes 34 s to fail.
Baseline rc() {
  Baseline one;
  one.name = "rc";
  one.rc = {.timeout = ack_timeout(20), .retries = 7};
  return one;
}

// The way of SHIFT (arXiv 2512.11094): when the hardware reports that its retries are over, SHIFT
// posts all unacknowledged sends again on the host's other NIC. It takes 0.5 to 0.9 ms.
Baseline rc_failover() {
  Baseline one = rc();
  one.name = "rc_failover";
  one.moves = true;
  one.move_takes = fabric::microseconds(500);
  return one;
}

Baseline irn() {
  Baseline one;
  one.name = "irn";
  one.resends = Baseline::Resends::irn;
  return one;
}

// "Packet spraying with 256 paths": README.md of uccl-project/uccl; its UCCL_PORT_ENTROPY is 32 or
// 256 by the NIC's maker. UCCL's rate comes from Timely or Swift; the fixed window here stands for
// a rate that has converged.
Baseline uccl() {
  Baseline one;
  one.name = "uccl";
  one.resends = Baseline::Resends::uccl;
  one.ways = Baseline::Ways::two_choices;
  one.paths = 256;
  return one;
}

Baseline fixed_timer() {
  Baseline one;
  one.name = "fixed_timer";
  one.resends = Baseline::Resends::fixed_timer;
  one.window = Baseline::Window::flying;
  return one;
}

// Like htsim's oblivious senders (uec_mp.cpp, -paths 128): each packet takes the next entropy. The
// window of one and a half round trips is ours. The comparison is not about loss recovery, so it is
// the plain timer.
Baseline oblivious() {
  Baseline one = fixed_timer();
  one.name = "oblivious";
  one.ways = Baseline::Ways::in_turn;
  one.paths = 128;
  one.window_round_trips = 1.5;
  return one;
}

// Over Hawser's 128 lanes, with its window. Where there are many ways, a packet that arrives early
// shows no loss. IRN then waits until a number of later packets has come (section 7); UCCL's is 32.
Baseline with_our_spray(Baseline one) {
  one.name += "_with_our_spray";
  one.window = Baseline::Window::hawser;
  one.ways = Baseline::Ways::lanes;
  one.paths = 128;
  one.irn.overtaken_by = Uccl::Constants{}.duplicate_acks;
  return one;
}

}  // namespace

const std::vector<Baseline>& baselines() {
  static const std::vector<Baseline> all{rc(),
                                         rc_failover(),
                                         irn(),
                                         uccl(),
                                         fixed_timer(),
                                         oblivious(),
                                         with_our_spray(irn()),
                                         with_our_spray(uccl())};
  return all;
}

const Baseline& baseline(std::string_view name) {
  std::string names;
  for (const Baseline& one : baselines()) {
    if (one.name == name) return one;
    names += (names.empty() ? "" : ", ") + one.name;
  }
  throw fabric::InputError("there is no baseline '" + std::string(name) + "'; there are: " + names);
}

std::unique_ptr<Recovery> make_recovery(const Baseline& of, const Place& place) {
  switch (of.resends) {
    case Baseline::Resends::go_back_n: return std::make_unique<GoBackN>(of.rc);
    case Baseline::Resends::irn: {
      Irn::Constants constants = of.irn;
      if (constants.most_span == Recovery::kUnlimited) constants.most_span = place.round_trip;
      return std::make_unique<Irn>(constants);
    }
    case Baseline::Resends::uccl: return std::make_unique<Uccl>(of.uccl);
    case Baseline::Resends::fixed_timer: break;
  }
  return std::make_unique<FixedTimer>(of.timer);
}

std::unique_ptr<Congestion> make_congestion(const Baseline& of, const Place& place) {
  if (of.window == Baseline::Window::hawser) return std::make_unique<HawserWindow>(place.payload);
  const double packets = std::ceil(of.window_round_trips * place.round_trip);
  return std::make_unique<FixedWindow>(static_cast<std::uint32_t>(packets),
                                       of.window == Baseline::Window::span
                                           ? FixedWindow::Counts::span
                                           : FixedWindow::Counts::flying);
}

std::unique_ptr<Spray> make_spray(const Baseline& of, const Place& place) {
  switch (of.ways) {
    case Baseline::Ways::one: break;
    case Baseline::Ways::in_turn: return std::make_unique<InTurn>(place.nics, of.paths);
    case Baseline::Ways::drawn: return std::make_unique<Drawn>(place.nics, of.paths, place.seed);
    case Baseline::Ways::lanes: return std::make_unique<Lanes>(place.nics, of.paths);
    case Baseline::Ways::two_choices:
      return std::make_unique<TwoChoices>(place.nics, of.paths, place.seed);
  }
  return std::make_unique<OneWay>(place.nic, place.nics, place.seed);
}

}  // namespace hawser::baseline
