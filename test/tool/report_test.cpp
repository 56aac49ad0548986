// SPDX-License-Identifier: Apache-2.0
#include "tool/run/report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tool/utf8.hpp"

namespace hawser::tool {
namespace {

NicSample nic(const std::string& name, PathState state) {
  NicSample sample;
  sample.name = name;
  sample.state = state;
  sample.packets_sent = 1;
  sample.data_packets_sent = 9;
  sample.packets_received = 2;
  sample.bytes_sent = 3;
  sample.bytes_received = 4;
  sample.packets_lost = 5;
  sample.retransmits = 6;
  sample.overruns = 7;
  sample.srtt_ns = 8;
  return sample;
}

RankResult result() {
  RankResult made;
  made.rank = 3;
  made.failure =
      RankFailure{ExitCode::peer_failed, "peer_timeout", 7, "all_reduce: rank 7: \xff timeout"};
  made.task_ns = {1, 2, 3};
  made.operations.at(OneSidedKind::read, When::during).add(35);
  made.stalls[1] = {100, 50, 0.25};
  made.verified_bytes = 10;
  made.verified_tasks = 11;
  made.wrong_elements = 12;
  made.damaged_guard_bytes = 13;
  made.wrong = {"step 1: wrong\nreally"};
  made.counters = {{"ptos", 14}};
  made.drops = {{"bad_mac", 15}};
  made.operations_left = 16;
  made.buffers_left = 17;
  made.unexpected_bytes_left = 18;
  made.nics = {nic("udp:127.0.0.1", PathState::probing)};
  made.injected = {{2, 23}};
  made.path_changes = {{PathChange::Kind::blamed, 24, 1, 2, 3, Blame::link},
                       {PathChange::Kind::driver_up, 25, 1, 0, 0}};
  made.path_changes_left_out = 26;
  made.life = 27;
  made.recoveries = {{28, "peer_restarted", 29, 30}};
  made.messages_sent_before = 31;
  made.messages_received_before = 32;
  made.fragment_bytes_least = 33;
  made.fragment_bytes_most = 34;
  made.setup_ns = 19;
  made.communication_ns = 20;
  made.check_ns = 21;
  made.peak_memory_bytes = 22;
  return made;
}

TEST_CASE("report: a result comes through a line as it was") {
  RankMessage message;
  message.result = result();
  const std::string line = to_lines(message);
  CHECK(line.find('\n') == line.size() - 1);
  const auto back = from_line(line);
  REQUIRE(back);
  REQUIRE(back->result);
  CHECK_FALSE(back->progress);
  CHECK_FALSE(back->note);
  // Writing it a second time shows that the text has all fields and is stable.
  CHECK(to_lines(*back) == line);
  CHECK(back->result->failure->peer == 7u);
  CHECK(back->result->failure->code == ExitCode::peer_failed);
  CHECK(back->result->nics[0].state == PathState::probing);
  CHECK(back->result->stalls[1].at == 0.25);
  CHECK(back->result->operations.at(OneSidedKind::read, When::during).longest_ns() == 35);
  CHECK(back->result->task_ns == std::vector<std::uint64_t>{1, 2, 3});
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("report: a result of any length comes through lines that the launcher accepts") {
  for (const std::size_t tasks : {0u, 8191u, 8192u, 8193u, 300'000u}) {
    CAPTURE(tasks);
    RankMessage message;
    message.result = result();
    // The longest numbers, all different.
    message.result->task_ns.resize(tasks);
    for (std::size_t i = 0; i < tasks; ++i) message.result->task_ns[i] = ~std::uint64_t{0} - i;
    RankMessage progress;
    progress.progress = Progress{0.5, {}};

    MessageReader reader;
    std::vector<RankMessage> read;
    for (const std::string& line : split(to_lines(message))) {
      CHECK(line.size() < kMaxLineBytes / 64);  // and so would be those of far longer runs
      if (auto whole = reader.read(line)) read.push_back(std::move(*whole));
    }
    REQUIRE(read.size() == 1);
    REQUIRE(read[0].result);
    CHECK(read[0].result->task_ns == message.result->task_ns);
    CHECK(to_lines(read[0]) == to_lines(message));
    // The next message of the same sender has nothing of this one.
    const auto next = reader.read(to_lines(progress));
    REQUIRE(next);
    CHECK(next->task_ns.empty());
  }
}

TEST_CASE("report: every number of a result is in its line") {
  const nlohmann::json json = result();
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (int number = 10; number <= 22; ++number) {
    INFO(number);
    CHECK(text.find(":" + std::to_string(number)) != std::string::npos);
  }
}

TEST_CASE("report: progress and notes") {
  RankMessage message;
  message.progress = Progress{0.5, {nic("a", PathState::up), nic("b", PathState::down)}};
  message.note = "NIC 2 killed";
  const auto back = from_line(to_lines(message));
  REQUIRE(back);
  CHECK(back->progress->done == 0.5);
  CHECK(back->progress->nics.size() == 2);
  CHECK(back->progress->nics[1].state == PathState::down);
  CHECK(*back->note == "NIC 2 killed");
}

TEST_CASE("report: names that are no UTF-8 are replaced, never thrown about") {
  const nlohmann::json json{{"workload", "caf\xe9.txt"}};
  CHECK_THROWS(json.dump());
  CHECK(json_text(json) == "{\"workload\":\"caf\xEF\xBF\xBD.txt\"}");
  CHECK(valid_utf8("caf\xc3\xa9 \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xf0\x9f\x98\x80");
  CHECK(valid_utf8("\xc0\x80\xed\xa0\x80") ==
        "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_CASE("report: what is printed of a file does not control the terminal") {
  CHECK(printable("caf\xc3\xa9 \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xf0\x9f\x98\x80");
  for (const char* control : {"\x1b", "\n", "\x7f", "\xc2\x9b", "\xff"}) {
    INFO(control);
    CHECK(printable(std::string("a") + control + "[31m") == "a\xEF\xBF\xBD[31m");
  }
}

TEST_CASE("report: what is no message is none") {
  for (const char* line : {"", "x", "{}", "[]", "3", "{\"result\":{}}",
                           "{\"progress\":{\"done\":1}}", "{\"note\":3}", "{\"result\""}) {
    INFO(line);
    CHECK_FALSE(from_line(line));
  }
}

}  // namespace
}  // namespace hawser::tool
