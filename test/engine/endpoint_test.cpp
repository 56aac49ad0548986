// SPDX-License-Identifier: Apache-2.0
// Whole endpoints with real clocks and threads: over memory and UDP, inline and with engine
// threads.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/clock.hpp"
#include "engine/system_error.hpp"
#include "hawser/engine.hpp"
#include "test/engine/endpoint_pair.hpp"

namespace hawser::engine {
namespace {

TEST_CASE("Endpoint__sends_and_receives") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  const std::size_t bytes = GENERATE(std::size_t{0}, std::size_t{8}, std::size_t{4096},
                                     std::size_t{100'000}, std::size_t{5'000'001});
  CAPTURE(bytes);
  const std::vector<std::byte> sent = pattern(bytes, 1);
  std::vector<std::byte> received(bytes + 3);
  ReceiveRequest receive_options;
  receive_options.user_data = 77;
  SendRequest send_options;
  send_options.user_data = 78;
  send_options.immediate = 79;
  const OperationId receive = post_receive(*pair.b, kAnyPeer, 5, received, receive_options);
  const OperationId send = post_send(*pair.a, pair.b_of_a, 5, sent, send_options);

  const Completion at_b = pair.next(*pair.b);
  CHECK(at_b.operation == receive);
  CHECK(at_b.kind == OperationKind::receive);
  CHECK(at_b.status == Status::ok);
  CHECK(at_b.user_data == 77);
  CHECK(at_b.immediate == 79);
  CHECK(at_b.tag == 5);
  CHECK(at_b.peer == pair.a_of_b);
  CHECK(at_b.bytes == bytes);
  CHECK(at_b.message_bytes == bytes);
  CHECK(std::equal(sent.begin(), sent.end(), received.begin()));

  const Completion at_a = pair.next(*pair.a);
  CHECK(at_a.operation == send);
  CHECK(at_a.kind == OperationKind::send);
  CHECK(at_a.status == Status::ok);
  CHECK(at_a.user_data == 78);
  CHECK(at_a.peer == pair.b_of_a);
  CHECK(at_a.released);
}

TEST_CASE("Endpoint__is_quiet_after_its_work_and_leaks_no_buffer") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  const std::vector<std::byte> sent = pattern(300'000, 2);
  std::vector<std::byte> received(sent.size());
  post_receive(*pair.b, pair.a_of_b, 1, received);
  post_send(*pair.a, pair.b_of_a, 1, sent);
  pair.next(*pair.b);
  pair.next(*pair.a);
  CHECK(pair.a->stats().operations_pending == 0);
  CHECK(pair.a->stats().messages_sent == 1);
  CHECK(pair.b->stats().messages_received == 1);
  CHECK(pair.a->nic_stats().size() == 2);
  CHECK(pair.a->nic_stats()[1].name.substr(0, setting.driver.size()) == setting.driver);
  PeerStats peer;
  REQUIRE(pair.a->peer_stats(pair.b_of_a, peer) == Status::ok);
  CHECK(peer.established);
  // Acknowledgements may still be in flight. Once they have arrived, the pool has all its buffers.
  CHECK(pair.turn_until(
      [&] { return pair.a->stats().buffers_in_use == 0 && pair.b->stats().buffers_in_use == 0; }));
}

TEST_CASE("Endpoint__answers_again_at_its_limits_and_goes_on_after") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables tunables = short_close();
  tunables.max_operations = 16;
  tunables.max_messages_per_peer = 4;
  const std::vector<std::byte> data = pattern(64, 3);
  std::vector<std::vector<std::byte>> buffers(16, std::vector<std::byte>(64));
  EndpointPair pair(setting, tunables);
  OperationId operation = kNoOperation;
  SendRequest delivered;
  delivered.level = Level::delivered;  // so that none finishes before its receive is posted
  for (std::uint64_t tag = 0; tag < 4; ++tag) {
    post_send(*pair.a, pair.b_of_a, tag, data, delivered);
  }
  const auto send_another = [&] {
    SendRequest another = delivered;
    another.peer = pair.b_of_a;
    another.tag = 9;
    another.data = data.data();
    another.bytes = data.size();
    return pair.a->send(another, operation);
  };
  CHECK(send_another() == Status::again);
  for (std::size_t i = 0; i < 12; ++i) post_receive(*pair.a, kAnyPeer, 100 + i, buffers[i]);
  CHECK(pair.a->receive({.tag = 1, .data = buffers[12].data(), .bytes = 64}, operation) ==
        Status::again);
  CHECK(operation == kNoOperation);
  // A wrong call gets its error however full the endpoint is.
  const auto stranger = static_cast<PeerId>(7);
  CHECK(pair.a->send({.peer = pair.b_of_a, .tag = 9, .bytes = 8}, operation) ==
        Status::invalid_argument);
  CHECK(pair.a->send({.peer = stranger, .tag = 9, .data = data.data(), .bytes = 8}, operation) ==
        Status::unknown_peer);
  CHECK(pair.a->receive({.tag = 9, .bytes = 8}, operation) == Status::invalid_argument);
  CHECK(pair.a->receive({.peer = stranger, .tag = 9, .data = buffers[12].data(), .bytes = 8},
                        operation) == Status::unknown_peer);

  // The oldest receive holds up none of the later ones.
  for (std::uint64_t tag = 3; tag < 40; ++tag) {
    post_receive(*pair.b, pair.a_of_b, tag, buffers[13]);
    CHECK(pair.next(*pair.b).tag == tag);
    CHECK(pair.next(*pair.a).tag == tag);
    post_send(*pair.a, pair.b_of_a, tag + 1, data, delivered);
    CHECK(send_another() == Status::again);
  }
  post_receive(*pair.b, pair.a_of_b, 0, buffers[13]);
  CHECK(pair.next(*pair.b).tag == 0);
  CHECK(pair.next(*pair.a).tag == 0);
  post_receive(*pair.b, pair.a_of_b, 9, buffers[13]);
  CHECK(pair.a->send({.peer = pair.b_of_a,
                      .tag = 9,
                      .data = data.data(),
                      .bytes = data.size(),
                      .level = Level::delivered},
                     operation) == Status::ok);
  CHECK(pair.next(*pair.b).tag == 9);
  CHECK(pair.next(*pair.a).status == Status::ok);
}

// The heap of a sanitizer keeps freed memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

TEST_CASE("Endpoint__those_that_are_made_and_ended_in_turns_take_no_more_memory") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  // The small blocks that the heap keeps settle within some rounds. Tables on it grew by 8 MiB and
  // more in each.
  constexpr std::size_t kMostGrowthKib = 16 * 1024;
  const auto round = [&] {
    EngineConfig config;
    config.nics = nic_names(setting, 0, 1);
    config.threads = setting.threads;
    config.tunables = short_close();
    Engine engine(config);
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    for (int i = 0; i < 30; ++i) endpoints.push_back(engine.create_endpoint({}));
  };
  for (int i = 0; i < 20; ++i) round();
  const std::size_t before = resident_kib();
  REQUIRE(before > 0);
  for (int i = 0; i < 10; ++i) round();
  CHECK(resident_kib() < before + kMostGrowthKib);
}
#endif

TEST_CASE("Endpoint__flush_sends_what_nobody_polls_for") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting, short_close());
  std::array<std::byte, 8> in{}, out{};
  Completion completion;
  OperationId operation = kNoOperation;
  // The first message sets up the session, for which both endpoints need turns.
  for (int i = 0; i < 5; ++i) {
    REQUIRE(pair.b->receive({.tag = 1, .data = out.data(), .bytes = 8}, operation) == Status::ok);
    REQUIRE(pair.a->send({.peer = pair.b_of_a, .tag = 1, .data = in.data(), .bytes = 8},
                         operation) == Status::ok);
    pair.a->flush();
    if (i == 0) {
      CHECK(next_of(*pair.b, *pair.a).status == Status::ok);
    } else {
      REQUIRE(pair.b->wait(std::span(&completion, 1), kHangLimitNs) == 1);
      CHECK(completion.status == Status::ok);
    }
    CHECK(next_of(*pair.a, *pair.b).status == Status::ok);
  }
  pair.a->close();
  pair.a->flush();
}

