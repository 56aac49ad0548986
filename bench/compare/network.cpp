// SPDX-License-Identifier: Apache-2.0
#include "bench/compare/network.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace hawser::bench {

namespace {

// Callers pass only constants and numbers, so a command needs no quoting.
void run(const std::string& command) {
  const std::string line = "PATH=$PATH:/usr/sbin:/sbin; " + command + " >/dev/null 2>&1";
  if (std::system(line.c_str()) != 0) throw std::runtime_error("this failed: " + command);
}

void demand(const char* program, const char* package) {
  try {
    run(std::string("command -v ") + program);
  } catch (const std::runtime_error&) {
    throw std::runtime_error(std::string("--loss needs the program ") + program +
                             " (Debian's package " + package + ", or ./setup.sh compare)");
  }
}

}  // namespace

void enter_lossy_network(unsigned mtu) {
  if (::geteuid() != 0) {
    throw std::runtime_error("--loss needs root, for a network namespace of its own");
  }
  demand("ip", "iproute2");
  demand("ethtool", "ethtool");
  demand("iptables", "iptables");
  if (::unshare(CLONE_NEWNET) != 0) {
    throw std::runtime_error("--loss needs a network namespace, and unshare refuses one");
  }
  run(fmt::format("ip link set lo mtu {} up", mtu));
  run("ethtool -K lo tso off gso off gro off tx-udp-segmentation off");
}

void lose_packets(double share) {
  run("iptables -F INPUT");
  // The rule is there without loss too: the rule alone costs transports of many packets some
  // percent.
  run(fmt::format("iptables -A INPUT -i lo -m statistic --mode random --probability {:.9f} -j DROP",
                  share));
}

}  // namespace hawser::bench
