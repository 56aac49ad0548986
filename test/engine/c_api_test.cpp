// SPDX-License-Identifier: Apache-2.0
// The C API where it differs from the C++ API: versions, sizes of structs, errors in words, and
// names of statistics. docs/example.c runs messages through it.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "hawser/engine.hpp"
#include "hawser/hawser.h"
#include "test/support/hang_limit.hpp"

namespace hawser::engine {
namespace {

hawser_engine_config memory_config() {
  static const char* const nics[] = {"memory:c-api"};
  hawser_engine_config config{};
  config.struct_size = sizeof config;
  config.nics = nics;
  config.nic_count = 1;
  return config;
}

struct Pair {
  Pair() {
    const hawser_tunable quick{"close_timeout_ms", 20};
    hawser_engine_config config = memory_config();
    config.tunables = &quick;
    config.tunable_count = 1;
    config.faults = "delay=0";
    REQUIRE(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, nullptr, 0) == HAWSER_OK);
    REQUIRE(hawser_endpoint_create(engine, nullptr, &a, nullptr, 0) == HAWSER_OK);
    REQUIRE(hawser_endpoint_create(engine, nullptr, &b, nullptr, 0) == HAWSER_OK);
    std::size_t bytes = 0;
    const void* const address = hawser_endpoint_address(b, &bytes);
    REQUIRE(bytes <= HAWSER_MAX_ADDRESS_BYTES);
    REQUIRE(hawser_connect(a, address, bytes, &b_of_a) == HAWSER_OK);
  }
  ~Pair() {
    hawser_endpoint_destroy(a);
    hawser_endpoint_destroy(b);
    hawser_engine_destroy(engine);
  }
  // The next completion of `mine`; the other endpoint gets its turns meanwhile.
  hawser_completion next(hawser_endpoint* mine) {
    hawser_completion completion{};
    for (const test::HangLimit limit; !limit.is_over();) {
      if (hawser_wait(mine, &completion, 1, 100000) == 1) return completion;
      (void)hawser_poll(mine == a ? b : a, nullptr, 0);
    }
    FAIL("no completion");
    return completion;
  }
  hawser_engine* engine = nullptr;
  hawser_endpoint* a = nullptr;
  hawser_endpoint* b = nullptr;
  hawser_peer b_of_a = HAWSER_ANY_PEER;
};

TEST_CASE("CApi__refuses_another_version_and_structs_of_a_newer_one") {
  hawser_engine* engine = nullptr;
  std::array<char, 20> error{};
  hawser_engine_config config = memory_config();
  CHECK(hawser_engine_create(HAWSER_ABI_VERSION + 1, &config, &engine, error.data(),
                             error.size()) == HAWSER_UNSUPPORTED);
  CHECK(std::strlen(error.data()) == error.size() - 1);  // truncated
  config.struct_size = sizeof config + 8;
  CHECK(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, nullptr, 0) ==
        HAWSER_INVALID_ARGUMENT);
  config.struct_size = 0;
  CHECK(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, nullptr, 0) ==
        HAWSER_INVALID_ARGUMENT);
  CHECK(engine == nullptr);
  // An older configuration, which ends before `faults`.
  config = memory_config();
  config.faults = "no such word";
  config.struct_size = offsetof(hawser_engine_config, faults);
  REQUIRE(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, nullptr, 0) == HAWSER_OK);
  CHECK(hawser_engine_nic_count(engine) == 1);
  CHECK(hawser_engine_inject_fault(engine, 0, "loss=0.1") == HAWSER_UNSUPPORTED);
  hawser_engine_destroy(engine);
}

