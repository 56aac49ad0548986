// SPDX-License-Identifier: Apache-2.0
// Many small worlds, drawn from a seed: nodes, NICs, tunables, changing faults, messages, receives,
// cancels. First everything may go wrong. Then the fabric is healed, and everything must complete
// exactly once, in order, within a bound.
#include <catch2/catch.hpp>
#include <set>

#include "test/protocol/exchange.hpp"
#include "test/support/seeded.hpp"

namespace hawser::test {
namespace {

using proto::AllTunables;
using proto::milliseconds;
using proto::Random;

std::string draw_faults(Random& random) {
  std::string faults = "delay=" + std::to_string(5 + random.below(40)) + "us";
  if (random.chance(0.5)) faults += "/" + std::to_string(1 + random.below(60)) + "us";
  const auto add = [&](const char* word, double most) {
    if (!random.chance(0.5)) return;
    faults += std::string(",") + word + "=" + std::to_string(random.chance(0.5) ? most : most / 10);
  };
  add("loss", 0.2);
  add("duplicate", 0.1);
  add("reorder", 0.1);
  add("corrupt", 0.05);
  add("truncate", 0.02);
  add("partial-burst", 0.3);
  if (random.chance(0.3)) faults += ",burst-loss=0.01/0.2";
  if (random.chance(0.3)) faults += ",late-reap=" + std::to_string(random.below(300)) + "us";
  if (random.chance(0.3)) faults += ",rate=" + std::to_string(50000000 + random.below(1000000000));
  return faults;
}

AllTunables draw_tunables(Random& random) {
  AllTunables tunables = small_tunables();
  const auto draw = [&](std::uint64_t& value, std::initializer_list<std::uint64_t> others) {
    if (random.chance(0.25)) value = others.begin()[random.below(others.size())];
  };
  draw(tunables.fragment_bytes, {256, 1024, 2000});
  draw(tunables.unscheduled_bytes, {0, 4096, 262144});
  draw(tunables.grant_window_bytes, {65536});
  draw(tunables.grant_start_bytes, {4096, 65536});
  draw(tunables.unexpected_bytes, {65536, 262144});
  draw(tunables.max_messages_per_peer, {4, 64});
  draw(tunables.max_in_flight_packets, {64, 256});
  draw(tunables.max_receive_messages, {16, 64});
  draw(tunables.initial_window_packets, {1, 128});
  draw(tunables.delay_target_us, {1, 1000});
  draw(tunables.ack_every_packets, {1, 256});
  draw(tunables.max_ack_delay_us, {0, 5000});
  draw(tunables.timer_granularity_us, {20, 5000});
  draw(tunables.initial_rtt_us, {10, 100000});
  draw(tunables.reorder_packets, {1, 64});
  draw(tunables.max_path_slots, {1, 2, 4});
  draw(tunables.late_wakeup_us, {1, 100000});
  draw(tunables.rest_after_ms, {0, 1, 20});
  draw(tunables.poll_budget_packets, {8});
  draw(tunables.initial_sequence, {4294967290u, 4294967295u});
  draw(tunables.recovery_evacuate, {0});
  draw(tunables.recovery_request, {0});
  draw(tunables.spray_weighted, {0});
  draw(tunables.packet_buffers, {256});
  return tunables;
}

class Soak {
 public:
  explicit Soak(Random& random) : random_(random), world_(draw(random)), exchange_(world_) {}

  void run() {
    world_.connect_all();
    for (int i = 0; i < 60; ++i) {
      for (std::uint64_t n = random_.below(6); n-- > 0;) act();
      if (random_.chance(0.1)) disturb();
      world_.run_for(proto::microseconds(random_.below(random_.chance(0.1) ? 10000 : 300)));
      exchange_.collect();
    }
    heal();
    REQUIRE(finish());
    cancel_rest();
    for (std::size_t i = 0; i < exchange_.sends(); ++i) {
      REQUIRE((was_cancelled(i) ? cancelled_.contains(i) : exchange_.sent(i).deliveries == 1));
      REQUIRE_FALSE(is_peer_failure(exchange_.sent(i).completion->status));
    }
    exchange_.check_quiet(milliseconds(1500));
    CHECK(world_.allocations() == 0);
  }

 private:
  static WorldConfig draw(Random& random) {
    WorldConfig config;
    config.nodes = 2 + static_cast<std::uint32_t>(random.below(4));
    for (std::uint32_t i = 0; i < config.nodes; ++i) {
      config.nics_of.push_back(1 + static_cast<std::uint32_t>(random.below(4)));
    }
    config.seed = random.next();
    config.faults = draw_faults(random);
    config.tunables = draw_tunables(random);
    return config;
  }
  std::uint32_t node() { return static_cast<std::uint32_t>(random_.below(world_.nodes())); }
  std::uint32_t other(std::uint32_t a) {
    return (a + 1 + static_cast<std::uint32_t>(random_.below(world_.nodes() - 1))) % world_.nodes();
  }
  std::size_t size() {
    switch (random_.below(5)) {
      case 0: return 0;
      case 1: return random_.below(300);
      case 2: return random_.below(20000);
      case 3: return random_.below(100000);
      default: return random_.chance(0.3) ? random_.below(1000000) : random_.below(5000);
    }
  }

