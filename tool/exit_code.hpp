// SPDX-License-Identifier: Apache-2.0
// How the command ends; scripts rely on the numbers.
#pragma once

namespace hawser::tool {

enum class ExitCode : int {
  ok = 0,
  wrong = 1,  // a wrong byte, a lost or doubled message, a leaked packet, no end in time, a crash
  bad_input = 2,      // options, files, addresses, too little memory
  peer_failed = 3,    // a rank died or could not be reached
  interrupted = 130,  // Ctrl-C, as shells have it
};

}  // namespace hawser::tool
