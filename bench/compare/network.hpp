// SPDX-License-Identifier: Apache-2.0
// A network namespace of this process's own, whose loopback drops packets.
#pragma once

namespace hawser::bench {

// Puts this thread, and the processes that it starts, into a new network namespace. Its loopback is
// up with this MTU. Segmentation offload is off, so that a rule drops single packets rather than
// whole aggregates. Throws std::runtime_error that names what is missing.
void enter_lossy_network(unsigned mtu);

// Drops this share of the packets over loopback from now on, whichever transport sent them. The
// rule is there for a share of 0 too, because the rule itself costs something.
void lose_packets(double share);

}  // namespace hawser::bench
