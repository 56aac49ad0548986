// SPDX-License-Identifier: Apache-2.0
// The generators behind generate(), which has checked their numbers.
#pragma once

#include "proto/base/random.hpp"
#include "sim/traffic/generate.hpp"
#include "sim/traffic/matrix_builder.hpp"

namespace hawser::fabric {

// One step, and a group for each receiver.
void add_incast(MatrixBuilder& builder, const Traffic& traffic);
// Each node sends to the one that follows it in a cycle that the seed draws through all of them.
void add_permutation(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random);
// Two all-to-alls of drawn lengths, the second one the way back.
void add_moe(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random);
// Each node sends to others, all equally likely, after spans that are exponentially distributed.
void add_background(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random);

}  // namespace hawser::fabric