TEST_CASE("Endpoint__probe_and_cancel") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  std::vector<std::byte> buffer(64);
  const OperationId receive = post_receive(*pair.b, kAnyPeer, 1, buffer);
  CHECK(pair.b->cancel(receive) == Status::ok);
  const Completion cancelled = pair.next(*pair.b);
  CHECK(cancelled.operation == receive);
  CHECK(cancelled.status == Status::cancelled);
  CHECK(pair.b->cancel(receive) == Status::unknown_operation);

  Envelope envelope;
  CHECK(pair.b->probe({.tag = 2}, envelope) == Status::again);
  const std::vector<std::byte> data = pattern(40, 4);
  post_send(*pair.a, pair.b_of_a, 2, data);
  CHECK(pair.next(*pair.a).status == Status::ok);  // accepted, since b has it
  REQUIRE(pair.b->probe({.tag = 2}, envelope) == Status::ok);
  CHECK(envelope.bytes == 40);
  CHECK(envelope.peer == pair.a_of_b);
  post_receive(*pair.b, kAnyPeer, 2, buffer);
  CHECK(pair.next(*pair.b).bytes == 40);
}

TEST_CASE("Endpoint__cancels_a_send_that_no_receive_has_matched") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  const std::vector<std::byte> data = pattern(5000, 4);
  const std::vector<std::byte> other = pattern(5000, 5);
  std::vector<std::byte> buffer(5000);
  SendRequest delivered;
  delivered.level = Level::delivered;
  const OperationId unwanted = post_send(*pair.a, pair.b_of_a, 2, data, delivered);
  CHECK(pair.a->cancel(unwanted) == Status::ok);
  const Completion cancelled = pair.next(*pair.a);
  CHECK(cancelled.operation == unwanted);
  CHECK(cancelled.status == Status::cancelled);
  CHECK(cancelled.released);
  CHECK(pair.a->cancel(unwanted) == Status::unknown_operation);
  post_receive(*pair.b, kAnyPeer, 2, buffer);
  post_send(*pair.a, pair.b_of_a, 2, other, delivered);
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(buffer == other);
  CHECK(pair.next(*pair.a).status == Status::ok);
}

