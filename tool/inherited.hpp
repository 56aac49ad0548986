// SPDX-License-Identifier: Apache-2.0
// What a process gets from the one that started it, made what the command counts on.
#pragma once

namespace hawser::tool {

// For the first line of main().
//
// Standard descriptors that the caller closed are opened, else the next socket or file gets their
// number and what is printed goes there. Reading finds the end at once; writing to standard output
// fails, as it does without a descriptor; what goes to standard error is dropped.
//
// Children are waited for (who ignores SIGCHLD, as some supervisors do, is never told of their
// end), no signal is blocked, and a file that may not grow (`ulimit -f`) is an error and no death.
void take_up_inheritance();

}  // namespace hawser::tool
