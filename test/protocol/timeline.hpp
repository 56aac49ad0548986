// SPDX-License-Identifier: Apache-2.0
// A scene as a list of events, each with its time since the scene's start.
#pragma once

#include <functional>
#include <vector>

#include "test/support/virtual_world.hpp"

namespace hawser::test {

struct Happening {
  proto::Duration at{};
  std::function<void()> what;
};

// The list must be in order of time.
inline void play(World& world, const std::vector<Happening>& happenings) {
  const proto::Time start = world.now();
  for (const Happening& happening : happenings) {
    const proto::Duration wait = start + happening.at - world.now();
    HAWSER_ASSERT(wait.ns >= 0, "a scene's events are in order");
    if (wait.ns > 0) world.run_for(wait);
    happening.what();
  }
}

}  // namespace hawser::test
