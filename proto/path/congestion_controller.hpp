// SPDX-License-Identifier: Apache-2.0
// The congestion law of each path. Another law is named here and nowhere else.
#pragma once

#include "proto/path/congestion_law.hpp"
#include "proto/path/delay_window.hpp"

namespace hawser::proto {

using CongestionController = DelayWindow;
static_assert(CongestionLaw<CongestionController>);
static_assert(sizeof(CongestionController) <= 56, "thousands of paths have one each");

}  // namespace hawser::proto
