// SPDX-License-Identifier: Apache-2.0
// Plans as files: they keep everything, and errors in them get a message.
#include "tool/storm/plan_json.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/storm/storm.hpp"
#include "tool/error.hpp"
#include "tool/storm/plan_text.hpp"

namespace hawser::tool {
namespace {

// Plans that failed in storms, cut down to the least that still failed. Each has a line in
// docs/internals/storm_findings.md.
TEST_CASE("storm_plan__those_that_failed_once_have_nothing_wrong") {
  std::size_t plans = 0;
  for (const auto& file : std::filesystem::directory_iterator(HAWSER_PLANS)) {
    INFO(file.path().filename());
    CHECK(sim::run_storm(read_plan(file.path())).verdict == "");
    ++plans;
  }
  CHECK(plans > 0);
}

TEST_CASE("storm_plan__comes_back_from_json_as_it_was_and_runs_the_same", "[long]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const sim::Plan plan = sim::draw_plan(seed);
    const nlohmann::json json = to_json(plan);
    const sim::Plan back = plan_from_json(nlohmann::json::parse(json.dump()));
    CAPTURE(seed);
    REQUIRE(to_json(back) == json);
    if (seed <= 6) CHECK(sim::run_storm(back).digest == sim::run_storm(plan).digest);
  }
}

TEST_CASE("storm_plan__reads_the_names_of_older_files") {
  const nlohmann::json json = to_json(sim::draw_plan(3));
  nlohmann::json older = json;
  for (const char* const list : {"messages", "receives"}) {
    REQUIRE_FALSE(older[list].empty());
    for (nlohmann::json& one : older[list]) {
      one["context"] = one["channel"];
      one.erase("channel");
    }
  }
  CHECK(to_json(plan_from_json(older)) == json);
  older["messages"][0]["channel"] = 1;
  CHECK_THROWS_AS(plan_from_json(older), InputError);
}

TEST_CASE("storm_plan__comes_back_from_a_file") {
  const std::string name = "storm_plan_test." + std::to_string(::getpid());
  const sim::Plan plan = sim::draw_plan(3);
  write_plan(name, plan, "a note");
  CHECK(to_json(read_plan(name)) == to_json(plan));
  for (const char* const text : {"", "{", "[]", "{\"plan\": 3}", "{}", "\xff\xfe"}) {
    {
      std::ofstream out(name);
      out << text;
    }
    CAPTURE(text);
    CHECK_THROWS_AS(read_plan(name), InputError);
  }
  nlohmann::json file{{"plan", to_json(plan)}};
  file["plan"]["hosts"][0]["nics"][0]["switch"] = 99;
  std::ofstream(name) << file;
  CHECK_THROWS_WITH(read_plan(name),
                    Catch::StartsWith("'" + name + "': plan: hosts[0].nics[0]: switch is 99"));
  (void)std::remove(name.c_str());
  CHECK_THROWS_AS(read_plan(name), InputError);
  CHECK_THROWS_AS(write_plan("/nonexistent/x", plan, ""), InputError);
}

// nlohmann-json would take the last of equal keys, and a NUL as the end.
TEST_CASE("storm_plan__a_file_has_no_more_than_is_read") {
  using namespace std::string_literals;
  const std::string name = "storm_plan_test." + std::to_string(::getpid());
  const std::string plan = to_json(sim::draw_plan(3)).dump();
  const std::string whole = R"({"note": "x", "commit": "y", "plan": )" + plan;
  const auto complaint = [&](const std::string& text) -> std::string {
    std::ofstream(name, std::ios::binary) << text;
    try {
      (void)read_plan(name);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(complaint(whole + "}") == "");
  CHECK(complaint(whole + R"(, "note": "z"})") == "'" + name + "': the key 'note' occurs twice");
  CHECK(complaint(R"({"plan": {"seed": 1,)" + plan.substr(1) + "}") ==
        "'" + name + "': the key 'seed' occurs twice");
  CHECK(complaint(whole + R"(, "limit": 5})") == "'" + name + "': there is no field 'limit'");
  CHECK(complaint(whole + "}\0{"s) == "'" + name + "': byte " + std::to_string(whole.size() + 2) +
                                          " is a NUL, which a plan can't contain");
  CHECK(complaint(R"({"note": )" + std::string(32, '[') + std::string(32, ']') + "}") ==
        "'" + name + "': lists and objects are nested more than 32 deep");
  (void)std::remove(name.c_str());
}

// Older files have no networks, and no hosts that start later.
TEST_CASE("storm_plan__an_older_file_is_read") {
  const nlohmann::json now = to_json(sim::draw_plan(3));
  nlohmann::json then = now;
  for (auto& host : then["hosts"]) {
    host.erase("starts_ns");
    host.erase("takes_over");
    for (auto& nic : host["nics"]) nic.erase("network");
  }
  CHECK(to_json(plan_from_json(then)) == now);
}

TEST_CASE("storm_plan__partners_come_back_from_json") {
  std::size_t late = 0;
  std::size_t in_anothers_place = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const sim::Plan plan = sim::draw_plan(sim::kFirstOfPartners + i);
    const nlohmann::json json = to_json(plan);
    CHECK(to_json(plan_from_json(json)) == json);
    for (const sim::HostPlan& host : plan.hosts) {
      late += host.starts.ns > 0;
      in_anothers_place += host.takes_over != sim::kAnyHost;
    }
  }
  CHECK(late > 20);
  CHECK(in_anothers_place > 0);
}

TEST_CASE("storm_plan__pieces_come_back_from_json") {
  std::size_t sent = 0;
  std::size_t received = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const sim::Plan plan = sim::draw_plan(sim::kFirstOfOneSided + i);
    const nlohmann::json json = to_json(plan);
    CHECK(to_json(plan_from_json(json)) == json);
    for (const sim::MessagePlan& message : plan.messages) sent += message.pieces > 1;
    for (const sim::ReceivePlan& receive : plan.receives) received += receive.pieces > 1;
  }
  CHECK(sent > 20);
  CHECK(received > 20);
}

TEST_CASE("storm_plan__younger_tunables_have_their_defaults") {
  nlohmann::json json = to_json(sim::draw_plan(3));
  json["tunables"].erase("recovery_early");
  json["tunables"]["fragment_bytes"] = 512;
  const sim::Plan plan = plan_from_json(json);
  CHECK(plan.tunables.recovery_early == proto::AllTunables{}.recovery_early);
  CHECK(plan.tunables.fragment_bytes == 512);
}

TEST_CASE("storm_plan__what_is_wrong_is_told") {
  const nlohmann::json good = to_json(sim::draw_plan(3));
  const auto complaint = [&](const std::function<void(nlohmann::json&)>& spoil) -> std::string {
    nlohmann::json json = good;
    spoil(json);
    try {
      (void)plan_from_json(json);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(complaint([](auto&) {}) == "");
  CHECK(complaint([](auto& j) { j.erase("hosts"); }) == "plan: 'hosts' is missing");
  CHECK(complaint([](auto& j) { j["more"] = 1; }) == "plan: there is no field 'more'");
  CHECK(complaint([](auto& j) { j["messages"][1].erase("tag"); }) ==
        "plan: messages[1]: 'tag' is missing");
  CHECK(complaint([](auto& j) { j["hosts"][1]["nic"]["speed"] = 1; }) ==
        "plan: hosts[1].nic: there is no field 'speed'");
  CHECK(complaint([](auto& j) { j["messages"][1]["bytes"] = -5; }) ==
        "plan: messages[1].bytes: a whole number of 0 or more is expected");
  CHECK(complaint([](auto& j) { j["messages"][1]["channel"] = 70000; }) ==
        "plan: messages[1].channel: 70000 is more than 65535");
  CHECK(complaint([](auto& j) { j["messages"][1]["level"] = 2; }) ==
        "plan: messages[1].level: 2 is more than 1");
  CHECK(complaint([](auto& j) { j["messages"][0]["at_ns"] = 1.5; }) ==
        "plan: messages[0].at_ns: a whole number is expected");
  CHECK(complaint([](auto& j) { j["messages"][0]["at_ns"] = ~std::uint64_t{0}; }) ==
        "plan: messages[0].at_ns: a whole number is expected");
  const std::string kinds = fmt::format("plan: faults[0].kind: one of these is expected: {}",
                                        fmt::join(sim::kFaultNames, ", "));
  CHECK(complaint([](auto& j) { j["faults"][0]["kind"] = "earthquake"; }) == kinds);
  CHECK(complaint([](auto& j) { j["faults"][0]["kind"] = 3; }) == kinds);
  CHECK(complaint([](auto& j) { j["faults"][0]["amount"] = "much"; }) ==
        "plan: faults[0].amount: a number is expected");
  CHECK(complaint([](auto& j) { j["has_secret"] = 1; }) ==
        "plan: has_secret: true or false is expected");
  CHECK(complaint([](auto& j) { j["hosts"] = 3; }) == "plan: hosts: a list is expected");
  CHECK(complaint([](auto& j) { j["tunables"] = nlohmann::json::array(); }) ==
        "plan: tunables: an object is expected");
  CHECK(complaint([](auto& j) { j["faults"][0]["host"] = 50; }) == "plan: faults[0]: no such NIC");
  CHECK(complaint([](auto& j) { j["tunables"]["reorder_packets"] = 0; }) ==
        "plan: tunables: reorder_packets is 0, not 1 to 1024");
  CHECK(complaint([](auto& j) { j["hosts"][0]["nics"] = nlohmann::json::array(); }) ==
        "plan: hosts[0]: the number of NICs is 0, not 1 to 16");
}

TEST_CASE("storm_plan__in_words") {
  CHECK(span_text(proto::nanoseconds(999)) == "999 ns");
  CHECK(span_text(proto::microseconds(20)) == "20 us");
  CHECK(span_text(proto::microseconds(1500)) == "1.5 ms");
  CHECK(time_text(proto::nanoseconds(12345678)) == "    12.345678 ms");
  sim::FaultPlan fault;
  fault.kind = sim::FaultKind::loss;
  fault.host = 1;
  fault.amount = 0.02;
  fault.lasts = proto::milliseconds(3);
  CHECK(fault_text(fault) == "loss of h1, 2% of the frames, for 3 ms");
  fault.kind = sim::FaultKind::one_way;
  fault.nic = 2;
  fault.other_host = 0;
  fault.other_nic = 1;
  CHECK(fault_text(fault) == "one_way of h1.n2 to h0.n1, for 3 ms");
  fault.kind = sim::FaultKind::flap;
  fault.amount = 1;
  fault.other_host = 4;
  CHECK(fault_text(fault) == "flap of cable 4, for 3 ms");
  sim::Plan replaced = sim::draw_plan(5);
  replaced.hosts[1].starts = proto::milliseconds(2);
  replaced.hosts[1].takes_over = 0;
  CHECK(plan_text(replaced).find("    starts at 2 ms, with the addresses of h0\n") !=
        std::string::npos);
  const std::string text = plan_text(sim::draw_plan(5));
  for (const char* const part : {"topology: ", "tunables that differ", "messages:\n", "receives:\n",
                                 "faults:\n", "all is healed\n"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace hawser::tool
