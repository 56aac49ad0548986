// SPDX-License-Identifier: Apache-2.0
// Matching as properties, against a naive model. Receives are posted and messages arrive, are put
// back or removed, in any order. rapidcheck draws the runs and shrinks a failing one to a few
// steps. RC_PARAMS replays a run; the failure prints its value.
#include <rapidcheck.h>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <vector>

#include "test/proto/matching_model.hpp"

namespace {

using hawser::kAnyPeer;
using hawser::OperationId;
using hawser::PeerId;
using hawser::proto::Matching;
using hawser::proto::PostedReceive;
using hawser::proto::UnexpectedEntry;
using hawser::test::MatchingModel;

constexpr std::uint32_t kMost = 64;  // of either kind, at a time
constexpr std::uint32_t kPeers = 3;

// The kind of step; peer and channel; tag; mask.
using Step = std::tuple<std::uint8_t, std::uint8_t, std::uint8_t, std::uint8_t>;

// The engine and the naive model, with the same input.
class Pair {
 public:
  void take(const Step& step) {
    const auto [what, where, tag, mask] = step;
    switch (what % 8) {
      case 0:
      case 1:
      case 2: return post(receive_of(where, tag, mask));
      case 3:
      case 4:
      case 5: return arrive(where, tag);
      case 6: return cancel(where);
      default: return remove(where);
    }
  }
  // The message that a receive with these arguments would get now.
  [[nodiscard]] std::optional<std::uint64_t> probe(const Step& step) const {
    const auto [what, where, tag, mask] = step;
    const PostedReceive like = receive_of(where, tag, mask);
    const UnexpectedEntry* found = engine_.probe(like.peer, like.channel, like.tag, like.mask);
    if (found == nullptr) return std::nullopt;
    return found->immediate;
  }
  [[nodiscard]] std::optional<std::uint64_t> post_as(const Step& step) {
    const auto [what, where, tag, mask] = step;
    PostedReceive receive = receive_of(where, tag, mask);
    receive.operation = OperationId{std::uint64_t{++serial_} << 32 | free_operation()};
    const auto got = engine_.post(receive);
    if (!got) return std::nullopt;
    return got->immediate;
  }

 private:
  static PostedReceive receive_of(std::uint8_t where, std::uint8_t tag, std::uint8_t mask) {
    PostedReceive receive;
    const std::uint32_t peer = where % (kPeers + 1);
    receive.peer = peer == kPeers ? kAnyPeer : PeerId{peer};
    receive.channel = where >> 7;
    receive.tag = tag % 4;
    // The mask is the whole tag, empty, or one of many others, more than there are views for.
    receive.mask = mask % 2 == 0 ? ~std::uint64_t{0} : mask < 64 ? 0 : std::uint64_t{mask} << 1;
    return receive;
  }
  [[nodiscard]] std::uint32_t free_operation() const {
    std::uint32_t i = 0;
    while (model_.uses(i)) ++i;
    return i;
  }
  [[nodiscard]] std::uint32_t free_message() const {
    std::uint32_t i = 0;
    while (model_.holds(i)) ++i;
    return i;
  }

  void post(PostedReceive receive) {
    if (model_.posted.size() == kMost) return;
    receive.operation = OperationId{std::uint64_t{++serial_} << 32 | free_operation()};
    const auto got = engine_.post(receive);
    const auto expected = model_.post(receive);
    RC_ASSERT(got.has_value() == expected.has_value());
    if (got) RC_ASSERT(got->immediate == expected->immediate);
    check_sizes();
  }
  void arrive(std::uint8_t where, std::uint8_t tag) {
    if (model_.held.size() == kMost) return;
    UnexpectedEntry message;
    message.peer = PeerId{where % kPeers};
    message.rx_message = free_message();
    message.number = serial_;
    message.channel = where >> 7;
    message.tag = tag % 4;
    message.immediate = ++serial_;
    const bool wanted = engine_.is_wanted(message);
    const PostedReceive* got = engine_.arrive(message);
    const auto expected = model_.arrive(message);
    RC_ASSERT(wanted == (got != nullptr));
    RC_ASSERT((got != nullptr) == expected.has_value());
    if (got != nullptr) RC_ASSERT(got->operation == expected->operation);
    check_sizes();
  }
  void cancel(std::uint8_t which) {
    if (model_.posted.empty()) return;
    const auto victim =
        model_.posted.begin() + which % static_cast<std::ptrdiff_t>(model_.posted.size());
    RC_ASSERT(engine_.cancel_receive(victim->operation).has_value());
    RC_ASSERT_FALSE(engine_.cancel_receive(victim->operation).has_value());
    model_.posted.erase(victim);
    check_sizes();
  }
  void remove(std::uint8_t which) {
    if (model_.held.empty()) return;
    const auto victim =
        model_.held.begin() + which % static_cast<std::ptrdiff_t>(model_.held.size());
    RC_ASSERT(engine_.remove_message(victim->rx_message));
    RC_ASSERT_FALSE(engine_.remove_message(victim->rx_message));
    model_.held.erase(victim);
    check_sizes();
  }
  void check_sizes() const {
    RC_ASSERT(engine_.posted() == model_.posted.size());
    RC_ASSERT(engine_.unexpected() == model_.held.size());
  }

  Matching engine_{kMost + 1, kMost, kPeers};  // one more for a probe that is then posted
  MatchingModel model_;
  std::uint32_t serial_ = 0;
};

// Draws the same runs each time, unless RC_PARAMS asks for others.
bool holds(const char* what, auto&& property) {
  setenv("RC_PARAMS", "seed=1 max_success=500 max_size=200", 0);
  return rc::check(what, property);
}

}  // namespace

TEST_CASE("matching_property: every run is as the naive model has it", "[M12]") {
  CHECK(holds("as two queues in order", [](const std::vector<Step>& steps) {
    Pair pair;
    for (const Step& step : steps) pair.take(step);
  }));
}

TEST_CASE("matching_property: probe names what a receive would get") {
  CHECK(holds("probe, then post", [](const std::vector<Step>& steps, const Step& last) {
    Pair pair;
    for (const Step& step : steps) pair.take(step);
    const auto probed = pair.probe(last);
    RC_CLASSIFY(probed.has_value());
    RC_ASSERT(pair.post_as(last) == probed);
  }));
}
