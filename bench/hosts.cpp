// SPDX-License-Identifier: Apache-2.0
// Question: what do hosts that run the whole protocol cost on the fabric of experiments, and what
// decides how many fit? Metric: resident bytes of a host when it is made, with a session each way,
// and at the end of a permutation. In it each host sends one message to one other; leaf-spine, 400
// Gb/s, 1 us a cable. Also CPU-time in total, and for a data packet, a turn and a packet-hop. All
// of it with the default limits, and with limits for hosts of few peers. Nothing else differs from
// the defaults, so flows end as the shipped protocol ends them. Runtime: 60 s for these two,
// `--large` adds 8192 hosts; `--short`: 64 hosts, for the tests. The output ends with a digest of
// what arrived.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "proto/base/random.hpp"
#include "sim/core/pool.hpp"
#include "sim/experiment/fabric_host.hpp"

namespace {

using namespace hawser;
using experiment::FabricHost;

double cpu_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long size = 0;
  unsigned long resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &size, &resident) != 2) std::abort();
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

struct Case {
  const char* name;
  std::uint32_t leaves;
  std::uint32_t ports;  // of a leaf; also the number of spines
  std::uint64_t bytes;
  bool few_peers;
};

Tunables tunables(bool few_peers) {
  Tunables tunables;
  if (!few_peers) return tunables;
  tunables.max_peers = 8;
  tunables.max_operations = 64;
  tunables.max_messages_per_peer = 64;
  tunables.max_in_flight_packets = 1024;
  tunables.max_receive_messages = 64;
  tunables.max_bulk_paths = 64;
  tunables.max_outstanding_handshakes = 8;
  tunables.max_half_open_sessions = 8;
  tunables.unexpected_bytes = 1 << 18;
  return tunables;
}

class Run {
 public:
  explicit Run(const Case& which)
      : which_(which),
        network_(events_,
                 fabric::leaf_spine(which.leaves, which.ports, which.ports, 400 * fabric::kGigabit,
                                    fabric::microseconds(1)),
                 1, kHeaderRoom),
        memory_(which.bytes),
        to_(network_.wiring().ports()),
        peers_(to_.size()),
        received_(to_.size(), fabric::kNever) {
    for (std::uint32_t i = 0; i < to_.size(); ++i) to_[i] = i;
    proto::Random random(1);
    // Sattolo's algorithm: one cycle, so that no host sends to itself.
    for (auto i = static_cast<std::uint32_t>(to_.size()) - 1; i > 0; --i) {
      std::swap(to_[i], to_[random.below(i)]);
    }
  }

  void run() {
    const double empty = resident_bytes();
    double begin = cpu_seconds();
    make_hosts();
    const double made = per_host(empty);
    const double making = cpu_seconds() - begin;
    connect();
    exchange(8);
    const double connected = per_host(empty);
    begin = cpu_seconds();
    const std::uint64_t hops = network_.hops();
    const std::uint64_t turns = sum(&FabricHost::turns);
    const std::uint64_t packets = data_packets();
    const fabric::Instant start = events_.now();
    exchange(which_.bytes);
    const double seconds = cpu_seconds() - begin;
    std::ranges::sort(received_);
    fmt::print("{}: {} hosts, {} bytes each\n", which_.name, to_.size(), which_.bytes);
    fmt::print("  a host: {:.0f} bytes when made ({:.0f} us), {:.0f} connected, {:.0f} after all\n",
               made, making * 1e6 / static_cast<double>(to_.size()), connected, per_host(empty));
    const auto us = [&](fabric::Instant at) { return static_cast<double>((at - start).ps) / 1e6; };
    fmt::print(
        "  received: first {:.1f}, median {:.1f}, last {:.1f} us; {} retransmitted, {} dropped\n",
        us(received_.front()), us(received_[received_.size() / 2]), us(received_.back()),
        retransmitted(), network_.totals().dropped);
    const auto share = [&](std::uint64_t count) {
      return seconds * 1e9 / static_cast<double>(count);
    };
    const std::uint64_t moved = data_packets() - packets;
    fmt::print(
        "  {:.2f} CPU-s: {:.0f} ns for each of {} data packets, {:.0f} of {} turns, {:.0f} of {} "
        "hops\n",
        seconds, share(moved), moved, share(sum(&FabricHost::turns) - turns),
        sum(&FabricHost::turns) - turns, share(network_.hops() - hops), network_.hops() - hops);
    fmt::print("  {} packets at once, {} with long headers, {} view slots, digest {:016x}\n",
               network_.packets().made(), network_.packets().blocks_made(), slots_.made(),
               network_.digest());
  }

