// SPDX-License-Identifier: Apache-2.0
#include "engine/settings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>

#include "hawser/engine.hpp"
#include "hawser/faults.hpp"
#include "test/engine/environment.hpp"

namespace hawser::engine {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    CHECK(std::count(text.begin(), text.end(), '\n') == 0);
    return text;
  }
  FAIL("no error");
  return "";
}

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("parse_nic_spec__kinds") {
  CHECK(parse_nic_spec("udp:127.0.0.1").driver == NicSpec::Driver::udp);
  CHECK(parse_nic_spec("udp:127.0.0.1").where == "127.0.0.1");
  CHECK(parse_nic_spec("udp:fe80::1%eth0").where == "fe80::1%eth0");
  CHECK(parse_nic_spec("memory:x").driver == NicSpec::Driver::memory);
  CHECK(parse_nic_spec("memory:x").where == "x");
  CHECK(parse_nic_spec("verbs:mlx5_0:2@3").driver == NicSpec::Driver::verbs);
  CHECK(parse_nic_spec("verbs:mlx5_0:2@3").where == "mlx5_0:2@3");
}

TEST_CASE("parse_nic_spec__errors_name_the_nic") {
  for (const char* wrong :
       {"", "tcp:1.2.3.4", "udp", "udp:", "memory:", "verbs", "verbs:", "127.0.0.1"}) {
    CAPTURE(wrong);
    CHECK_THAT(error_of([&] { (void)parse_nic_spec(wrong); }),
               StartsWith("NIC \"" + std::string(wrong) + "\""));
  }
}

TEST_CASE("parse_nic_spec__says_how_a_port_is_written") {
  CHECK_THAT(error_of([&] { (void)parse_nic_spec("verbs:mlx5_0:x"); }),
             StartsWith("verbs:mlx5_0:x: ") && Contains("write DEVICE"));
}

TEST_CASE("verbs__a_device_that_is_not_there_is_told_by_name") {
  EngineConfig config;
  config.nics = {"verbs:nobody_0"};
  Engine engine(config);
  CHECK_THAT(error_of([&] { (void)engine.create_endpoint({}); }), StartsWith("verbs:nobody_0: "));
}

TEST_CASE("apply_environment__outweighs_the_configuration") {
  const Environment environment({}, {{"HAWSER_SPIN_US", "7"}, {"HAWSER_MAX_PEERS", "3"}});
  EngineConfig config;
  config.nics = {"memory:x"};
  config.tunables.spin_us = 1;
  config.tunables.yield_us = 2;
  const EngineSettings settings = check(config);
  CHECK(settings.tunables.spin_us == 7);
  CHECK(settings.tunables.max_peers == 3);
  CHECK(settings.tunables.yield_us == 2);
}

TEST_CASE("apply_environment__errors_name_variable_and_range") {
  for (const char* wrong : {"", "x", "-1", "1.5", "20us", "99999999999999999999999", "1000001"}) {
    CAPTURE(wrong);
    const Environment environment({}, {{"HAWSER_SPIN_US", wrong}});
    Tunables tunables;
    const std::string text = error_of([&] { apply_environment(tunables); });
    CHECK_THAT(text, StartsWith("HAWSER_SPIN_US=" + std::string(wrong) + ":"));
    CHECK_THAT(text, Contains("from 0 to 1000000 (us)"));
    CHECK(tunables.spin_us == Tunables{}.spin_us);
  }
}

TEST_CASE("apply_environment__knows_the_levels_of_the_log") {
  Tunables tunables;
  for (const char* right : {"", "warn", "WARN", "Error", "off", "debug", "info"}) {
    CAPTURE(right);
    const Environment environment({}, {{"HAWSER_LOG", right}});
    CHECK_NOTHROW(apply_environment(tunables));
  }
  for (const char* wrong : {"loud", "warn ", "0", "warning!"}) {
    CAPTURE(wrong);
    const Environment environment({}, {{"HAWSER_LOG", wrong}});
    CHECK_THAT(error_of([&] { apply_environment(tunables); }),
               StartsWith("HAWSER_LOG=" + std::string(wrong) + ": it takes debug, info"));
  }
}

TEST_CASE("check__rejects_what_an_engine_can_not_be") {
  EngineConfig config;
  CHECK_THAT(error_of([&] { (void)check(config); }), Contains("1 to 16 NICs, not 0"));
  config.nics.assign(17, "memory:x");
  CHECK_THAT(error_of([&] { (void)check(config); }), Contains("not 17"));
  config.nics = {"memory:x"};
  config.tunables.max_path_slots = 99;
  CHECK_THAT(error_of([&] { (void)check(config); }), StartsWith("Tunable max_path_slots = 99"));
  config.tunables = {};
  config.faults = "loss=0.1,lots=1";
  CHECK_THAT(error_of([&] { (void)check(config); }), Contains("\"lots=1\""));
  config.faults = "";
  config.threads = 1000;
  CHECK_THAT(error_of([&] { (void)check(config); }), Contains("not 1000"));
}

