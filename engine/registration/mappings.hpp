// SPDX-License-Identifier: Apache-2.0
// What kind of memory lies at an address.
#pragma once

#include "engine/registration/page_range.hpp"

namespace hawser::engine {

// Whether all of it is mapped, and is private memory of no file. Only that can be watched: what
// becomes of a file's or of shared memory's pages (truncated, punched) happens elsewhere. Asks the
// kernel, in milliseconds where there are thousands of mappings; doesn't allocate.
[[nodiscard]] bool is_private_memory(const PageRange& pages);

}  // namespace hawser::engine
