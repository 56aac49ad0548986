// SPDX-License-Identifier: Apache-2.0
// This program's calls of `socket` and `send`: counted, and refused where a test wants that.
// Sanitizers and the C library need descriptors themselves, so they keep theirs.
#pragma once

#include <atomic>
#include <cstdint>

namespace hawser::test {

// While it is set, nobody gets a socket.
inline std::atomic<bool> out_of_descriptors{false};
inline std::atomic<std::uint64_t> sockets_asked_for{0};
// The UDP driver sends datagrams by other calls, and asks netlink by this one.
inline std::atomic<std::uint64_t> questions_sent{0};

}  // namespace hawser::test
