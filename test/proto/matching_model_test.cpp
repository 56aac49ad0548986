// SPDX-License-Identifier: Apache-2.0
// Matching against MPI's rule spelled out, in random runs.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "test/proto/matching_model.hpp"
#include "test/support/seeded.hpp"

namespace {

using hawser::kAnyPeer;
using hawser::OperationId;
using hawser::PeerId;
using hawser::proto::Matching;
using hawser::proto::PostedReceive;
using hawser::proto::Random;
using hawser::proto::UnexpectedEntry;
using hawser::test::fits;
using hawser::test::MatchingModel;

constexpr std::uint64_t kExact = ~std::uint64_t{0};
constexpr std::uint32_t kOperations = 64;
constexpr std::uint32_t kMessages = 64;
constexpr std::uint32_t kPeers = 4;

// A run: the engine and its model, with the same input.
class Run {
 public:
  explicit Run(Random& random)
      : random_(random), many_masks_(random.chance(0.3)), wildcards_(random.chance(0.8)) {}

  void step() {
    const std::uint64_t action = random_.below(100);
    if (action < 40) {
      post();
    } else if (action < 80) {
      arrive();
    } else if (action < 90) {
      probe();
    } else if (action < 94) {
      cancel();
    } else if (action < 96) {
      remove_message();
    } else if (action < 98) {
      claim_or_put_back();
    } else if (random_.chance(0.2)) {
      drop_peer();
    }
    REQUIRE(engine_.posted() == model_.posted.size());
    REQUIRE(engine_.unexpected() == model_.held.size());
  }

 private:
  PeerId some_peer() { return static_cast<PeerId>(random_.below(kPeers)); }
  std::uint16_t some_channel() { return static_cast<std::uint16_t>(random_.below(2) * 0x8000); }
  std::uint64_t some_tag() { return random_.below(4) | random_.below(2) << 62; }
  std::uint64_t some_mask() {
    if (!wildcards_ || random_.chance(0.5)) return kExact;
    if (many_masks_) return kExact << random_.below(8) ^ (random_.below(2) << 63);
    const std::array<std::uint64_t, 3> masks{0, kExact << 62, ~std::uint64_t{2}};
    return masks[random_.below(masks.size())];
  }
  PeerId some_source() { return wildcards_ && random_.chance(0.3) ? kAnyPeer : some_peer(); }

  void post() {
    const auto index = static_cast<std::uint32_t>(random_.below(kOperations));
    if (model_.uses(index)) return;
    PostedReceive receive;
    receive.operation = static_cast<OperationId>(++operations_ << 32 | index);
    receive.peer = some_source();
    receive.channel = some_channel();
    receive.tag = some_tag();
    receive.mask = some_mask();
    receive.bytes = random_.below(1000);
    receive.options.user_data = random_.next();
    const auto expected = model_.post(receive);
    const auto got = engine_.post(receive);
    REQUIRE(got.has_value() == expected.has_value());
    if (got) require_same(*got, *expected);
  }

  void arrive() {
    const auto index = static_cast<std::uint32_t>(random_.below(kMessages));
    if (model_.holds(index) || is_claimed(index)) return;
    UnexpectedEntry message;
    message.peer = some_peer();
    message.rx_message = index;
    message.number = numbers_[static_cast<std::uint32_t>(message.peer)]++;
    message.channel = some_channel();
    message.tag = some_tag();
    message.bytes = random_.below(1000);
    message.immediate = random_.next();
    if (random_.chance(0.01))
      numbers_[static_cast<std::uint32_t>(message.peer)] = 0;  // a new session
    const auto expected = model_.arrive(message);
    const PostedReceive* got = nullptr;
    if (random_.chance(0.5)) {
      got = engine_.arrive(message);
    } else {
      got = engine_.match(message);
      if (got == nullptr) engine_.hold(message);
    }
    REQUIRE((got != nullptr) == expected.has_value());
    if (got) require_same(*got, *expected);
  }

  void probe() {
    const PeerId peer = some_source();
    const std::uint16_t channel = some_channel();
    const std::uint64_t tag = some_tag();
    const std::uint64_t mask = some_mask();
    const auto expected =
        std::find_if(model_.held.begin(), model_.held.end(),
                     [&](const UnexpectedEntry& m) { return fits(m, peer, channel, tag, mask); });
    const UnexpectedEntry* got = engine_.probe(peer, channel, tag, mask);
    REQUIRE((got != nullptr) == (expected != model_.held.end()));
    if (got != nullptr) require_same(*got, *expected);
  }

