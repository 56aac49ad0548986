// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/verbs/verbs_locking.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::engine {
namespace {

bool is_lack_of_memory(int error) { return error == ENOMEM || error == EPERM || error == EAGAIN; }

constexpr const char* kAdvice =
    "raise the limit (`ulimit -l unlimited`, or memlock in /etc/security/limits.conf)";

}  // namespace

VerbsMemory lock_memory(const VerbsPort& port, std::byte* data, std::size_t bytes, int access) {
  VerbsMemory memory(ibv_reg_mr(port.domain.get(), data, bytes, access));
  if (memory) return memory;
  const int error = errno;
  const std::string size =
      port.name + ": " + std::to_string((bytes + 1023) / 1024) + " KiB of memory";
  if (is_lack_of_memory(error)) {
    throw Error(size + " can't be locked for the device; " + kAdvice);
  }
  throw Error(size + " can't be registered with the device: " + std::strerror(error) +
              kAdviceOnDriver);
}

std::string reason_of_refusal(int error) {
  std::string reason = std::strerror(error);
  if (is_lack_of_memory(error)) {
    reason += std::string("; if no more memory can be locked for the device, ") + kAdvice;
  } else if (error == EINVAL) {
    reason += "; if the device has no room for so many, lower nic_receive_bytes";
  } else {
    reason += kAdviceOnDriver;
  }
  return reason;
}

}  // namespace hawser::engine