TEST_CASE("check__a_nic_is_named_once") {
  EngineConfig config;
  const auto error = [&](std::vector<std::string> nics) {
    config.nics = std::move(nics);
    return error_of([&] { (void)check(config); });
  };
  CHECK(error({"udp:127.0.0.1", "udp:127.0.0.2", "udp:127.0.0.1"}) ==
        "NIC \"udp:127.0.0.1\" is named twice");
  CHECK(error({"udp:::1", "udp:0:0::1"}) ==
        "NIC \"udp:0:0::1\" is named twice, first as \"udp:::1\"");
  CHECK(error({"verbs:mlx5_0", "udp:::1", "verbs:mlx5_0:1"}) ==
        "NIC \"verbs:mlx5_0:1\" is named twice, first as \"verbs:mlx5_0\"");
  // These differ in address, port or GID. A memory fabric may be named any number of times.
  for (const std::vector<std::string>& nics : std::vector<std::vector<std::string>>{
           {"udp:127.0.0.1", "udp:127.0.0.11", "udp:::1"},
           {"verbs:mlx5_0", "verbs:mlx5_0:2", "verbs:mlx5_1", "verbs:mlx5_0:1@3"},
           {"memory:x", "memory:x"}}) {
    config.nics = nics;
    CHECK(check(config).nics.size() == nics.size());
  }
}

TEST_CASE("complaint_about_faults__names_the_word") {
  CHECK(complaint_about_faults("").empty());
  CHECK(complaint_about_faults("loss=0.1,seed=7,kill:event").empty());
  CHECK(complaint_about_faults("revive:moved").empty());  // though most NICs can't do it
  CHECK_THAT(complaint_about_faults("kill,die"), Contains("\"die\" is not a word"));
  CHECK_THAT(complaint_about_faults("loss=2"), Contains("\"loss=2\" is not a probability"));
}

TEST_CASE("Engine__errors_of_its_constructors_are_one_sentence") {
  EngineConfig config;
  config.nics = {"udp:192.0.2.1"};  // TEST-NET: no address of ours
  Engine engine(config);
  CHECK_THAT(error_of([&] { (void)engine.create_endpoint({}); }), Contains("192.0.2.1"));
  EndpointConfig too_long;
  too_long.job_secret.resize(65);
  config.nics = {"memory:x"};
  Engine other(config);
  CHECK_THAT(error_of([&] { (void)other.create_endpoint(too_long); }), Contains("64 bytes"));
  EndpointConfig too_large;
  too_large.inject_bytes = 65'537;
  CHECK_THAT(error_of([&] { (void)other.create_endpoint(too_large); }), Contains("inject_bytes"));
  CHECK(other.nic_count() == 1);
}

TEST_CASE("Engine__a_fault_that_a_nic_can_not_do_is_an_error_and_not_an_end") {
  // Memory NICs need no checksum, so damaged bytes would be delivered.
  const unsigned threads = GENERATE(0u, 1u);
  EngineConfig config;
  config.nics = {"memory:x"};
  config.threads = threads;
  config.faults = "loss=0.1,corrupt=0.1";
  Engine damaging(config);
  CHECK_THAT(error_of([&] { (void)damaging.create_endpoint({}); }),
             Contains("corrupt") && Contains("memory:x"));
  config.faults = "loss=0.1";
  Engine engine(config);
  const auto endpoint = engine.create_endpoint({});
  CHECK(engine.inject_fault(0, "rx.corrupt=0.5") == Status::unsupported);
  CHECK(engine.inject_fault(0, "corrupt=0") == Status::ok);
  CHECK(engine.inject_fault(0, "loss=0.5") == Status::ok);
  CHECK(endpoint->poll({}) == 0);
}

TEST_CASE("Engine__inject_fault_wants_a_fault_layer_a_nic_and_good_words") {
  EngineConfig config;
  config.nics = {"memory:x"};
  Engine plain(config);
  CHECK(plain.inject_fault(0, "kill") == Status::unsupported);
  config.faults = "seed=1";
  Engine engine(config);
  CHECK(engine.inject_fault(0, "kill") == Status::ok);
  CHECK(engine.inject_fault(1, "kill") == Status::invalid_argument);
  CHECK(engine.inject_fault(0, "maim") == Status::invalid_argument);
}

}  // namespace
}  // namespace hawser::engine