// A later version may give them a meaning.
TEST_CASE("CApi__refuses_reserved_bytes_that_are_not_0") {
  Pair pair;
  const auto check = [](auto request, const auto& call) {
    request.struct_size = sizeof request;
    for (std::uint8_t& byte : request.reserved) {
      byte = 1;
      CHECK(call(request) == HAWSER_INVALID_ARGUMENT);
      byte = 0;
    }
    CHECK(call(request) != HAWSER_INVALID_ARGUMENT);
  };
  hawser_operation operation = 0;
  hawser_send_request send{};
  send.peer = pair.b_of_a;
  check(send, [&](const auto& given) { return hawser_send(pair.a, &given, &operation); });
  hawser_receive_request receive{};
  receive.peer = pair.b_of_a;
  check(receive, [&](const auto& given) { return hawser_receive(pair.a, &given, &operation); });
  // Those of a struct within a struct count as well.
  hawser_atomic_request atomic{};
  atomic.peer = pair.b_of_a;
  atomic.key.bytes = 8;
  atomic.word.operation = HAWSER_ADD;
  atomic.word.width = 8;
  check(atomic, [&](const auto& given) { return hawser_atomic(pair.a, &given, &operation); });
  atomic.struct_size = sizeof atomic;
  atomic.word.reserved[5] = 1;
  CHECK(hawser_atomic(pair.a, &atomic, &operation) == HAWSER_INVALID_ARGUMENT);
  hawser_probe_request probe{};
  probe.peer = HAWSER_ANY_PEER;
  hawser_envelope envelope{};
  check(probe, [&](const auto& given) { return hawser_probe(pair.a, &given, &envelope); });
}

TEST_CASE("CApi__checks_faults_without_an_engine") {
  std::array<char, 100> error{"untouched"};
  CHECK(hawser_check_faults("loss=0.1,kill", error.data(), error.size()) == HAWSER_OK);
  CHECK(std::string(error.data()) == "untouched");
  CHECK(hawser_check_faults("kill,maim", error.data(), error.size()) == HAWSER_INVALID_ARGUMENT);
  CHECK_THAT(error.data(), Catch::Contains("\"maim\""));
  CHECK(hawser_check_faults("maim", error.data(), 4) == HAWSER_INVALID_ARGUMENT);
  CHECK(std::strlen(error.data()) == 3);  // truncated
  CHECK(hawser_check_faults("maim", nullptr, 0) == HAWSER_INVALID_ARGUMENT);
}

TEST_CASE("CApi__says_in_words_what_is_wrong_with_a_configuration") {
  const auto complaint = [](const hawser_engine_config& config) {
    hawser_engine* engine = nullptr;
    std::array<char, 300> error{};
    CHECK(hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, error.data(), error.size()) ==
          HAWSER_INVALID_ARGUMENT);
    CHECK(engine == nullptr);
    return std::string(error.data());
  };
  hawser_engine_config config = memory_config();
  config.faults = "no such word";
  CHECK_THAT(complaint(config), Catch::Contains("no such word"));
  config = memory_config();
  config.nic_count = 0;
  CHECK_FALSE(complaint(config).empty());
  config = memory_config();
  const hawser_tunable wrong{"no_such_tunable", 1};
  config.tunables = &wrong;
  config.tunable_count = 1;
  CHECK_THAT(complaint(config), Catch::Contains("no_such_tunable"));
}

