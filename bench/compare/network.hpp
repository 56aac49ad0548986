// SPDX-License-Identifier: Apache-2.0
// A network namespace of this process's own, whose loopback loses packets.
#pragma once

namespace hawser::bench {

// Puts this thread, and the processes that it starts, into a new network namespace: its loopback is
// up with this MTU, and segmentation offload is off, so that a rule drops single packets and not
// what was sent with one call. Throws std::runtime_error with what is missing.
void enter_lossy_network(unsigned mtu);

// From now on this share of the packets over loopback is dropped, whichever transport's: by a rule
// that is there for a share of 0 too, as it costs something itself.
void lose_packets(double share);

}  // namespace hawser::bench
