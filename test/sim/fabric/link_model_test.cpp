// SPDX-License-Identifier: Apache-2.0
// A link compared with a naive one that takes every step at its time. Random packets of both
// classes come so close together that queues fill and empty. Thresholds, trimming and changes of
// rate are random too.
#include <catch2/catch.hpp>
#include <deque>

#include "proto/base/random.hpp"
#include "sim/fabric/link.hpp"

namespace hawser::fabric {
namespace {

struct Seen {
  std::int64_t time;
  std::uint32_t number;
  std::uint32_t bytes;
  bool marked;
  bool operator==(const Seen&) const = default;
};

class NaiveLink {
 public:
  NaiveLink(const LinkSettings& settings) : settings_(settings), rate_(settings.bits_per_s) {}
  std::vector<Seen> seen;
  std::uint32_t dropped = 0;

  // Packets whose sending has ended by `now` leave, and the next ones begin.
  void pass_time(std::int64_t now) {
    while (is_sending_ && end_ <= now) {
      std::uint32_t behind = 0;
      for (const Waiting& one : normal_) behind += one.bytes;
      const bool marked = !sending_.urgent && behind > settings_.queue.mark_max;
      seen.push_back({end_ + settings_.latency.ps, sending_.number, sending_.bytes, marked});
      is_sending_ = false;
      if (!urgent_.empty() || !normal_.empty()) {
        std::deque<Waiting>& from = urgent_.empty() ? normal_ : urgent_;
        begin(end_, from.front());
        from.pop_front();
      }
    }
  }
  void enter(std::int64_t now, std::uint32_t number, std::uint32_t bytes, bool urgent) {
    pass_time(now);
    const QueueSettings& queue = settings_.queue;
    if (!is_sending_) return begin(now, {number, bytes, urgent});
    if (!urgent &&
        held(normal_) + (sending_.urgent ? 0 : sending_.bytes) + bytes > queue.capacity) {
      if (queue.trim_to == 0) {
        ++dropped;
        return;
      }
      urgent = true;
      bytes = std::min(bytes, queue.trim_to);
    }
    if (urgent && held(urgent_) + bytes > queue.capacity) {
      ++dropped;
      return;
    }
    (urgent ? urgent_ : normal_).push_back({number, bytes, urgent});
  }
  void set_rate(std::int64_t now, std::uint64_t bits_per_s) {
    pass_time(now);
    rate_ = bits_per_s;
  }

