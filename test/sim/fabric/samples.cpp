// SPDX-License-Identifier: Apache-2.0
#include "test/sim/fabric/samples.hpp"

#include <cstdlib>

namespace hawser::fabric {

std::filesystem::path samples() {
  const char* const folder = std::getenv("HAWSER_WORKLOADS");
  return folder != nullptr ? folder : HAWSER_WORKLOADS_DEFAULT;
}

}  // namespace hawser::fabric
