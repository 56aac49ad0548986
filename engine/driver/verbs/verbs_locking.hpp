// SPDX-License-Identifier: Apache-2.0
// Registers the driver's own memory, without which there is no NIC.
#pragma once

#include <cstddef>
#include <string>

#include "engine/driver/verbs/verbs_port.hpp"

namespace hawser::engine {

// Throws Error, with advice, if the memory can't be locked.
[[nodiscard]] VerbsMemory lock_memory(const VerbsPort& port, std::byte* data, std::size_t bytes,
                                      int access);

// Ends the sentence "... can't be made: " about a queue. The device's driver locks memory for its
// rings, too.
[[nodiscard]] std::string reason_of_refusal(int error);

}  // namespace hawser::engine