TEST_CASE("CApi__moves_a_message_and_mirrors_its_completions") {
  Pair pair;
  std::string sent = "between C programs";
  std::string received(100, ' ');
  hawser_send_request send{};
  send.struct_size = sizeof send;
  send.peer = pair.b_of_a;
  send.channel = 3;
  send.tag = 5;
  send.data = sent.data();
  send.bytes = sent.size();
  send.immediate = 7;
  send.user_data = 8;
  send.level = HAWSER_DELIVERED;
  hawser_receive_request receive{};
  receive.struct_size = sizeof receive;
  receive.peer = HAWSER_ANY_PEER;
  receive.channel = 3;
  receive.tag = 5;
  receive.data = received.data();
  receive.bytes = received.size();
  receive.user_data = 9;
  hawser_operation sending = HAWSER_NO_OPERATION;
  hawser_operation receiving = HAWSER_NO_OPERATION;
  REQUIRE(hawser_receive(pair.b, &receive, &receiving) == HAWSER_OK);
  REQUIRE(hawser_send(pair.a, &send, &sending) == HAWSER_OK);
  const hawser_completion at_b = pair.next(pair.b);
  CHECK(at_b.operation == receiving);
  CHECK(at_b.kind == HAWSER_RECEIVE);
  CHECK(at_b.status == HAWSER_OK);
  CHECK(at_b.user_data == 9);
  CHECK(at_b.immediate == 7);
  CHECK(at_b.tag == 5);
  CHECK(at_b.channel == 3);
  CHECK(at_b.bytes == sent.size());
  CHECK(received.substr(0, sent.size()) == sent);
  const hawser_completion at_a = pair.next(pair.a);
  CHECK(at_a.operation == sending);
  CHECK(at_a.kind == HAWSER_SEND);
  CHECK(at_a.user_data == 8);
  CHECK(at_a.released == 1);
  CHECK(at_a.outcome_unknown == 0);

  send.level = 2;
  CHECK(hawser_send(pair.a, &send, &sending) == HAWSER_INVALID_ARGUMENT);
  send.level = HAWSER_ACCEPTED;
  for (const std::size_t wrong :
       {std::size_t{0}, sizeof(std::size_t), sizeof send - 1, sizeof send + 1}) {
    CAPTURE(wrong);
    send.struct_size = wrong;
    CHECK(hawser_send(pair.a, &send, &sending) == HAWSER_INVALID_ARGUMENT);
  }
  CHECK(hawser_send(pair.a, nullptr, &sending) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_inject(pair.a, nullptr) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_receive(pair.a, nullptr, &receiving) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_probe(pair.a, nullptr, nullptr) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_receive_claimed(pair.a, 1, nullptr, &receiving) == HAWSER_INVALID_ARGUMENT);
  hawser_peer nobody = HAWSER_ANY_PEER;
  CHECK(hawser_connect(pair.a, nullptr, 100, &nobody) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_engine_inject_fault(pair.engine, 0, nullptr) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_check_faults(nullptr, nullptr, 0) == HAWSER_INVALID_ARGUMENT);
  CHECK(hawser_cancel(pair.a, sending) == HAWSER_UNKNOWN_OPERATION);
  CHECK(hawser_put_back(pair.a, HAWSER_NO_MESSAGE) == HAWSER_UNKNOWN_OPERATION);
  hawser_claimed_request claimed{};
  claimed.struct_size = sizeof claimed;
  CHECK(hawser_receive_claimed(pair.a, HAWSER_NO_MESSAGE, &claimed, &receiving) ==
        HAWSER_UNKNOWN_OPERATION);
  hawser_probe_request probe{};
  probe.struct_size = sizeof probe;
  probe.peer = HAWSER_ANY_PEER;
  probe.channel = 3;
  probe.ignore = HAWSER_ANY_TAG;
  hawser_envelope envelope{};
  CHECK(hawser_probe(pair.b, &probe, &envelope) == HAWSER_AGAIN);
  CHECK(hawser_fd(pair.a) >= 0);

  std::array<hawser_event, 8> events{};
  REQUIRE(hawser_poll_events(pair.a, events.data(), events.size()) == 2);
  CHECK(events[0].kind == HAWSER_PEER_CALLING);
  CHECK(events[0].reason == HAWSER_REASON_ASKED);
  CHECK(events[1].kind == HAWSER_PEER_ESTABLISHED);
  CHECK(events[1].reason == HAWSER_REASON_HANDSHAKE);
  CHECK(events[1].peer == pair.b_of_a);
  CHECK(events[1].number == 1);
  hawser_peer_stats peer{};
  std::array<hawser_path_stats, 2> paths{};
  std::size_t count = paths.size();
  REQUIRE(hawser_endpoint_peer_stats(pair.a, pair.b_of_a, &peer, paths.data(), &count) ==
          HAWSER_OK);
  CHECK(count == 1);
  CHECK(peer.established == 1);
  CHECK(peer.session_bytes >= 256);
  CHECK(peer.fragment_bytes == peer.session_bytes);
  CHECK(paths[0].packets_sent > 0);
  hawser_nic_stats nic{};
  count = 0;
  REQUIRE(hawser_endpoint_nic_stats(pair.a, nullptr, &count) == HAWSER_OK);
  REQUIRE(count == 1);
  REQUIRE(hawser_endpoint_nic_stats(pair.a, &nic, &count) == HAWSER_OK);
  CHECK(std::string(nic.name) == "memory:c-api");
  CHECK(nic.packets_sent > 0);
  CHECK(hawser_endpoint_peer_stats(pair.a, 99, &peer, nullptr, &count) == HAWSER_UNKNOWN_PEER);
  CHECK(hawser_engine_inject_fault(pair.engine, 0, "loss=0.1") == HAWSER_OK);
  CHECK(hawser_disconnect(pair.a, pair.b_of_a) == HAWSER_OK);
}

