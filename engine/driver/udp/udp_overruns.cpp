// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/udp/udp_overruns.hpp"

#include <unistd.h>

namespace hawser::engine {

const std::uint64_t UdpOverruns::kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

std::uint64_t UdpOverruns::count(const ReceiveBuffer& buffer) {
  if (buffer.limit == 0) return overruns_;                      // the kernel did not answer
  const auto drops = static_cast<std::uint32_t>(buffer.drops);  // the kernel counts in 32 bits
  const std::uint32_t rise = drops - drops_;
  drops_ = drops;
  const std::uint64_t most = std::max(most_drained_, drained_ + buffer.queued);
  most_drained_ = 0;
  // The kernel frees up to a quarter of the buffer late, so less may be queued at an overrun.
  if (most >= buffer.limit / 2) overruns_ += rise;
  return overruns_;
}

}  // namespace hawser::engine
