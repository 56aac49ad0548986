// SPDX-License-Identifier: Apache-2.0
// What every congestion law must do. A window that never changes keeps the interface honest.
#include "proto/path/congestion_law.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "proto/path/congestion_controller.hpp"
#include "test/support/seeded.hpp"

namespace hawser::proto {
namespace {

// For a fabric whose share of each path is known.
class FixedWindow {
 public:
  FixedWindow() = default;
  explicit FixedWindow(const CongestionConfig& config)
      : bytes_(std::max<std::uint64_t>(config.initial_packets, 2) * config.packet_bytes) {}
  void on_ack(const CongestionAck&) {}
  void on_lost(std::uint64_t) {}
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] Duration fabric_floor() const { return {}; }

 private:
  std::uint64_t bytes_ = 0;
};
static_assert(CongestionLaw<FixedWindow> && CongestionLaw<DelayWindow>);

constexpr std::uint32_t kPacket = 4096;

TEMPLATE_TEST_CASE("congestion_law: begins with the initial window", "", FixedWindow, DelayWindow) {
  const TestType law(CongestionConfig{.packet_bytes = kPacket, .initial_packets = 32});
  CHECK(law.bytes() == 32 * kPacket);
}

TEMPLATE_TEST_CASE("congestion_law: two packets may be in flight whatever happens", "", FixedWindow,
                   DelayWindow) {
  test::for_each_seed(50, [](Random& random) {
    TestType law(CongestionConfig{.packet_bytes = kPacket,
                                  .initial_packets = 1 + random.below(64),
                                  .delay_target = microseconds(20)});
    Time now{1'000'000};
    for (int i = 0; i < 500; ++i) {
      now = now + Duration{static_cast<std::int64_t>(random.below(200'000))};
      if (random.below(3) == 0) law.on_lost(random.below(1000));
      law.on_ack({.now = now,
                  .acked_bytes = random.below(64) * kPacket,
                  .in_flight_before = random.below(1024) * kPacket,
                  .fabric_delay = Duration{static_cast<std::int64_t>(random.below(10'000'000))},
                  .host_delay = Duration{static_cast<std::int64_t>(random.below(1'000'000))},
                  .has_delay = random.below(4) != 0,
                  .is_large = random.below(2) == 0,
                  .marked_packets = random.below(64),
                  .acked_packets = random.below(64),
                  .round = Duration{static_cast<std::int64_t>(random.below(1'000'000))}});
      REQUIRE(law.bytes() >= 2 * kPacket);
    }
  });
}

}  // namespace
}  // namespace hawser::proto
