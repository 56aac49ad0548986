// SPDX-License-Identifier: Apache-2.0
// Which ports of RDMA devices the verbs NICs of the tests use.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace hawser::test {

// The ports that HAWSER_TEST_PORTS names, or null. Tests that pull cables, delete devices or have
// the network mark packets are made for soft RoCE, and tagged [soft].
inline const char* named_rdma_ports() { return std::getenv("HAWSER_TEST_PORTS"); }

// The two ends of a cable, and maybe those of another one: the ports of soft RoCE and of the
// double, or those in HAWSER_TEST_PORTS. That lists ports as in --nic verbs:PORT, separated by
// commas. Each end reaches the other; both may be the same port.
inline std::vector<std::string> rdma_ports() {
  const char* const named = named_rdma_ports();
  std::istringstream text(named != nullptr ? named : "rxe_a0,rxe_b0,rxe_a1,rxe_b1");
  std::vector<std::string> ports;
  for (std::string port; std::getline(text, port, ',');) ports.push_back(port);
  if (ports.size() == 2 || ports.size() == 4) return ports;
  throw std::invalid_argument(
      "HAWSER_TEST_PORTS names " + std::to_string(ports.size()) +
      " ports; two are the ends of a cable, four those of two: mlx5_0,mlx5_1");
}

// The same ports, but only those of devices that the kernel has.
inline std::vector<std::string> present_rdma_ports() {
  std::vector<std::string> ports = rdma_ports();
  for (const std::string& port : ports) {
    const std::string device = port.substr(0, port.find_first_of(":@"));
    if (std::filesystem::exists("/sys/class/infiniband/" + device)) continue;
    throw std::runtime_error(
        "this host has no RDMA device " + device +
        "; `test/vm/run.py THIS_PROGRAM` runs these tests in an emulated machine that has it, and "
        "HAWSER_TEST_PORTS names other ports (docs/internals/verbs_hardware.md)");
  }
  return ports;
}

}  // namespace hawser::test