// The sender reports a failure at once, and releases the bytes when the NICs let go of them,
// `late_reap_ms` after the send. False if the machine stood still for so long before the failure.
bool tells_a_failure_first(const Setting& setting, int late_reap_ms) {
  const std::vector<std::byte> data = pattern(5000, 4);
  EndpointPair pair(setting, short_close(), 2, "late-reap=" + std::to_string(late_reap_ms) + "ms");
  const proto::Time begun = monotonic_now();
  SendRequest delivered;
  delivered.level = Level::delivered;
  const OperationId send = post_send(*pair.a, pair.b_of_a, 2, data, delivered);
  Envelope envelope;
  REQUIRE(pair.turn_until([&] { return pair.b->probe({.tag = 2}, envelope) == Status::ok; }));
  REQUIRE(pair.a->disconnect(pair.b_of_a) == Status::ok);
  const Completion done = pair.next(*pair.a);
  if (monotonic_now() - begun >= proto::milliseconds(late_reap_ms)) return false;
  CHECK(done.operation == send);
  CHECK(done.status == Status::endpoint_closed);
  CHECK_FALSE(done.released);
  CHECK(done.outcome_unknown);
  CHECK(pair.a->stats().sends_unreleased == 1);
  CHECK(pair.a->stats().operations_pending == 1);
  const Completion released = pair.next(*pair.a);
  CHECK(released.operation == send);
  CHECK(released.status == Status::endpoint_closed);
  CHECK(released.released);
  CHECK(pair.a->stats().sends_unreleased == 0);
  CHECK(pair.a->stats().operations_pending == 0);
  return true;
}

