// SPDX-License-Identifier: Apache-2.0
// The kind of memory at an address.
#pragma once

#include "engine/registration/page_range.hpp"

namespace hawser::engine {

// True if all of it is mapped, and is private memory without a file. Only such memory can be
// watched: pages of files and of shared memory can change elsewhere (truncated, punched). Asks the
// kernel, which takes milliseconds with thousands of mappings. Doesn't allocate.
[[nodiscard]] bool is_private_memory(const PageRange& pages);

}  // namespace hawser::engine
