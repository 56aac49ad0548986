// SPDX-License-Identifier: Apache-2.0
// The real protocol over the packet-level fabric: two hosts, and hand calculation of their rates.
#include "sim/experiment/fabric_host.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "sim/core/pool.hpp"
#include "sim/fabric/faults.hpp"

namespace hawser::experiment {
namespace {

using fabric::EventWheel;
using fabric::Instant;
using fabric::kGigabit;
using fabric::Network;
using fabric::Shape;

constexpr std::size_t kHeaderRoom = 128;
constexpr std::uint32_t kMessages = 4;

proto::EndpointConfig endpoint(std::uint64_t id) {
  proto::EndpointConfig config;
  config.endpoint_id = id;
  config.epoch = 1;
  config.seed = id;
  return config;
}

// The hosts of a shape, in its ports in order. All payload is read from and written to one place.
struct World {
  EventWheel events;
  Network network;
  sim::Pool pool{1024};
  ViewSlots slots{NicConfig{}.max_datagram_bytes};
  std::vector<std::unique_ptr<FabricHost>> hosts;
  std::vector<std::vector<Completion>> done;
  std::vector<Instant> last_done;
  std::vector<std::byte> memory;

  World(const Shape& shape, std::size_t bytes)
      : network(events, shape, 1, kHeaderRoom),
        done(shape.hosts),
        last_done(shape.hosts),
        memory(bytes) {
    for (std::uint32_t host = 0; host < shape.hosts; ++host) {
      HostConfig config;
      config.endpoint = endpoint(host + 1);
      for (std::uint32_t nic = 0; nic < shape.nics; ++nic) {
        config.ports.push_back(network.wiring().port(host, nic));
      }
      hosts.push_back(std::make_unique<FabricHost>(HostsShare{events, network, pool, slots}, config,
                                                   [this, host] { collect(host); }));
    }
  }
  void collect(std::uint32_t host) {
    std::array<Completion, 16> completions;
    while (const std::size_t n = hosts[host]->endpoint().poll_completions(completions)) {
      done[host].insert(done[host].end(), completions.begin(), completions.begin() + n);
      last_done[host] = events.now();
    }
  }
  PeerId connect(std::uint32_t from, std::uint32_t to) {
    std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
    const std::size_t bytes = hosts[to]->endpoint().write_address(blob);
    PeerId peer{};
    REQUIRE(hosts[from]->endpoint().connect(hosts[from]->now(), std::span(blob).first(bytes),
                                            peer) == Status::ok);
    return peer;
  }
  void send(std::uint32_t from, PeerId to, std::uint32_t number, std::uint64_t bytes) {
    proto::SendRequest request;
    request.operation = OperationId{number};
    request.peer = to;
    request.tag = number;
    request.data = memory.data();
    request.bytes = bytes;
    REQUIRE(hosts[from]->endpoint().send(hosts[from]->now(), request) == Status::ok);
    hosts[from]->wake();
  }
  void receive(std::uint32_t at, std::uint32_t number, std::uint64_t bytes) {
    proto::ReceiveRequest request;
    request.operation = OperationId{number};
    request.tag = number;
    request.data = memory.data();
    request.bytes = bytes;
    REQUIRE(hosts[at]->endpoint().receive(hosts[at]->now(), request) == Status::ok);
    hosts[at]->wake();
  }
  // Runs until that many completions are there, for a second at most.
  void run(std::uint32_t host, std::size_t completions) {
    const Instant end = events.now() + fabric::microseconds(1'000'000);
    while (done[host].size() < completions && events.next() < end) events.step();
  }
};

// Sends and receives at both ends; returns the time of the transfer in us.
double transfer(World& world, std::uint64_t bytes) {
  const PeerId peer = world.connect(0, 1);
  // Afterwards the session is up, and windows have grown.
  world.receive(1, 1000, bytes);
  world.send(0, peer, 1000, bytes);
  world.run(0, 1);
  REQUIRE(world.done[0].size() == 1);
  const Instant begin = world.events.now();
  for (std::uint32_t i = 0; i < kMessages; ++i) world.receive(1, i, bytes);
  for (std::uint32_t i = 0; i < kMessages; ++i) world.send(0, peer, i, bytes);
  world.run(1, 1 + kMessages);
  world.run(0, 1 + kMessages);
  for (const std::uint32_t host : {0u, 1u}) {
    REQUIRE(world.done[host].size() == 1 + kMessages);
    for (const Completion& one : world.done[host]) {
      CHECK(one.status == Status::ok);
      CHECK(one.released);
    }
  }
  return static_cast<double>((world.last_done[1] - begin).ps) / 1e6;
}

TEST_CASE("fabric_host__two_hosts_exchange_messages_by_the_real_protocol") {
  World world(fabric::one_switch(2, 100 * kGigabit, fabric::microseconds(1)), 1 << 20);
  const double us = transfer(world, 1 << 20);
  const EndpointStats stats = world.hosts[0]->endpoint().stats();
  CHECK(stats.fragments_retransmitted == 0);
  CHECK(stats.data_packets_sent >= 5 * 256);
  CHECK(world.network.totals().dropped == 0);
  // The time of its packets on the cable, headers included. The transfer is not faster, and not
  // much slower.
  const double wire = kMessages * 256 * (4096 + 40 + 90) * 80e-6;
  CHECK(us > wire);
  CHECK(us < 1.05 * wire);
  // The hosts' shared pools stay small.
  CHECK(world.slots.made() <= 64);
  CHECK(world.slots.lent() == 0);  // between turns
  CHECK(world.pool.in_use() == 0);
}

TEST_CASE("fabric_host__loss_is_repaired_and_two_nics_carry_more_than_one") {
  Shape shape = fabric::one_switch(4, 100 * kGigabit, fabric::microseconds(1));
  shape.hosts = 2;
  shape.nics = 2;
  World world(shape, 1 << 22);
  const double two = transfer(world, 1 << 22);
  CHECK(two < 0.55 * kMessages * 1024 * (4096 + 40 + 90) * 80e-6);
  World lossy(shape, 1 << 22);
  fabric::Faults faults(
      lossy.events, lossy.network,
      {{.kind = fabric::Fault::Kind::link_loss, .target = 0, .probability = 0.01}});
  (void)transfer(lossy, 1 << 22);
  CHECK(lossy.network.totals().lost > 10);
  CHECK(lossy.hosts[0]->endpoint().stats().fragments_retransmitted > 10);
}

// Two runs are the same, and hosts at rest make no turns.
TEST_CASE("fabric_host__a_run_depends_on_its_inputs_alone_and_idle_hosts_cost_nothing") {
  std::array<std::uint64_t, 2> digests{};
  for (std::uint64_t& digest : digests) {
    World world(fabric::one_switch(64, 100 * kGigabit, fabric::microseconds(1)), 1 << 18);
    (void)transfer(world, 1 << 18);
    digest = world.network.digest();
    for (std::uint32_t host = 2; host < 64; ++host) CHECK(world.hosts[host]->turns() <= 2);
  }
  CHECK(digests[0] == digests[1]);
}

}  // namespace
}  // namespace hawser::experiment
