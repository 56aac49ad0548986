// SPDX-License-Identifier: Apache-2.0
// Packets as text, for traces and test failures. Allocates: not for the datapath.
#pragma once

#include <string>
#include <string_view>

#include "proto/wire/packet.hpp"

namespace hawser::proto::wire {

[[nodiscard]] std::string_view to_string(MessageStatus status);

// One line: type, then every field of the type, then the blocks, then the payload's length. It
// leaves out tokens, cookies and MACs, so that a trace may be shared:
//   `DATA to 7 nic 1 path 2.0 number 17 back 3 floor 4 | message 5 fragment 0 | tag 0x2a ... | 4096
//   B`
[[nodiscard]] std::string describe(const PacketView& packet);

}  // namespace hawser::proto::wire