// The C API has every counter, gauge and drop reason of the C++ API, with its name and value.
TEST_CASE("CApi__statistics_have_the_names_and_values_of_the_structs") {
  Pair pair;
  std::set<std::string> names;
  std::vector<std::uint64_t> values(200, 12345);
  REQUIRE(hawser_stats(pair.a, values.data(), values.size()) == HAWSER_OK);
  const char* name = nullptr;
  const char* text = nullptr;
  std::size_t rows = 0;
  while (hawser_stat_row(rows, &name, &text) != 0) {
    names.insert(name);
    CHECK(std::strlen(text) > 0);
    CHECK(values[rows] < 12345);
    ++rows;
  }
  CHECK(values[rows] == 12345);
  CHECK(names.size() == rows);
  CHECK(rows * sizeof(std::uint64_t) == sizeof(EndpointStats));
  CHECK(names.contains("packets_lost"));
  CHECK(names.contains("unexpected_bytes_held"));
  CHECK(names.contains("bad_checksum"));
  std::uint64_t value = 0;
  std::size_t tunables = 0;
  while (hawser_tunable_row(tunables, &name, nullptr, nullptr, &value, nullptr, nullptr) != 0) {
    CHECK(value == Tunables{}.*kTunables[tunables].field);
    ++tunables;
  }
  CHECK(tunables == kTunables.size());
}

struct Traced {
  std::vector<hawser_trace_record> records;
  static void hook(void* context, const hawser_trace_record* record) {
    static_cast<Traced*>(context)->records.push_back(*record);
  }
  [[nodiscard]] std::size_t count(hawser_trace_kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(records.begin(), records.end(),
                      [&](const hawser_trace_record& record) { return record.kind == kind; }));
  }
};

