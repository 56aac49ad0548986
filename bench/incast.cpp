// SPDX-License-Identifier: Apache-2.0
// Question: when many send to one at once, does the receiver lose packets in its own sockets, and
// is it as fast as with one sender? Metric: GB/s of 4 MiB messages over UDP on loopback from 31
// endpoints, against the same number of bytes from one of them; medians of rounds that alternate.
// Also the datagrams or aggregates that the receiver's sockets dropped (overruns), and the
// fragments that were retransmitted. Two threads: the receiver has one, and all senders take turns
// on the other. Runtime: 15 s. `--short` moves less, for the tests. The hash is over the last
// message that was received.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hawser/engine.hpp"

namespace {

using namespace hawser;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSenders = 31;

struct Plan {
  std::size_t bytes = 4 << 20;
  std::uint32_t rounds = 7;
  std::uint32_t messages_per_sender = 3;  // of 31 senders; a single one sends as many in all
};

EngineConfig engine_config(std::uint32_t node) {
  EngineConfig config;
  config.nics.push_back("udp:127.0.0." + std::to_string(1 + node));
  config.tunables.max_peers = node == 0 ? 64 : 4;
  config.tunables.max_operations = 256;
  config.tunables.max_receive_messages = 256;
  config.tunables.unexpected_bytes = 8 << 20;
  config.tunables.close_timeout_ms = 50;  // the last one to close gets no answer
  return config;
}

[[noreturn]] void fail(std::string_view what) { throw Error("incast: " + std::string(what)); }

class Node {
 public:
  explicit Node(std::uint32_t number)
      : engine_(engine_config(number)), endpoint(engine_.create_endpoint({})) {}

  // Returns the number of completions of this poll; all must be ok.
  std::size_t poll() {
    std::array<Completion, 64> completions;
    const std::size_t n = endpoint->poll(completions);
    for (std::size_t i = 0; i < n; ++i) {
      if (completions[i].status != Status::ok) fail(to_string(completions[i].status));
    }
    return n;
  }

 private:
  Engine engine_;

 public:
  std::unique_ptr<Endpoint> endpoint;
};

struct Figures {
  double gb_per_s = 0;
  std::uint64_t overruns = 0;
  std::uint64_t again = 0;
};

class Incast {
 public:
  explicit Incast(const Plan& plan)
      : plan_(plan), payload_(plan.bytes), buffer_(plan.bytes), peers_(kSenders) {
    for (std::uint32_t i = 0; i <= kSenders; ++i) nodes_.push_back(std::make_unique<Node>(i));
    for (std::size_t i = 0; i < payload_.size(); ++i) {
      payload_[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    }
    for (std::uint32_t i = 1; i <= kSenders; ++i) {
      if (nodes_[i]->endpoint->connect(nodes_[0]->endpoint->address(), peers_[i - 1]) !=
          Status::ok) {
        fail("connect");
      }
    }
    (void)run(kSenders, 1);  // opens the sessions and touches the buffers' pages
  }

  // Moves `count` messages from each of the first `senders`.
  Figures run(std::uint32_t senders, std::uint32_t count) {
    const std::uint32_t all = senders * count;
    const std::uint64_t overruns = nodes_[0]->endpoint->stats().host_overruns;
    const std::uint64_t again = sent_again();
    std::atomic<bool> over = false;
    std::thread sending([&] { send(senders, count, over); });
    const Clock::time_point begin = Clock::now();
    for (std::uint32_t posted = 0, received = 0; received < all;) {
      for (; posted < all && posted < received + 64; ++posted) {
        OperationId operation{};
        if (nodes_[0]->endpoint->receive(
                {.tag = 1, .data = buffer_.data(), .bytes = buffer_.size()}, operation) !=
            Status::ok) {
          break;
        }
      }
      received += static_cast<std::uint32_t>(nodes_[0]->poll());
    }
    const std::chrono::duration<double> time = Clock::now() - begin;
    while (!over.load()) (void)nodes_[0]->poll();  // senders may wait for statuses
    sending.join();
    Figures figures;
    figures.gb_per_s = static_cast<double>(plan_.bytes) * all / time.count() / 1e9;
    figures.overruns = nodes_[0]->endpoint->stats().host_overruns - overruns;
    figures.again = sent_again() - again;
    return figures;
  }

  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t hash = 1469598103934665603u;
    for (const std::byte byte : buffer_) {
      hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
    }
    return hash;
  }
  [[nodiscard]] bool is_whole() const { return payload_ == buffer_; }

 private:
  void send(std::uint32_t senders, std::uint32_t count, std::atomic<bool>& over) {
    std::vector<std::uint32_t> posted(senders, 0);
    for (std::uint32_t done = 0; done < senders * count;) {
      for (std::uint32_t i = 0; i < senders; ++i) {
        Endpoint& endpoint = *nodes_[i + 1]->endpoint;
        while (posted[i] < count) {
          OperationId operation{};
          if (endpoint.send(
                  {.peer = peers_[i], .tag = 1, .data = payload_.data(), .bytes = payload_.size()},
                  operation) != Status::ok) {
            break;
          }
          ++posted[i];
        }
        done += static_cast<std::uint32_t>(nodes_[i + 1]->poll());
      }
    }
    over = true;
  }

  [[nodiscard]] std::uint64_t sent_again() const {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 1; i <= kSenders; ++i) {
      sum += nodes_[i]->endpoint->stats().fragments_retransmitted;
    }
    return sum;
  }

  Plan plan_;
  std::vector<std::byte> payload_;
  std::vector<std::byte> buffer_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<PeerId> peers_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (argc > 1 && std::string_view(argv[1]) == "--short") {
    plan = {.bytes = 512 << 10, .rounds = 1, .messages_per_sender = 1};
  }
  Incast incast(plan);
  std::array<std::vector<double>, 2> rates;
  std::array<Figures, 2> sums;
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    for (const std::size_t many : {0u, 1u}) {
      const Figures figures = many != 0 ? incast.run(kSenders, plan.messages_per_sender)
                                        : incast.run(1, kSenders * plan.messages_per_sender);
      rates[many].push_back(figures.gb_per_s);
      sums[many].overruns += figures.overruns;
      sums[many].again += figures.again;
    }
  }
  for (const std::size_t many : {0u, 1u}) {
    fmt::print("{:2} sender{} {:.2f} GB/s, {} overruns, {} fragments of {} sent again\n",
               many != 0 ? kSenders : 1, many != 0 ? "s" : " ", median(rates[many]),
               sums[many].overruns, sums[many].again,
               plan.rounds * kSenders * plan.messages_per_sender * (plan.bytes / 4096));
  }
  fmt::print("ratio {:.2f}; hash {:016x}\n", median(rates[1]) / median(rates[0]), incast.hash());
  return incast.is_whole() ? 0 : 1;
}
