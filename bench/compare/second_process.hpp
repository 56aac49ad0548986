// SPDX-License-Identifier: Apache-2.0
// The second process of a comparison: the same program with the same arguments, and with the option
// `--peer-fd N`, its end of the wire.
#pragma once

#include <sys/types.h>

#include "bench/compare/wire.hpp"

namespace hawser::bench {

class SecondProcess {
 public:
  // Throws Failure. The process is killed if this one dies.
  SecondProcess(int argc, char** argv);
  // Closes the wire, which ends the process, and waits for that.
  ~SecondProcess() { (void)wait(); }
  SecondProcess(const SecondProcess&) = delete;
  SecondProcess& operator=(const SecondProcess&) = delete;

  [[nodiscard]] Wire wire() const { return Wire(fd_); }
  // The same as the destructor. Returns whether the process ended well.
  bool wait();

 private:
  int fd_ = -1;
  pid_t child_ = -1;
  bool ended_well_ = false;
};

}  // namespace hawser::bench