TEST_CASE("CApi__a_trace_hook_sees_messages_and_a_driver_s_word_is_a_verdict") {
  Traced traced;
  Pair pair;
  hawser_endpoint_config config{};
  config.struct_size = sizeof config;
  config.trace = Traced::hook;
  config.trace_context = &traced;
  hawser_endpoint* c = nullptr;
  REQUIRE(hawser_endpoint_create(pair.engine, &config, &c, nullptr, 0) == HAWSER_OK);
  std::size_t bytes = 0;
  const void* const address = hawser_endpoint_address(pair.b, &bytes);
  hawser_peer b_of_c = HAWSER_ANY_PEER;
  REQUIRE(hawser_connect(c, address, bytes, &b_of_c) == HAWSER_OK);
  hawser_operation operation = HAWSER_NO_OPERATION;
  hawser_send_request send{};
  send.struct_size = sizeof send;
  send.peer = b_of_c;
  send.tag = 1;
  send.data = "abc";
  send.bytes = 3;
  REQUIRE(hawser_send(c, &send, &operation) == HAWSER_OK);
  hawser_completion completion{};
  std::size_t completed = 0;
  for (const test::HangLimit limit; completed == 0 && !limit.is_over();) {
    completed = hawser_wait(c, &completion, 1, 100000);
    (void)hawser_poll(pair.b, nullptr, 0);
  }
  REQUIRE(completed == 1);
  CHECK(completion.status == HAWSER_OK);
  CHECK(traced.count(HAWSER_TRACE_MESSAGE_BEGUN) == 1);
  CHECK(traced.count(HAWSER_TRACE_PACKET_SENT) == 1);
  CHECK(traced.count(HAWSER_TRACE_SEND_COMPLETED) == 1);
  CHECK(traced.count(HAWSER_TRACE_SESSION_STATE) >= 2);
  for (const hawser_trace_record& record : traced.records) {
    CHECK(record.time_ns > 0);
    if (record.kind == HAWSER_TRACE_PACKET_SENT) {
      CHECK(record.bytes == 3);
      CHECK(record.peer == b_of_c);
      CHECK(record.operation == operation);
    }
  }

  REQUIRE(hawser_engine_inject_fault(pair.engine, 0, "kill:event") == HAWSER_OK);
  std::array<hawser_verdict, 4> verdicts{};
  std::size_t count = 0;
  for (const test::HangLimit limit; count == 0 && !limit.is_over();) {
    (void)hawser_wait(c, &completion, 1, 1000000);
    count = verdicts.size();
    REQUIRE(hawser_endpoint_verdicts(c, verdicts.data(), &count) == HAWSER_OK);
  }
  REQUIRE(count == 1);
  CHECK(verdicts[0].blame == HAWSER_BLAME_LOCAL_NIC);
  CHECK(verdicts[0].reason == HAWSER_REASON_DRIVER);
  CHECK(verdicts[0].nic == 0);
  CHECK(verdicts[0].since_ns > 0);
  hawser_endpoint_destroy(c);
}

TEST_CASE("CApi__names_events_reasons_and_traces") {
  for (std::size_t i = 0; i <= kEventTexts.size(); ++i) {
    const std::string wanted(i < kEventTexts.size() ? kEventTexts[i].name : "?");
    CHECK(hawser_event_name(static_cast<hawser_event_kind>(i)) == wanted);
  }
  for (std::size_t i = 0; i <= kReasonTexts.size(); ++i) {
    const std::string wanted(i < kReasonTexts.size() ? kReasonTexts[i].name : "?");
    CHECK(hawser_reason_name(static_cast<hawser_reason>(i)) == wanted);
    CHECK(std::strlen(hawser_reason_text(static_cast<hawser_reason>(i))) > 0);
  }
  for (std::size_t i = 0; i <= kTraceKinds; ++i) {
    const std::string wanted(i < kTraceKinds ? kTraceKindTexts[i].name : "?");
    CHECK(hawser_trace_kind_name(static_cast<hawser_trace_kind>(i)) == wanted);
  }
  CHECK(std::string(hawser_trace_cause_name(HAWSER_TRACE_PACKET_LOST, 1)) == "gap");
  CHECK(std::string(hawser_trace_cause_name(HAWSER_TRACE_PACKET_DROPPED, 3)) == "bad_checksum");
  CHECK(std::string(hawser_trace_cause_name(HAWSER_TRACE_PACKET_SENT, 3)).empty());
}

TEST_CASE("CApi__names_statuses") {
  for (int status = 0; status <= HAWSER_STORE_FULL; ++status) {
    const auto code = static_cast<hawser_status>(status);
    CHECK(std::string(hawser_status_name(code)) == to_string(static_cast<Status>(status)));
    CHECK((hawser_is_peer_failure(code) != 0) == is_peer_failure(static_cast<Status>(status)));
  }
  CHECK(std::string(hawser_status_name(HAWSER_STORE_FULL)) == "store_full");
  CHECK(std::string(hawser_status_name(HAWSER_PREDECESSOR_FAILED + 1)) == "?");
}

}  // namespace
}  // namespace hawser::engine
