// SPDX-License-Identifier: Apache-2.0
// What the control groups of this process leave of the memory, in version 1 and 2 of cgroups
// (cgroups(7); Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst of Linux).
//
// The kernel counts in each group what is used in it and below it, so the least that any group from
// the process's own up to the root leaves is what it may still have. Where a process's group lies
// is in /proc/self/cgroup; where groups are mounted, and from which group on, in
// /proc/self/mountinfo. A container may see neither its own group's name nor those above it: then
// the mounted root is its group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace hawser::tool {

// The content of a file; empty if it can't be read.
using ReadFile = std::function<std::string(const std::string& path)>;

// Nothing if no group has a limit, or none can be seen.
[[nodiscard]] std::optional<std::uint64_t> cgroup_available_bytes(const ReadFile& read);

}  // namespace hawser::tool
