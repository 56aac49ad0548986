// Registering the driver's own memory: without it there is no NIC.
#pragma once

#include <cstddef>

#include "engine/driver/verbs_port.hpp"

namespace hawser::engine {

// Throws Error, with what to do, if the memory can't be locked.
[[nodiscard]] VerbsMemory lock_memory(const VerbsPort& port, std::byte* data, std::size_t bytes,
                                      int access);

}  // namespace hawser::engine