TEST_CASE("Endpoint__tells_a_failure_before_the_bytes_are_released") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  CHECK((tells_a_failure_first(setting, 500) || tells_a_failure_first(setting, 5'000) ||
         tells_a_failure_first(setting, 50'000)));
}

TEST_CASE("Endpoint__what_a_peer_delivered_is_received_after_a_disconnect") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  const std::vector<std::byte> data = pattern(500, 1);
  std::vector<std::byte> received(500);
  post_send(*pair.a, pair.b_of_a, 1, data);
  Envelope envelope;
  REQUIRE(pair.next(*pair.a).status == Status::ok);
  REQUIRE(pair.b->probe({.peer = pair.a_of_b, .tag = 1}, envelope) == Status::ok);
  REQUIRE(pair.b->disconnect(pair.a_of_b) == Status::ok);
  post_receive(*pair.b, pair.a_of_b, 1, received);
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(received == data);
}

TEST_CASE("Endpoint__claims_a_message_and_receives_it_by_its_name") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  const std::vector<std::byte> first = pattern(70'000, 4);
  const std::vector<std::byte> second = pattern(70'000, 5);
  std::vector<std::byte> buffer(70'000);
  std::vector<std::byte> other(70'000);
  Envelope envelope;
  MessageId message = kNoMessage;
  CHECK(pair.b->claim({.tag = 2}, envelope, message) == Status::again);
  CHECK(message == kNoMessage);
  SendRequest delivered;
  delivered.level = Level::delivered;
  post_send(*pair.a, pair.b_of_a, 2, first, delivered);
  REQUIRE(
      pair.turn_until([&] { return pair.b->claim({.tag = 2}, envelope, message) == Status::ok; }));
  REQUIRE(message != kNoMessage);
  CHECK(envelope.bytes == first.size());
  CHECK(envelope.peer == pair.a_of_b);
  post_receive(*pair.b, kAnyPeer, 2, other);
  post_send(*pair.a, pair.b_of_a, 2, second, delivered);
  CHECK(pair.next(*pair.b).status == Status::ok);
  CHECK(other == second);
  OperationId operation = kNoOperation;
  CHECK(pair.b->receive_claimed(message, {.bytes = 1, .user_data = 9}, operation) ==
        Status::invalid_argument);
  REQUIRE(pair.b->receive_claimed(message,
                                  {.data = buffer.data(), .bytes = buffer.size(), .user_data = 9},
                                  operation) == Status::ok);
  const Completion completion = pair.next(*pair.b);
  CHECK(completion.status == Status::ok);
  CHECK(completion.operation == operation);
  CHECK(completion.user_data == 9);
  CHECK(completion.tag == 2);
  CHECK(completion.peer == pair.a_of_b);
  CHECK(buffer == first);
  CHECK(pair.b->put_back(message) == Status::unknown_operation);
  CHECK(pair.next(*pair.a).status == Status::ok);
  CHECK(pair.next(*pair.a).status == Status::ok);
}

TEST_CASE("Endpoint__arguments_that_are_wrong_are_answered_not_taken") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  OperationId operation = kNoOperation;
  std::byte byte{};
  CHECK(pair.a->send({.peer = pair.b_of_a, .bytes = 1}, operation) == Status::invalid_argument);
  CHECK(pair.a->send({.peer = pair.b_of_a, .data = &byte, .bytes = kMaxMessageBytes + 1},
                     operation) == Status::invalid_argument);
  CHECK(pair.a->send({.peer = PeerId{7}, .data = &byte, .bytes = 1}, operation) ==
        Status::unknown_peer);
  CHECK(pair.a->send({.peer = kAnyPeer, .data = &byte, .bytes = 1}, operation) ==
        Status::unknown_peer);
  CHECK(pair.a->receive({.peer = PeerId{7}, .ignore = kAnyTag, .data = &byte, .bytes = 1},
                        operation) == Status::unknown_peer);
  CHECK(pair.a->receive({.ignore = kAnyTag, .bytes = 1}, operation) == Status::invalid_argument);
  CHECK(operation == kNoOperation);
  CHECK(pair.a->cancel(kNoOperation) == Status::unknown_operation);
  CHECK(pair.a->disconnect(PeerId{7}) == Status::unknown_peer);
  PeerId peer = kAnyPeer;
  CHECK(pair.a->connect(pair.a->address(), peer) == Status::invalid_argument);
  CHECK(pair.a->connect({}, peer) == Status::invalid_argument);
  REQUIRE(pair.a->connect(pair.b->address(), peer) == Status::ok);
  CHECK(peer == pair.b_of_a);
  Completion none;
  CHECK(pair.a->poll(std::span(&none, 1)) == 0);
}

TEST_CASE("Endpoint__close_completes_what_is_pending") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  std::vector<std::byte> buffer(64);
  const OperationId receive = post_receive(*pair.a, kAnyPeer, 1, buffer);
  pair.a->close();
  Completion completion;
  REQUIRE(pair.a->poll(std::span(&completion, 1)) == 1);
  CHECK(completion.operation == receive);
  CHECK(completion.status == Status::endpoint_closed);
  CHECK(pair.a->poll(std::span(&completion, 1)) == 0);
  OperationId operation = kNoOperation;
  CHECK(pair.a->receive({.tag = 1, .ignore = kAnyTag, .data = buffer.data(), .bytes = 64},
                        operation) == Status::endpoint_closed);
  pair.a->close();  // closing again does nothing
}

TEST_CASE("Endpoint__ends_with_operations_pending_and_without_a_word_of_the_other") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::vector<std::byte> data = pattern(1'000'000, 5);
  EndpointPair pair(setting);
  post_send(*pair.a, pair.b_of_a, 1, data);
  if (setting.threads == 0) pair.a->poll({});
  pair.b.reset();
  pair.a.reset();
}

TEST_CASE("Endpoint__closes_at_once_when_it_has_disconnected_its_peers") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  Tunables patient;
  patient.close_timeout_ms = 600'000;
  EndpointPair pair(setting, patient);
  const std::vector<std::byte> data = pattern(100, 1);
  std::vector<std::byte> buffer(100);
  post_receive(*pair.b, pair.a_of_b, 1, buffer);
  post_send(*pair.a, pair.b_of_a, 1, data);
  REQUIRE(pair.next(*pair.b).status == Status::ok);
  REQUIRE(pair.next(*pair.a).status == Status::ok);
  REQUIRE(pair.a->disconnect(pair.b_of_a) == Status::ok);
  REQUIRE(pair.b->disconnect(pair.a_of_b) == Status::ok);
  const HangLimit limit;
  pair.a->close();
  pair.b->close();
  CHECK_FALSE(limit.is_over());
}

TEST_CASE("Endpoint__names_endpoints_that_connect_to_it") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  const std::vector<std::byte> data = pattern(10, 6);
  Engine engine_a({nic_names(setting, 0, 1), setting.threads, short_close(), ""});
  Engine engine_b({nic_names(setting, 1, 1), setting.threads, short_close(), ""});
  const auto a = engine_a.create_endpoint({.endpoint_id = 11});
  const auto b = engine_b.create_endpoint({.endpoint_id = 22});
  PeerId b_of_a = kAnyPeer;
  REQUIRE(a->connect(b->address(), b_of_a) == Status::ok);
  Event event;
  bool named = false;
  for (const HangLimit limit; !(named || limit.is_over());) {
    Completion none;
    a->wait(std::span(&none, 1), 500'000);
    b->wait(std::span(&none, 1), 500'000);
    named =
        b->poll_events(std::span(&event, 1)) == 1 && event.kind == Event::Kind::peer_established;
  }
  REQUIRE(named);
  CHECK(event.endpoint_id == 11);
  OperationId operation = kNoOperation;
  CHECK(b->send({.peer = event.peer, .tag = 1, .data = data.data(), .bytes = data.size()},
                operation) == Status::ok);
}

// Many messages of all sizes in both directions, from several threads where that is allowed. Checks
// every byte, and the order of matching within a tag.
TEST_CASE("Endpoint__traffic_from_several_threads") {
  const std::string driver = GENERATE(as<std::string>{}, "memory", "udp");
  CAPTURE(driver);
  EndpointPair pair({driver, 1});
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kEach = 60;
  const auto size_of = [](std::size_t thread, std::size_t i) {
    return (thread * 7919 + i * 104729) % 30000;
  };
  std::vector<std::vector<std::vector<std::byte>>> sent(kThreads);
  std::vector<std::thread> senders;
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (std::size_t i = 0; i < kEach; ++i)
      sent[t].push_back(pattern(size_of(t, i), t * kEach + i));
    senders.emplace_back([&, t] {
      for (const std::vector<std::byte>& message : sent[t]) {
        OperationId operation = kNoOperation;
        Status status = Status::again;
        while (status == Status::again) {
          status = pair.a->send(
              {.peer = pair.b_of_a, .tag = t, .data = message.data(), .bytes = message.size()},
              operation);
          if (status == Status::again) std::this_thread::yield();
        }
      }
    });
  }
  std::map<OperationId, std::vector<std::byte>*> pending;
  std::vector<std::vector<std::byte>> buffers(kThreads * kEach, std::vector<std::byte>(30000));
  for (std::size_t i = 0; i < kThreads * kEach; ++i) {
    pending[post_receive(*pair.b, pair.a_of_b, i % kThreads, buffers[i])] = &buffers[i];
  }
  std::vector<std::size_t> next(kThreads);
  std::map<std::uint64_t, std::map<OperationId, Completion>> by_tag;
  for (std::size_t i = 0; i < kThreads * kEach; ++i) {
    const Completion completion = pair.next(*pair.b);
    REQUIRE(completion.status == Status::ok);
    by_tag[completion.tag][completion.operation] = completion;
  }
  for (std::thread& sender : senders) sender.join();
  // Receives of a tag were posted in the order of i, so they match in the order of sending.
  std::size_t i = 0;
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (i = 0; i < kEach; ++i) {
      const std::vector<std::byte>& expected = sent[t][i];
      const std::vector<std::byte>& got = buffers[i * kThreads + t];
      REQUIRE(std::equal(expected.begin(), expected.end(), got.begin()));
    }
  }
  for (std::size_t n = 0; n < kThreads * kEach; ++n)
    REQUIRE(pair.next(*pair.a).status == Status::ok);
}

