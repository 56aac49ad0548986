// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/stall.hpp"

#include <catch2/catch.hpp>

using namespace hawser::ofi;
using namespace std::chrono_literals;

TEST_CASE("Stall__is_said_once_after_10_s_in_which_nothing_ended") {
  Stall stall;
  const Stall::Time begin{1h};
  CHECK(!stall.no_room(begin, 0));
  CHECK(!stall.no_room(begin + 9s, 0));
  CHECK(!stall.no_room(begin + 11s, 1));  // an operation ended
  CHECK(!stall.no_room(begin + 20s, 1));
  CHECK(stall.no_room(begin + 21s, 1));
  CHECK(!stall.no_room(begin + 40s, 1));
}
