#include "engine/driver/verbs_locking.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include "hawser/engine.hpp"

namespace hawser::engine {

VerbsMemory lock_memory(const VerbsPort& port, std::byte* data, std::size_t bytes, int access) {
  VerbsMemory memory(ibv_reg_mr(port.domain.get(), data, bytes, access));
  if (memory) return memory;
  const int error = errno;
  const std::string size =
      port.name + ": " + std::to_string((bytes + 1023) / 1024) + " KiB of memory";
  if (error == ENOMEM || error == EPERM || error == EAGAIN) {
    throw Error(size +
                " can't be locked for the device; raise the limit (`ulimit -l unlimited`, "
                "or memlock in /etc/security/limits.conf)");
  }
  throw Error(size + " can't be registered with the device: " + std::strerror(error));
}

}  // namespace hawser::engine