// Like receives, `probe` and `claim` report that a peer has gone and nothing more will come from
// it.
TEST_CASE("Endpoint__probe_and_claim_say_how_a_session_has_ended") {
  const Setting setting = GENERATE(from_range(all_settings()));
  CAPTURE(setting);
  EndpointPair pair(setting);
  PeerStats stats;
  REQUIRE(pair.turn_until(
      [&] { return pair.a->peer_stats(pair.b_of_a, stats) == Status::ok && stats.established; }));
  REQUIRE(pair.b->disconnect(pair.a_of_b) == Status::ok);
  REQUIRE(pair.turn_until([&] {
    return pair.a->peer_stats(pair.b_of_a, stats) == Status::ok && stats.failure != Status::ok;
  }));
  CHECK(stats.failure_reason == Reason::status);
  Envelope envelope;
  MessageId message = kNoMessage;
  CHECK(pair.a->probe({.peer = pair.b_of_a, .tag = 1}, envelope) == Status::peer_closed);
  CHECK(pair.a->claim({.peer = pair.b_of_a, .tag = 1}, envelope, message) == Status::peer_closed);
  CHECK(pair.a->probe({.tag = 1}, envelope) == Status::again);
  pair.a->close();
  CHECK(pair.a->probe({.tag = 1}, envelope) == Status::endpoint_closed);
  CHECK(pair.a->claim({.tag = 1}, envelope, message) == Status::endpoint_closed);
}

// Two interfaces of one host may have the same link-local address.
TEST_CASE("Endpoint__a_link_local_address_is_refused_without_its_interface") {
  Engine engine({{"udp:fe80::1"}});
  try {
    (void)engine.create_endpoint({});
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains("name the interface too, as in udp:fe80::1%eth0"));
  }
}

TEST_CASE("Error__of_a_limit_of_the_system_says_which_one_to_raise") {
  CHECK_THAT(system_error("No socket", EMFILE).what(), Catch::Contains("(ulimit -n)"));
  CHECK_THAT(system_error("No socket", ENFILE).what(), Catch::Contains("fs.file-max"));
  CHECK(std::string(system_error("No socket", EACCES).what()) == "No socket: Permission denied");
}

}  // namespace
}  // namespace hawser::engine