 private:
  static constexpr std::size_t kHeaderRoom = 128;

  void make_hosts() {
    for (std::uint32_t i = 0; i < to_.size(); ++i) {
      experiment::HostConfig config;
      config.endpoint.tunables = tunables(which_.few_peers);
      config.endpoint.endpoint_id = config.endpoint.seed = i + 1;
      config.endpoint.epoch = 1;
      config.ports = {i};
      hosts_.push_back(
          std::make_unique<FabricHost>(experiment::HostsShare{events_, network_, pool_, slots_},
                                       config, [this, i] { collect(i); }));
    }
  }
  void collect(std::uint32_t host) {
    std::array<Completion, 8> completions;
    const std::size_t count = hosts_[host]->endpoint().poll_completions(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].status != Status::ok) std::abort();
      ++done_;
      if (completions[i].kind == OperationKind::receive) received_[host] = events_.now();
    }
  }
  void connect() {
    for (std::uint32_t i = 0; i < to_.size(); ++i) {
      std::array<std::byte, proto::Endpoint::kMaxAddressBytes> blob;
      const std::size_t bytes = hosts_[to_[i]]->endpoint().write_address(blob);
      if (hosts_[i]->endpoint().connect(hosts_[i]->now(), std::span(blob).first(bytes),
                                        peers_[i]) != Status::ok) {
        std::abort();
      }
    }
  }
  // Each host sends one message; returns when all have ended.
  void exchange(std::uint64_t bytes) {
    done_ = 0;
    for (std::uint32_t i = 0; i < to_.size(); ++i) {
      proto::ReceiveRequest receive;
      receive.operation = OperationId{1};
      receive.data = memory_.data();
      receive.bytes = bytes;
      proto::SendRequest send;
      send.operation = OperationId{2};
      send.peer = peers_[i];
      send.data = memory_.data();
      send.bytes = bytes;
      proto::Endpoint& endpoint = hosts_[i]->endpoint();
      if (endpoint.receive(hosts_[i]->now(), receive) != Status::ok ||
          endpoint.send(hosts_[i]->now(), send) != Status::ok) {
        std::abort();
      }
      hosts_[i]->wake();
    }
    while (done_ < 2 * to_.size()) events_.step();
  }
  [[nodiscard]] double per_host(double empty) const {
    return (resident_bytes() - empty) / static_cast<double>(to_.size());
  }
  template <typename Count>
  [[nodiscard]] std::uint64_t sum(Count count) const {
    std::uint64_t all = 0;
    for (const auto& host : hosts_) all += ((*host).*count)();
    return all;
  }
  [[nodiscard]] std::uint64_t data_packets() const {
    std::uint64_t all = 0;
    for (const auto& host : hosts_) all += host->endpoint().stats().data_packets_sent;
    return all;
  }
  [[nodiscard]] std::uint64_t retransmitted() const {
    std::uint64_t all = 0;
    for (const auto& host : hosts_) all += host->endpoint().stats().fragments_retransmitted;
    return all;
  }

  Case which_;
  fabric::EventWheel events_;
  fabric::Network network_;
  sim::Pool pool_{4096};
  experiment::ViewSlots slots_{experiment::NicConfig{}.max_datagram_bytes};
  std::vector<std::byte> memory_;  // all messages are read from it and written to it
  std::vector<std::uint32_t> to_;
  std::vector<PeerId> peers_;
  std::vector<fabric::Instant> received_;
  std::vector<std::unique_ptr<FabricHost>> hosts_;
  std::uint64_t done_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  std::vector<Case> cases = {{"few peers", 8, 8, 200'000, true}};
  if (how != "--short") {
    cases = {{"default limits", 32, 32, 1'000'000, false}, {"few peers", 32, 32, 1'000'000, true}};
  }
  if (how == "--large") cases.push_back({"few peers", 128, 64, 1'000'000, true});
  for (const Case& one : cases) Run(one).run();
  return 0;
}
