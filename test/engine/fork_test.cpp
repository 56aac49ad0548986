// SPDX-License-Identifier: Apache-2.0
// A child of fork can't use its copies of engines and endpoints: every call is refused. It may do
// anything else with them, and the parent notices nothing.
#include <sanitizer/lsan_interface.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engine/log.hpp"
#include "engine/own_process.hpp"
#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"
#include "test/support/cancellable.hpp"
#include "test/support/in_child.hpp"

namespace {
bool leaks_are_meant = false;
}  // namespace

// LeakSanitizer asks for this before it looks.
extern "C" int __lsan_is_turned_off() { return leaks_are_meant ? 1 : 0; }

namespace hawser::engine {
namespace {

using test::in_child;

// Makes every call; returns the number of the first that isn't refused or gives away parent data.
int first_not_refused(Endpoint& endpoint, PeerId peer, const Address& other) {
  std::array<std::byte, 8> data{};
  std::array<Completion, 4> completions;
  std::array<Event, 4> events;
  Envelope envelope;
  MessageId message = kNoMessage;
  PeerId found = kAnyPeer;
  OperationId operation = kNoOperation;
  RegistrationId registration{};
  PeerStats peer_stats;
  std::string why;
  const Status closed = Status::endpoint_closed;
  int number = 1;
  for (const Status status :
       {endpoint.connect(other, found),
        endpoint.send({.peer = peer, .tag = 1, .data = data.data(), .bytes = 8}, operation),
        endpoint.receive({.peer = peer, .tag = 1, .data = data.data(), .bytes = 8}, operation),
        endpoint.probe({.peer = peer, .tag = 1}, envelope),
        endpoint.claim({.peer = peer, .tag = 1}, envelope, message),
        endpoint.inject({.peer = peer, .tag = 1}), endpoint.receive_claimed(message, {}, operation),
        endpoint.put_back(message), endpoint.deregister_memory(registration, &why),
        endpoint.register_dmabuf({}, registration, &why), endpoint.cancel(operation),
        endpoint.disconnect(peer), endpoint.peer_stats(peer, peer_stats),
        endpoint.register_memory(data.data(), 8, registration, &why)}) {
    if (status != closed) return number;
    ++number;
  }
  if (endpoint.poll(completions) != 0 || endpoint.wait(completions, 0) != 0) return number;
  if (endpoint.poll_events(events) != 0 || !endpoint.nic_stats().empty()) return number + 1;
  if (endpoint.stats().messages_sent != 0 || !endpoint.verdicts().empty()) return number + 2;
  endpoint.flush();
  endpoint.close();
  return 0;
}

TEST_CASE("Fork__a_child_is_refused_and_harms_nobody") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  check_that_messages_pass(pair);
  CHECK(in_child([&] { return first_not_refused(*pair.a, pair.b_of_a, pair.b->address()); }) == 0);
  check_that_messages_pass(pair);
}

TEST_CASE("Fork__a_child_may_destroy_its_copies_or_exit_with_them") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  check_that_messages_pass(pair);
  CHECK(in_child([&] {
          pair.a.reset();
          pair.b.reset();
          pair.engine_a.~Engine();
          return 0;
        }) == 0);
  check_that_messages_pass(pair);
}

TEST_CASE("Fork__a_child_may_destroy_an_endpoint_in_which_a_thread_was_waiting") {
  Tunables tunables = short_close();
  tunables.close_timeout_ms = test::kStandstillMs;
  Engine engine_a({{"udp:127.0.0.1"}, 1, tunables, ""});
  Engine engine_b({{"udp:127.0.0.11"}, 0, tunables, ""});
  std::unique_ptr<Endpoint> a = engine_a.create_endpoint({});
  const std::unique_ptr<Endpoint> b = engine_b.create_endpoint({});
  PeerId b_of_a = kAnyPeer;
  REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
  const std::vector<std::byte> sent(8);
  std::vector<std::byte> received(8);
  post_receive(*b, kAnyPeer, 1, received);
  post_send(*a, b_of_a, 1, sent);
  REQUIRE(next_of(*b, *a).status == Status::ok);
  REQUIRE(next_of(*a, *b).status == Status::ok);
  // The call waits in the endpoint for the peer's answer, which comes only once b is polled.
  std::atomic<bool> is_closed{false};
  const test::Cancellable caller([&] {
    a->close();
    is_closed = true;
  });
  CHECK(caller.blocks_in_kernel());
  CHECK(in_child([&] {
          a.reset();
          return 0;
        }) == 0);
  CHECK(test::comes_true([&] {
    b->poll({});
    return is_closed.load();
  }));
}

