// SPDX-License-Identifier: Apache-2.0
// The baselines by name, each with the constants that are published for it. docs/lab/baselines.md
// says which parts of each are modelled and which are not.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/baseline/congestion.hpp"
#include "sim/baseline/fixed_timer.hpp"
#include "sim/baseline/go_back_n.hpp"
#include "sim/baseline/irn.hpp"
#include "sim/baseline/setup.hpp"
#include "sim/baseline/spray.hpp"
#include "sim/baseline/uccl.hpp"

namespace hawser::baseline {

struct Baseline {
  enum class Resends : std::uint8_t { go_back_n, irn, uccl, fixed_timer };
  enum class Window : std::uint8_t { span, flying, hawser };
  enum class Ways : std::uint8_t { one, in_turn, drawn, two_choices, lanes };

  std::string name;
  Resends resends = Resends::go_back_n;
  Window window = Window::span;
  Ways ways = Ways::one;
  GoBackN::Constants rc;  // of these four, `resends` chooses one
  Irn::Constants irn;
  Uccl::Constants uccl;
  FixedTimer::Constants timer;
  double window_round_trips = 1;  // for span and flying: round trips of the fabric
  std::uint32_t paths = 1;        // in_turn, drawn, lanes: entropies of a NIC; two_choices: in all
  // A connection that has failed goes on over the host's next NIC, after this time (0: at once). It
  // fails for good when it has failed on all NICs without an ack in between.
  bool moves = false;
  fabric::Span move_takes{};
};

// All baselines, as published.
[[nodiscard]] const std::vector<Baseline>& baselines();
// One baseline, which an experiment may then change. Throws fabric::InputError, which lists the
// names, if there is none of that name.
[[nodiscard]] const Baseline& baseline(std::string_view name);

// The place of a connection: its host has this many connections before it. `round_trip` is in
// packets.
struct Place {
  std::uint32_t round_trip = 1;
  std::uint32_t nic = 0;
  std::uint32_t nics = 1;
  std::uint32_t payload = 4096;
  std::uint64_t seed = 1;
};
[[nodiscard]] std::unique_ptr<Recovery> make_recovery(const Baseline& of, const Place& place);
[[nodiscard]] std::unique_ptr<Congestion> make_congestion(const Baseline& of, const Place& place);
[[nodiscard]] std::unique_ptr<Spray> make_spray(const Baseline& of, const Place& place);

}  // namespace hawser::baseline
