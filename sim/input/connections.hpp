// SPDX-License-Identifier: Apache-2.0
// Connection matrices from .cm files, as htsim and REPS write them.
//
//   Nodes 16
//   Connections 2
//   Triggers 1                                          if left out: 0
//   0->1 id 1 start 0 size 2000000 send_done_trigger 1
//   1->2 id 2 trigger 1 size 2000000
//   trigger id 1 oneshot                                or multishot, or barrier count N
//
// A connection has `size` in bytes, and either `start` or `trigger`. Optional are `id`,
// `send_done_trigger`, `recv_done_trigger` and `prio` (which is read and not used). `start` is in
// picoseconds: the format's own reader says so, and only then do the published all-to-alls begin at
// 1 us; some generators write it as a float. `msg`, with a number or without, marks the line as one
// of several messages of the connection `id`. The reader makes each message a connection of its
// own. Lines that begin with '#' are comments. The reader refuses `failure` and a size of 0, which
// htsim sends without an end: neither means anything here.
#pragma once

#include <string>
#include <string_view>

#include "sim/traffic/connection_matrix.hpp"

namespace hawser::fabric {

// Throws InputError with file, line and what to do, also for connections that would never start.
[[nodiscard]] ConnectionMatrix read_connections(const std::string& name, std::string_view content);

}  // namespace hawser::fabric
