// SPDX-License-Identifier: Apache-2.0
// Puts right what a process inherits, so that the command can count on it.
#pragma once

namespace hawser::tool {

// For the first line of main().
//
// Opens standard descriptors that the caller closed. Otherwise the next socket or file would get
// their number, and printed text would go there. Reading finds the end at once; writing to standard
// output fails, as it does without a descriptor; text for standard error is dropped.
//
// Makes children waitable: a process that ignores SIGCHLD, as some supervisors do, never hears of
// their end. Unblocks all signals. A file that may not grow (`ulimit -f`) becomes an error and
// doesn't kill the process.
void take_up_inheritance();

}  // namespace hawser::tool