 private:
  struct Waiting {
    std::uint32_t number;
    std::uint32_t bytes;
    bool urgent;
  };
  static std::uint32_t held(const std::deque<Waiting>& queue) {
    std::uint32_t bytes = 0;
    for (const Waiting& one : queue) bytes += one.bytes;
    return bytes;
  }
  void begin(std::int64_t at, const Waiting& one) {
    sending_ = one;
    is_sending_ = true;
    end_ = at + static_cast<std::int64_t>(one.bytes * (8'000'000'000'000 / rate_));
  }
  LinkSettings settings_;
  std::uint64_t rate_;
  bool is_sending_ = false;
  Waiting sending_{};
  std::int64_t end_ = 0;
  std::deque<Waiting> urgent_, normal_;
};

struct Drawn {
  LinkSettings settings;
  std::uint64_t urgent_of_100;
  std::int64_t gap;
};

Drawn draw(proto::Random& random) {
  const std::uint64_t rates[] = {100 * kGigabit, 400 * kGigabit};
  Drawn drawn;
  drawn.settings.bits_per_s = rates[random.below(2)];
  drawn.settings.latency = picoseconds(static_cast<std::int64_t>(random.below(3) * 700'000));
  drawn.settings.queue.capacity = static_cast<std::uint32_t>(2'000 + random.below(60'000));
  const auto mark = static_cast<std::uint32_t>(random.below(40'000));
  if (random.chance(0.7)) drawn.settings.queue.mark_min = drawn.settings.queue.mark_max = mark;
  if (random.chance(0.4)) drawn.settings.queue.trim_to = 64;
  drawn.urgent_of_100 = random.below(3) * 20;
  // Packets arrive at half to twice the rate of the link.
  const std::int64_t packet = Pace::of(drawn.settings.bits_per_s).time_of(2'000).ps;
  drawn.gap = packet / 2 +
              static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(packet) * 3 / 2));
  return drawn;
}

TEST_CASE("link__does_what_a_naive_one_does_step_by_step") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    proto::Random random(seed);
    const Drawn drawn = draw(random);
    PacketStore packets(0);
    Link link(drawn.settings, 0, seed);
    NaiveLink naive(drawn.settings);
    std::vector<Seen> seen;
    const auto receive = [&](std::int64_t until) {
      while (link.due().ps <= until) {
        const std::int64_t time = link.due().ps;
        const PacketId id = link.leave(packets);
        const Packet& packet = packets.at(id);
        seen.push_back({time, packet.number, packet.wire_bytes, packet.marked});
        packets.give(id);
      }
    };
    std::int64_t now = 0;
    for (std::uint32_t i = 0; i < 500; ++i) {
      // Bursts and pauses. Gaps are often whole multiples of a packet's time, so that moments
      // coincide.
      if (random.chance(0.6)) now += static_cast<std::int64_t>(random.below(5)) * drawn.gap / 2;
      if (random.chance(0.01)) now += 50 * drawn.gap;
      receive(now);
      if (random.chance(0.02)) {
        const std::uint64_t rate = (random.chance(0.5) ? 50 : 200) * kGigabit;
        link.set_rate(Instant{now}, rate, packets);
        naive.set_rate(now, rate);
      }
      const std::uint32_t bytes = static_cast<std::uint32_t>(64 + random.below(4) * 1'000);
      const bool urgent = random.below(100) < drawn.urgent_of_100;
      const PacketId id = packets.take();
      packets.at(id).number = i;
      packets.at(id).wire_bytes = bytes;
      packets.at(id).urgent = urgent;
      const bool is_first = link.enter(Instant{now}, id, packets);
      if (is_first) CHECK(link.due() > Instant{now});
      naive.enter(now, i, bytes, urgent);
    }
    receive(kNever.ps - 1);
    naive.pass_time(kNever.ps);
    REQUIRE(seen.size() == naive.seen.size());
    REQUIRE((seen == naive.seen));
    REQUIRE(link.counters().dropped == naive.dropped);
    REQUIRE(packets.out() == 0);
  }
}

// The two classes together hold 2^32 bytes, as a NIC's queue may.
TEST_CASE("link__what_waits_is_counted_beyond_32_bits") {
  constexpr std::uint32_t kHalf = 1u << 31;
  PacketStore packets(0);
  Link link({.bits_per_s = kSlowest, .queue = {.capacity = kUnlimited}}, 0, 1);
  const auto enter = [&](Instant now, std::uint32_t bytes, bool urgent) {
    const PacketId id = packets.take();
    packets.at(id).wire_bytes = bytes;
    packets.at(id).urgent = urgent;
    packets.at(id).number = bytes;
    (void)link.enter(now, id, packets);
  };
  const std::int64_t byte = Pace::of(kSlowest).time_of(1).ps;
  enter(Instant{}, 1, false);
  enter(Instant{}, kHalf, false);
  enter(Instant{}, kHalf, true);
  CHECK(link.backlog(Instant{}).ps == byte * ((std::int64_t{1} << 32) + 1));
  // The packet comes while the urgent one is being sent, and waits for both.
  enter(Instant{byte * 2}, 100, false);
  std::vector<std::int64_t> ends;
  while (link.due() != kNever) {
    ends.push_back(link.due().ps / byte);
    packets.give(link.leave(packets));
  }
  CHECK(ends == std::vector<std::int64_t>{1, std::int64_t{kHalf} + 1, (std::int64_t{1} << 32) + 1,
                                          (std::int64_t{1} << 32) + 101});
}

}  // namespace
}  // namespace hawser::fabric
