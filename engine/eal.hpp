// DPDK's environment abstraction layer, which rte_mempool needs.
//
// It is initialised once a process, on first need, in the form that a library may choose for
// others: no hugepages, no device probing (it would take the machine's real NICs), no files shared
// with other processes, no telemetry socket, errors only in its log. An application that has
// initialised it already keeps its own. It adds one thread of its own, and can't be undone: it ends
// with the process. After fork a child has no EAL thread, so start ranks by exec.
#pragma once

namespace hawser::engine {

// Throws hawser::Error; a process in which it failed once gets the same error again. Any thread;
// the calling thread's CPU affinity is what it was.
void ensure_eal();

}  // namespace hawser::engine
