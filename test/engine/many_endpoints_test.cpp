// SPDX-License-Identifier: Apache-2.0
// More endpoints in one process than any program has processors or NICs for: one after the other,
// and all at the same time.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <vector>

#include "test/engine/endpoint_pair.hpp"
#include "test/support/own_process_view.hpp"

namespace hawser::engine {
namespace {

constexpr std::size_t kEndpoints = 1300;

Tunables small() {
  Tunables tunables = short_close();
  tunables.close_timeout_ms = 0;
  tunables.max_peers = 4;
  tunables.max_operations = 16;
  tunables.max_messages_per_peer = 16;
  tunables.max_in_flight_packets = 64;
  tunables.max_receive_messages = 32;
  tunables.unexpected_bytes = 65536;
  tunables.max_bulk_paths = 0;
  tunables.max_registrations = 0;
  tunables.nic_receive_bytes = 65536;
  tunables.packet_buffers = 256;
  return tunables;
}

// A question of one endpoint to another, and the answer.
struct Talk {
  Endpoint* one = nullptr;
  Endpoint* other = nullptr;
  PeerId to = kAnyPeer;
  std::vector<std::byte> sent = pattern(3000, 1);
  std::vector<std::byte> question = std::vector<std::byte>(sent.size());
  std::vector<std::byte> answer = std::vector<std::byte>(sent.size());

  void begin(Endpoint& asks, Endpoint& answers) {
    one = &asks;
    other = &answers;
    REQUIRE(one->connect(other->address(), to) == Status::ok);
    post_receive(*other, kAnyPeer, 1, question);
    post_receive(*one, to, 2, answer);
    post_send(*one, to, 1, sent);
  }
};

// Polls an endpoint, and answers questions. Returns how many operations have ended.
std::size_t turn(Endpoint& endpoint, const std::vector<std::byte>& answer) {
  std::array<Completion, 4> completions;
  const std::size_t count = endpoint.poll(completions);
  for (const Completion& completion : std::span(completions).first(count)) {
    REQUIRE(completion.status == Status::ok);
    const bool is_question = completion.kind == OperationKind::receive && completion.tag == 1;
    if (is_question) post_send(endpoint, completion.peer, 2, answer);
  }
  return count;
}

// Lets all talks go on until they have ended. No call sleeps: a millisecond for each of so many
// endpoints would add up.
void finish(std::span<Talk> talks) {
  const HangLimit limit;
  for (std::size_t left = 4 * talks.size(); left > 0;) {
    if (limit.is_over()) FAIL(left << " operations have not ended");
    for (const Talk& talk : talks) left -= turn(*talk.one, talk.sent);
    for (const Talk& talk : talks) left -= turn(*talk.other, talk.sent);
  }
  for (const Talk& talk : talks) {
    CHECK(talk.question == talk.sent);
    CHECK(talk.answer == talk.sent);
  }
}

// Lets this process have as many descriptors as the system allows.
class MostDescriptors {
 public:
  MostDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit most = before_;
    most.rlim_cur = most.rlim_max;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &most) == 0);
  }
  ~MostDescriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
  MostDescriptors(const MostDescriptors&) = delete;
  MostDescriptors& operator=(const MostDescriptors&) = delete;

  // How many endpoints there may be, if two more take `for_two`.
  [[nodiscard]] static std::size_t endpoints(std::size_t for_two) {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const std::size_t open = test::open_descriptors().size() + 64;
    if (limit.rlim_cur <= open) return 0;
    return (limit.rlim_cur - open) * 2 / std::max<std::size_t>(for_two, 1);
  }

 private:
  rlimit before_{};
};

TEST_CASE("Many_endpoints__are_made_and_destroyed_in_turn", "[long]") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Engine engine({nic_names(setting, 0, 1), setting.threads, small(), ""});
  std::unique_ptr<Endpoint> before = engine.create_endpoint({});
  for (std::size_t i = 1; i < kEndpoints; ++i) {
    INFO("endpoint " << i);
    std::unique_ptr<Endpoint> next = engine.create_endpoint({});
    Talk talk;
    talk.begin(*next, *before);
    finish(std::span(&talk, 1));
    before = std::move(next);
  }
}

// Each exchanges messages with the one before it, and the first with the last.
TEST_CASE("Many_endpoints__live_at_the_same_time", "[long]") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const MostDescriptors descriptors;
  Engine engine({nic_names(setting, 0, 1), setting.threads, small(), ""});
  std::vector<std::unique_ptr<Endpoint>> all;
  all.push_back(engine.create_endpoint({}));
  const std::size_t before = test::open_descriptors().size();
  for (int i = 0; i < 2; ++i) all.push_back(engine.create_endpoint({}));
  const std::size_t for_two = test::open_descriptors().size() - before;
  const std::size_t count = std::min(kEndpoints, 3 + MostDescriptors::endpoints(for_two));
  if (count < kEndpoints) WARN("this process may have descriptors for " << count << " endpoints");
  while (all.size() < count) {
    INFO("endpoint " << all.size());
    all.push_back(engine.create_endpoint({}));
  }
  std::vector<Talk> talks(count);
  for (std::size_t i = 0; i < count; ++i) {
    INFO("endpoint " << i << " of " << count);
    talks[i].begin(*all[i], *all[(i + count - 1) % count]);
  }
  finish(talks);
}

}  // namespace
}  // namespace hawser::engine