  void cancel() {
    if (model_.posted.empty() || random_.chance(0.2)) {
      // Cancel a receive that isn't posted: its index is free or belongs to another operation.
      const auto stale = static_cast<OperationId>(random_.below(kOperations));
      REQUIRE_FALSE(engine_.cancel_receive(stale).has_value());
      return;
    }
    const auto victim =
        model_.posted.begin() + static_cast<std::ptrdiff_t>(random_.below(model_.posted.size()));
    const auto got = engine_.cancel_receive(victim->operation);
    REQUIRE(got.has_value());
    require_same(*got, *victim);
    REQUIRE_FALSE(engine_.cancel_receive(victim->operation).has_value());
    model_.posted.erase(victim);
  }

  void remove_message() {
    const auto index = static_cast<std::uint32_t>(random_.below(kMessages));
    const auto victim =
        std::find_if(model_.held.begin(), model_.held.end(),
                     [&](const UnexpectedEntry& m) { return m.rx_message == index; });
    REQUIRE(engine_.remove_message(index) == (victim != model_.held.end()));
    if (victim != model_.held.end()) model_.held.erase(victim);
  }

  [[nodiscard]] bool is_claimed(std::uint32_t index) const {
    return std::any_of(claimed_.begin(), claimed_.end(),
                       [&](const UnexpectedEntry& m) { return m.rx_message == index; });
  }

  // Claims the oldest message of some kind, or puts back one that was claimed.
  void claim_or_put_back() {
    if (!claimed_.empty() && random_.chance(0.5)) {
      std::swap(claimed_[random_.below(claimed_.size())], claimed_.back());
      const UnexpectedEntry message = claimed_.back();
      claimed_.pop_back();
      const auto expected = model_.arrive(message);
      const PostedReceive* got = engine_.arrive(message);
      REQUIRE((got != nullptr) == expected.has_value());
      if (got) require_same(*got, *expected);
      return;
    }
    if (model_.held.empty()) return;
    const UnexpectedEntry& some = model_.held[random_.below(model_.held.size())];
    const UnexpectedEntry* const found = engine_.probe(some.peer, some.channel, some.tag, kExact);
    REQUIRE(found != nullptr);
    claimed_.push_back(*found);
    const std::uint32_t index = found->rx_message;
    REQUIRE(engine_.remove_message(index));
    std::erase_if(model_.held, [&](const UnexpectedEntry& m) { return m.rx_message == index; });
  }

  void drop_peer() {
    const PeerId peer = some_peer();
    const auto next = [peer](auto& queue) {
      return std::find_if(queue.begin(), queue.end(),
                          [peer](const auto& entry) { return entry.peer == peer; });
    };
    engine_.drop_peer(
        peer,
        [&](const PostedReceive& receive) {
          const auto expected = next(model_.posted);
          REQUIRE(expected != model_.posted.end());
          require_same(receive, *expected);
          model_.posted.erase(expected);
        },
        [&](const UnexpectedEntry& message) {
          const auto expected = next(model_.held);
          REQUIRE(expected != model_.held.end());
          require_same(message, *expected);
          model_.held.erase(expected);
        });
    REQUIRE(next(model_.posted) == model_.posted.end());
    REQUIRE(next(model_.held) == model_.held.end());
  }

  static void require_same(const UnexpectedEntry& a, const UnexpectedEntry& b) {
    REQUIRE(a.rx_message == b.rx_message);
    REQUIRE(a.peer == b.peer);
    REQUIRE(a.number == b.number);
    REQUIRE(a.tag == b.tag);
    REQUIRE(a.immediate == b.immediate);
  }
  static void require_same(const PostedReceive& a, const PostedReceive& b) {
    REQUIRE(a.operation == b.operation);
    REQUIRE(a.bytes == b.bytes);
    REQUIRE(a.options.user_data == b.options.user_data);
  }

  Random& random_;
  bool many_masks_;
  bool wildcards_;
  Matching engine_{kOperations, kMessages, kPeers};
  MatchingModel model_;
  std::vector<UnexpectedEntry> claimed_;
  std::uint64_t operations_ = 0;
  std::array<std::uint64_t, kPeers> numbers_{0, 5, ~std::uint64_t{0} - 40, 1u << 31};
};

}  // namespace

TEST_CASE("matching: model of MPI's order, with wildcards of tag and source") {
  hawser::test::for_each_seed(150, [](Random& random) {
    Run run(random);
    for (int step = 0; step < 1000; ++step) run.step();
  });
}