TEST_CASE("Fork__a_child_makes_engines_of_its_own") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  CHECK(in_child([&] {
          try {
            (void)pair.engine_a.create_endpoint({});
            return 1;
          } catch (const Error& error) {
            if (std::string(error.what()).find("the child must create its own") ==
                std::string::npos)
              return 2;
          }
          EngineConfig config;
          config.nics = {"memory:of-the-child"};
          Engine engine(config);
          const auto one = engine.create_endpoint({});
          const auto other = engine.create_endpoint({});
          PeerId peer = kAnyPeer;
          if (one->connect(other->address(), peer) != Status::ok) return 3;
          OperationId operation = kNoOperation;
          std::array<std::byte, 8> data{};
          if (one->send({.peer = peer, .tag = 1, .data = data.data(), .bytes = 8}, operation) !=
              Status::ok)
            return 4;
          Completion completion;
          Envelope envelope;
          for (const HangLimit limit; !limit.is_over();) {
            (void)one->wait(std::span(&completion, 1), 100'000);
            (void)other->wait({}, 100'000);
            if (other->probe({.tag = 1}, envelope) == Status::ok) return 0;
          }
          return 5;
        }) == 0);
  check_that_messages_pass(pair);
}

// A program that keeps its engines and endpoints until it exits. The pointers are made before the
// engines, so what the library makes once for the process is destroyed before these are.
struct KeptUntilExit {
  std::unique_ptr<Engine> engine_a, engine_b;
  std::unique_ptr<Endpoint> a, b;
  PeerId b_of_a = kAnyPeer;
  std::weak_ptr<spdlog::logger> log;

  ~KeptUntilExit() {
    if (log.expired()) ::_exit(99);  // endpoints may write into it as they close
    a.reset();
    b.reset();
  }
  bool open(const Setting& setting) {
    engine_a = std::make_unique<Engine>(
        EngineConfig{nic_names(setting, 0, 2), setting.threads, short_close(), ""});
    engine_b = std::make_unique<Engine>(
        EngineConfig{nic_names(setting, 1, 2), setting.threads, short_close(), ""});
    a = engine_a->create_endpoint({});
    b = engine_b->create_endpoint({});
    log_info("The first message makes the logger");
    log = spdlog::get("hawser");
    return a->connect(b->address(), b_of_a) == Status::ok;
  }
  // Sends one message.
  bool exchange(std::uint64_t tag) {
    const std::vector<std::byte> sent = pattern(70'000, tag);
    std::vector<std::byte> received(sent.size());
    OperationId operation = kNoOperation;
    if (b->receive({.tag = tag, .data = received.data(), .bytes = received.size()}, operation) !=
            Status::ok ||
        a->send({.peer = b_of_a, .tag = tag, .data = sent.data(), .bytes = sent.size()},
                operation) != Status::ok) {
      return false;
    }
    Completion completion;
    int done = 0;
    for (const HangLimit limit; done < 2 && !limit.is_over();) {
      for (Endpoint* endpoint : {a.get(), b.get()}) {
        if (endpoint->wait(std::span(&completion, 1), 100'000) == 0) continue;
        if (completion.status != Status::ok) return false;
        ++done;
      }
    }
    return done == 2 && received == sent;
  }
};

// A child does not free what the endpoints of its parent use.
void keeps_copies() { leaks_are_meant = true; }

// Runs in a process of its own, which then exits as well.
int fork_and_exit_with_what_is_kept(const Setting& setting) {
  static KeptUntilExit kept;
  if (!kept.open(setting)) return 1;
  if (!kept.exchange(1)) return 2;
  if (in_child([] { return keeps_copies(), 0; }, std::exit) != 0) return 3;
  if (!kept.exchange(2)) return 4;
  // A child that has found its copies useless.
  if (in_child([] { return keeps_copies(), kept.exchange(3) ? 1 : 0; }, std::exit) != 0) return 5;
  return kept.exchange(4) ? 0 : 6;
}

TEST_CASE("Fork__a_child_exits_and_destroys_its_copies_of_static_objects") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  std::cout.flush();  // exit flushes once more what is in the buffers
  std::fflush(nullptr);
  CHECK(in_child([&] { return fork_and_exit_with_what_is_kept(setting); }, std::exit) == 0);
}

TEST_CASE("OwnProcess__a_childs_objects_are_its_own_and_its_parents_are_not") {
  const OwnProcess before;
  CHECK(before.is_here());
  CHECK(in_child([&] {
          if (before.is_here()) return 1;
          const OwnProcess own;
          if (!own.is_here() || before.is_here()) return 2;
          return in_child([&] { return own.is_here() || before.is_here() ? 3 : 0; });
        }) == 0);
  CHECK(before.is_here());
  CHECK(OwnProcess().is_here());
}

}  // namespace
}  // namespace hawser::engine
