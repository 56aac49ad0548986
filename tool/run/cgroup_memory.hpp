// SPDX-License-Identifier: Apache-2.0
// The memory that the control groups of this process leave it, in version 1 and 2 of cgroups
// (cgroups(7); Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst of Linux).
//
// The kernel counts for each group the memory used in it and below it. The process may still have
// the least that any group leaves, from its own up to the root. Its group is in /proc/self/cgroup.
// The mount points of groups, and the group from which each one begins, are in
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