  void act() {
    const std::uint32_t a = node();
    if (random_.chance(0.5)) {
      const proto::SendOptions options{
          .level = random_.chance(0.3) ? Level::delivered : Level::accepted,
          .hint = {.priority = static_cast<std::uint8_t>(random_.below(3))}};
      (void)exchange_.try_send(a, other(a), random_.below(4), size(), options);
    } else if (random_.chance(0.1) && exchange_.receives() > 0) {
      const auto& receive = exchange_.received(random_.below(exchange_.receives()));
      (void)world_.cancel(receive.node, receive.operation);
    } else if (random_.chance(0.1) && exchange_.sends() > 0) {
      const std::size_t i =
          exchange_.sends() - 1 - random_.below(std::min<std::size_t>(exchange_.sends(), 8));
      const auto& sent = exchange_.sent(i);
      if (world_.cancel(sent.from, sent.operation) == Status::ok) cancelled_.insert(i);
    } else if (random_.chance(0.1)) {
      claim(a);
    } else if (random_.chance(0.1) && !claimed_.empty()) {
      end_claim(random_.below(claimed_.size()));
    } else {
      const std::uint64_t mask = random_.chance(0.2) ? 0 : random_.chance(0.2) ? 1 : kWholeTag;
      (void)exchange_.try_receive(a, random_.chance(0.3) ? kAnyNode : other(a), random_.below(4),
                                  size(), mask);
    }
  }

  bool was_cancelled(std::size_t i) const {
    const auto& completion = exchange_.sent(i).completion;
    return completion && completion->status == Status::cancelled;
  }
  void claim(std::uint32_t a) {
    Envelope envelope;
    MessageId message = kNoMessage;
    const std::uint64_t mask = random_.chance(0.5) ? 0 : kWholeTag;
    if (world_.endpoint(a).claim(kAnyPeer, 0, random_.below(4), mask, envelope, message) ==
        Status::ok) {
      claimed_.push_back({a, message, envelope.bytes});
      exchange_.note_claim(envelope.immediate);
    }
  }
  // Receives the message, whole or in part, or puts it back.
  void end_claim(std::size_t i) {
    const Claimed claimed = claimed_[i];
    claimed_.erase(claimed_.begin() + static_cast<std::ptrdiff_t>(i));
    if (random_.chance(0.4)) {
      REQUIRE(world_.endpoint(claimed.node).put_back(world_.now(), claimed.message) == Status::ok);
      world_.wake(claimed.node);
    } else {
      (void)exchange_.receive_claimed(claimed.node, claimed.message,
                                      random_.chance(0.2) ? claimed.bytes / 2 : claimed.bytes);
    }
  }

  // A NIC dies or returns, its faults change, or a node is away for a while.
  void disturb() {
    const std::uint32_t a = node();
    const auto nic = static_cast<std::uint32_t>(random_.below(world_.nics(a)));
    static const char* const kWords[] = {"kill",         "kill:event",   "revive", "revive:event",
                                         "blackhole=tx", "blackhole=rx", "clear",  "loss=0.5"};
    if (random_.chance(0.2)) {
      world_.pause(a, true);
      world_.run_for(milliseconds(random_.below(30)));
      world_.pause(a, false);
      return;
    }
    apply(a, nic,
          random_.chance(0.3) ? draw_faults(random_) : kWords[random_.below(std::size(kWords))]);
  }
  void apply(std::uint32_t a, std::uint32_t nic, const std::string& faults) {
    world_.apply(a, nic, faults);
  }

  void heal() {
    while (!claimed_.empty()) end_claim(0);
    for (std::uint32_t a = 0; a < world_.nodes(); ++a) {
      for (std::uint32_t nic = 0; nic < world_.nics(a); ++nic) {
        apply(a, nic, "clear");
        apply(a, nic, "delay=10us");
        apply(a, nic, "revive:event");
      }
    }
  }

  // Posts a receive for every message that has none, until all are delivered and all sends have
  // completed.
  bool finish() {
    return world_.run_until(
        [&] {
          exchange_.collect();
          bool all = true;
          std::vector<std::size_t> wanted(world_.nodes(), 0);
          for (std::size_t i = 0; i < exchange_.sends(); ++i) {
            const auto& sent = exchange_.sent(i);
            if (was_cancelled(i)) continue;
            all &= sent.completion.has_value() && sent.deliveries == 1;
            if (sent.deliveries == 0) ++wanted[sent.to];
          }
          for (std::size_t i = fetched_from_; i < exchange_.receives(); ++i) {
            const auto& receive = exchange_.received(i);
            if (!receive.completion && wanted[receive.node] > 0) --wanted[receive.node];
          }
          if (fetched_from_ == 0) fetched_from_ = exchange_.receives();
          for (std::uint32_t a = 0; a < world_.nodes(); ++a) {
            for (; wanted[a] > 0; --wanted[a]) {
              if (!exchange_.try_receive(a, kAnyNode, 0, 1000000, 0)) break;
            }
          }
          return all;
        },
        milliseconds(8000));
  }

  void cancel_rest() {
    for (std::size_t i = 0; i < exchange_.receives(); ++i) {
      const auto& receive = exchange_.received(i);
      if (!receive.completion)
        REQUIRE(world_.cancel(receive.node, receive.operation) == Status::ok);
    }
    REQUIRE(exchange_.run(milliseconds(10)));
  }

  struct Claimed {
    std::uint32_t node = 0;
    MessageId message = kNoMessage;
    std::uint64_t bytes = 0;
  };

  Random& random_;
  World world_;
  Exchange exchange_;
  std::set<std::size_t> cancelled_;  // sends that the test has tried to cancel
  std::vector<Claimed> claimed_;
  std::size_t fetched_from_ = 0;
};

TEST_CASE("soak__whatever_happens_everything_completes_once_the_fabric_is_healed", "[M19]") {
  for_each_seed(100, [](Random& random) { Soak(random).run(); });
}

}  // namespace
}  // namespace hawser::test
