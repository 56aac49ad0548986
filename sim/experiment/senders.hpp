// SPDX-License-Identifier: Apache-2.0
// The senders that can carry out an experiment's matrix, by name: the protocol, possibly without
// one mechanism, and the baselines that are compared with it.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "sim/experiment/carrier.hpp"
#include "sim/experiment/matrix_run.hpp"

namespace hawser::experiment {

// The surroundings that all carriers of a run get. A carrier reads the matrix when it is made; the
// rest outlives the carrier.
struct SenderWorld {
  fabric::EventWheel& events;
  fabric::Network& network;
  const fabric::ConnectionMatrix& matrix;
  NicConfig nic;
  std::uint32_t nics = 1;  // of a host
  Hints hints = Hints::all;
  std::uint64_t seed = 1;
};

[[nodiscard]] std::span<const std::string_view> sender_names();

// `name` is one of sender_names(). Throws InputError, as MatrixRun does.
[[nodiscard]] std::unique_ptr<Carrier> make_carrier(std::string_view name,
                                                    const SenderWorld& world);

}  // namespace hawser::experiment
