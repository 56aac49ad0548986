// SPDX-License-Identifier: Apache-2.0
// The conformance suite over RDMA devices: soft RoCE at the two ends of a cable (test/vm/), or the
// ports that the caller names (rdma_ports.hpp).
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "test/engine/driver/conformance/verbs_config.hpp"
#include "test/engine/rdma_ports.hpp"

namespace hawser::test {

// Packets that the two devices have sent and received so far. Only soft RoCE has these counters.
// Other devices seem quiet, but their packets take only microseconds.
inline std::uint64_t rdma_packets() {
  std::uint64_t sum = 0;
  for (const std::string& port : rdma_ports()) {
    const std::string device = engine::parse_verbs_port(port).device;
    for (const char* const counter : {"sent_pkts", "rcvd_pkts"}) {
      std::ifstream file("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + counter);
      std::uint64_t count = 0;
      file >> count;
      sum += count;
    }
  }
  return sum;
}

// Every second NIC is at the other end of the cable. The functions that change cables and devices
// work on soft RoCE only.
template <Registered kRegistered>
class VerbsRig final : public RigBase {
 public:
  static constexpr int kSeeds = 1;  // emulated processors are slow

  [[nodiscard]] bool holds() const override { return true; }

  // Marks ECN-capable packets, and would drop all others.
  void mark(bool marked) {
    run(marked ? "tc qdisc add dev a0 root netem loss 100% ecn" : "tc qdisc del dev a0 root");
  }
  // Both ends of the cable notice the new state.
  void set_link(const std::string& interface, const std::string& state) {
    run("ip link set " + interface + " " + state);
  }
  // The device adopts the MTU of its interface when the interface comes up.
  void set_mtu(const std::string& interface, const std::string& bytes) {
    set_link(interface, "down mtu " + bytes);
    set_link(interface, "up");
  }
  // Deletes the device, with its link down. The kernel waits until every user has closed the
  // device, so the command runs in the background: is_removed tells when it has succeeded.
  void remove_device(const std::string& interface) {
    set_link(interface, "down");
    run("rdma link delete rxe_" + interface + " &");
  }
  [[nodiscard]] bool is_removed(const std::string& interface) const {
    return ::access(("/sys/class/infiniband/rxe_" + interface).c_str(), F_OK) != 0;
  }
  void add_device(const std::string& interface) {
    run("rdma link add rxe_" + interface + " type rxe netdev " + interface);
    set_link(interface, "up");
  }
  // Makes a neighbour at the other end of a0's cable answer for `address`.
  void add_neighbour(const std::string& address) {
    run("ip -6 neigh replace " + address + " lladdr 02:00:00:00:00:01 dev a0");
  }

 private:
  static void run(const std::string& command) {
    INFO(command);
    INFO("HAWSER_TEST_PORTS names devices: leave this out with ~[soft]");
    REQUIRE(named_rdma_ports() == nullptr);
    REQUIRE(std::system(command.c_str()) == 0);
  }
  std::unique_ptr<Nic> make_nic() override {
    return make_verbs_nic(verbs_config(ports_[made_++ % 2]), kRegistered, pool);
  }
  // A device that counts no packet for some milliseconds has none in flight.
  void let_arrive() override {
    const std::uint64_t posted = all_posted();
    if (posted == posted_before_) return;
    posted_before_ = posted;
    constexpr int kQuietMilliseconds = 4;
    constexpr int kQuietRounds = 5;
    std::uint64_t before = rdma_packets();
    for (int quiet = 0; quiet < kQuietRounds;) {
      (void)::poll(nullptr, 0, kQuietMilliseconds);
      const std::uint64_t now = rdma_packets();
      quiet = now == before ? quiet + 1 : 0;
      before = now;
    }
  }
  [[nodiscard]] std::uint64_t all_posted() const {
    std::uint64_t sum = 0;
    for (const auto& nic : nics()) {
      const auto& verbs = dynamic_cast<const engine::VerbsNic&>(*nic);
      for (const Queue queue : {Queue::data, Queue::control}) {
        sum += verbs.stats(queue).send.datagrams;
      }
    }
    return sum;
  }
  std::vector<std::string> ports_ = present_rdma_ports();
  std::size_t made_ = 0;
  std::uint64_t posted_before_ = 0;
};

using BareVerbsRig = VerbsRig<Registered::nothing>;
using PooledVerbsRig = VerbsRig<Registered::headers>;

#define HAWSER_RIGS BareVerbsRig, PooledVerbsRig

}  // namespace hawser::test
