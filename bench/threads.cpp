// SPDX-License-Identifier: Apache-2.0
// Question: do two engine threads carry twice what one does, and how soon does a thread that sleeps
// in wait() hear of a message? Metrics:
// * GB/s of 1 MiB messages between two pairs of endpoints of one engine with one or two threads,
//   over memory NICs. Medians of rounds that alternate.
// * Microseconds from send() to the return of the receiver's wait(), over UDP on loopback, for
//   messages of 8 bytes that come a millisecond apart. Median and 99th percentile of three
//   receivers. The first polls without a break. The second sleeps, with inline progress. The third
//   is behind an engine thread, where both sleep.
// * Processor time of an endpoint in which nothing happens for a second.
// Runtime: 20 s. `--short` does less, for the tests.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hawser/engine.hpp"

namespace {

using namespace hawser;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairs = 2;
constexpr std::uint64_t kPatience = 10'000'000'000;  // ns
constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};

struct Plan {
  std::size_t bytes = 1 << 20;
  std::uint32_t messages = 2000;  // of a pair, in a round
  std::uint32_t rounds = 7;
  std::uint32_t wakes = 1000;
  std::chrono::milliseconds idle{1000};
};

[[noreturn]] void fail(std::string_view what) { throw Error("threads: " + std::string(what)); }

EngineConfig engine_config(const std::string& nic, unsigned threads) {
  EngineConfig config;
  config.nics = {nic};
  config.threads = threads;
  config.tunables.max_peers = 4;
  config.tunables.max_operations = 256;
  config.tunables.close_timeout_ms = 50;  // the last one to close gets no answer
  return config;
}

// One side of a pair, in a thread of its own. It keeps some messages under way until all are done.
template <class Post>
void carry(Endpoint& endpoint, std::uint32_t messages, Post post) {
  constexpr std::uint32_t kUnderWay = 8;
  std::array<Completion, kUnderWay> completions;
  for (std::uint32_t posted = 0, done = 0; done < messages;) {
    for (; posted < messages && posted < done + kUnderWay; ++posted) {
      if (post() != Status::ok) fail("a message was refused");
    }
    const std::size_t n = endpoint.wait(completions, kPatience);
    if (n == 0) fail("a message did not arrive");
    for (std::size_t i = 0; i < n; ++i) {
      if (completions[i].status != Status::ok) fail(to_string(completions[i].status));
    }
    done += static_cast<std::uint32_t>(n);
  }
}

// Both endpoints of a pair are on one engine thread: a new endpoint goes to the thread with the
// fewest.
class Pairs {
 public:
  Pairs(unsigned threads, std::size_t bytes)
      : bytes_(bytes), engine_(engine_config("memory:threads", threads)) {
    for (std::size_t i = 0; i < 2 * kPairs; ++i) endpoints_.push_back(engine_.create_endpoint({}));
    for (std::size_t i = 0; i < kPairs; ++i) {
      payloads_.emplace_back(bytes, std::byte{1});
      buffers_.emplace_back(bytes);
      if (endpoints_[i]->connect(endpoints_[kPairs + i]->address(), peers_[i]) != Status::ok) {
        fail("connect");
      }
    }
    (void)run(4);  // opens the sessions and touches the buffers' pages
  }

  // GB/s of all pairs together.
  double run(std::uint32_t messages) {
    const Clock::time_point begin = Clock::now();
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kPairs; ++i) {
      threads.emplace_back([=, this] {
        carry(*endpoints_[i], messages, [=, this] {
          OperationId operation{};
          return endpoints_[i]->send(
              {.peer = peers_[i], .tag = 1, .data = payloads_[i].data(), .bytes = bytes_},
              operation);
        });
      });
      threads.emplace_back([=, this] {
        Endpoint& receiver = *endpoints_[kPairs + i];
        carry(receiver, messages, [&, this] {
          OperationId operation{};
          return receiver.receive({.tag = 1, .data = buffers_[i].data(), .bytes = bytes_},
                                  operation);
        });
      });
    }
    threads.clear();
    const std::chrono::duration<double> time = Clock::now() - begin;
    return static_cast<double>(bytes_ * messages * kPairs) / time.count() / 1e9;
  }

 private:
  std::size_t bytes_;
  Engine engine_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::vector<std::byte>> payloads_;
  std::vector<std::vector<std::byte>> buffers_;
  std::array<PeerId, kPairs> peers_{};
};

template <class Value>
Value quantile(std::vector<Value> values, std::size_t percent) {
  std::ranges::sort(values);
  return values[(values.size() - 1) * percent / 100];
}

enum class Receiver { polls, sleeps, behind_a_thread };

// Sends the time of sending, a millisecond apart, from this thread.
class Waking {
  // Without spinning, the receiver has both processors.
  static EngineConfig quiet(EngineConfig config) {
    config.tunables.spin_us = config.tunables.yield_us = 0;
    return config;
  }

