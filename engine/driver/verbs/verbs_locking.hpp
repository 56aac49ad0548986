// SPDX-License-Identifier: Apache-2.0
// Registering the driver's own memory: without it there is no NIC.
#pragma once

#include <cstddef>
#include <string>

#include "engine/driver/verbs/verbs_port.hpp"

namespace hawser::engine {

// Throws Error, with what to do, if the memory can't be locked.
[[nodiscard]] VerbsMemory lock_memory(const VerbsPort& port, std::byte* data, std::size_t bytes,
                                      int access);

// What follows "can't be made: " of a queue, whose rings a device's driver locks, too.
[[nodiscard]] std::string reason_of_refusal(int error);

}  // namespace hawser::engine