 public:
  explicit Waking(Receiver kind)
      : kind_(kind),
        here_(quiet(engine_config("udp:127.0.0.1", 0))),
        there_(engine_config("udp:127.0.0.2", kind == Receiver::behind_a_thread ? 1 : 0)),
        sender_(here_.create_endpoint({})),
        receiver_(there_.create_endpoint({})) {
    if (sender_->connect(receiver_->address(), peer_) != Status::ok) fail("connect");
  }

  // Microseconds that each message took.
  std::vector<double> run(std::uint32_t messages) {
    std::vector<double> taken;
    std::atomic<bool> over = false;
    std::jthread receiving([&] {
      for (std::uint32_t i = 0; i < messages; ++i) taken.push_back(receive_one());
      std::array<Completion, 1> none;
      while (!over) (void)receiver_->poll(none);  // the sender waits for the last acknowledgement
    });
    for (std::uint32_t i = 0; i < messages; ++i) {
      move_for(std::chrono::milliseconds(1));
      sent_at_ = Clock::now().time_since_epoch().count();
      OperationId operation{};
      if (sender_->send({.peer = peer_, .tag = 1, .data = &sent_at_, .bytes = sizeof sent_at_},
                        operation) != Status::ok) {
        fail("a message was refused");
      }
      std::array<Completion, 1> completion;
      if (sender_->wait(completion, kPatience) != 1) fail("a message did not leave");
    }
    over = true;
    receiving.join();
    return taken;
  }

  // Processor time of the process in a second of waiting for nothing, in milliseconds.
  double idle(std::chrono::milliseconds time) {
    const auto cpu = [] {
      timespec now{};
      (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
      return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
    };
    const double before = cpu();
    std::array<Completion, 1> completion;
    const auto limit = std::chrono::nanoseconds(time).count();
    if (receiver_->wait(completion, static_cast<std::uint64_t>(limit)) != 0) fail("what is that?");
    return cpu() - before;
  }

 private:
  double receive_one() {
    Clock::rep sent_at = 0;
    OperationId operation{};
    if (receiver_->receive({.tag = 1, .data = &sent_at, .bytes = sizeof sent_at}, operation) !=
        Status::ok) {
      fail("a receive was refused");
    }
    std::array<Completion, 1> completion;
    if (kind_ == Receiver::polls) {
      while (receiver_->poll(completion) == 0) {
      }
    } else if (receiver_->wait(completion, kPatience) != 1) {
      fail("a message did not arrive");
    }
    if (completion[0].status != Status::ok) fail(to_string(completion[0].status));
    const auto taken = Clock::duration(Clock::now().time_since_epoch().count() - sent_at);
    return std::chrono::duration<double, std::micro>(taken).count();
  }
  void move_for(Clock::duration time) {
    std::array<Completion, 1> completion;
    const auto nanoseconds = std::chrono::nanoseconds(time).count();
    (void)sender_->wait(completion, static_cast<std::uint64_t>(nanoseconds));
  }

  Receiver kind_;
  Engine here_;
  Engine there_;
  std::unique_ptr<Endpoint> sender_;
  std::unique_ptr<Endpoint> receiver_;
  PeerId peer_{};
  Clock::rep sent_at_ = 0;
};

void scaling(const Plan& plan) {
  Pairs one(1, plan.bytes);
  Pairs two(2, plan.bytes);
  std::array<std::vector<double>, 2> rates;
  for (std::uint32_t round = 0; round < plan.rounds; ++round) {
    rates[0].push_back(one.run(plan.messages));
    rates[1].push_back(two.run(plan.messages));
  }
  const double alone = quantile(rates[0], 50);
  fmt::print("1 engine thread  {:6.2f} GB/s\n2 engine threads {:6.2f} GB/s, {:.2f} times one\n",
             alone, quantile(rates[1], 50), quantile(rates[1], 50) / alone);
}

void waking(const Plan& plan) {
  const std::array<std::pair<Receiver, const char*>, 3> kinds{
      {{Receiver::polls, "polls, inline"},
       {Receiver::sleeps, "sleeps, inline"},
       {Receiver::behind_a_thread, "sleeps, engine thread"}}};
  for (const auto& [kind, name] : kinds) {
    Waking scene(kind);
    (void)scene.run(10);
    const std::vector<double> taken = scene.run(plan.wakes);
    fmt::print("{:22} {:6.1f} us  p99 {:7.1f} us", name, quantile(taken, 50), quantile(taken, 99));
    if (kind != Receiver::polls) fmt::print("  idle {:.2f} ms of processor", scene.idle(plan.idle));
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (argc > 1 && std::string_view(argv[1]) == "--short") {
    plan = {.bytes = 64 << 10, .messages = 50, .rounds = 1, .wakes = 20};
    plan.idle = std::chrono::milliseconds(20);
  }
  scaling(plan);
  waking(plan);
  return 0;
}
