// SPDX-License-Identifier: Apache-2.0
// The options of `hawser storm`: which ones it accepts or refuses before anything runs.
#include "tool/storm/options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

StormOptions parse(std::vector<std::string> arguments) {
  CLI::App app;
  StormOptionParser parser(app);
  std::ranges::reverse(arguments);  // as CLI11 wants them
  app.parse(arguments);
  return parser.finish();
}

// The complaint about these arguments, or "".
std::string complaint(const std::vector<std::string>& arguments) {
  try {
    (void)parse(arguments);
  } catch (const InputError& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return std::string("CLI: ") + error.what();
  }
  return "";
}

TEST_CASE("storm_options__seeds") {
  CHECK(parse_seeds("7") == std::pair<std::uint64_t, std::uint64_t>{7, 7});
  CHECK(parse_seeds("0..10") == std::pair<std::uint64_t, std::uint64_t>{0, 10});
  CHECK(parse_seeds("18446744073709551614").first == 18446744073709551614u);
  for (const char* const bad :
       {"", "..", "1..", "..5", "a..b", "5..1", "-1..5", "1..-5", "1...5", "1..5..9", "1 ..5",
        "0x10", "1.5", "18446744073709551615", "99999999999999999999", "+3"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_seeds(bad), InputError);
  }
  CHECK(complaint({"--seeds", "5..1"}) == "seeds '5..1': they end before they begin");
  CHECK(complaint({"--seeds", "a..b"}) ==
        "seeds 'a..b': 'a' is not a number from 0 to 2^64 - 2; expected A..B or N");
}

TEST_CASE("storm_options__a_swarm") {
  const StormOptions options =
      parse({"--seeds", "3..9", "--jobs", "2", "--keep-going", "--seconds", "1.5", "--limit", "7"});
  CHECK_FALSE(options.single);
  CHECK(options.swarm.first == 3);
  CHECK(options.swarm.last == 9);
  CHECK(options.swarm.jobs == 2);
  CHECK(options.swarm.keep_going);
  CHECK(options.swarm.seconds == 1.5);
  CHECK(options.swarm.limit_s == 7);
  CHECK(parse({"--seeds", "3"}).swarm.jobs >= 1);
}

TEST_CASE("storm_options__one_storm") {
  const std::string name = "storm_options_test." + std::to_string(::getpid());
  CHECK(parse({"--seed", "42"}).single);
  CHECK(parse({"--seed", "42", "--trace"}).trace.prefix == "storm-42");
  CHECK(parse({"--seed", "42", "--trace", name}).trace.prefix == name);
  CHECK(parse({"--seed", "42", "--shrink"}).shrink_file == "storm-42.plan.json");
  CHECK(parse({"--plan", "x.plan.json", "--trace"}).trace.prefix == "x");
  CHECK(parse({"--plan", "x.json", "--trace"}).trace.prefix == "x.trace");
  CHECK(parse({"--plan", "x", "--shrink"}).shrink_file == "x.plan.json");
  const StormOptions part =
      parse({"--seed", "1", "--trace", "--detail", "packets", "--from", "1.5", "--to", "2"});
  CHECK(part.trace.packets);
  CHECK(part.trace.from_ms == 1.5);
  CHECK(part.trace.to_ms == 2);
  // The check whether a file can be written leaves no file.
  CHECK_FALSE(std::filesystem::exists("storm-42.txt"));
  CHECK_FALSE(std::filesystem::exists(name + ".json"));
}

TEST_CASE("storm_options__what_was_given_is_repeated") {
  CHECK(parse({"--seed", "1"}).repeated == "");
  CHECK(parse({"--seeds", "1..5"}).swarm_repeated == "");
  const StormOptions one = parse({"--seed", "1", "--seek", "path_state:DOWN", "--limit", "2.5"});
  CHECK(one.repeated == " --seek path_state:DOWN --limit 2.5");
  const StormOptions swarm =
      parse({"--seeds", "1..5", "--keep-going", "--jobs", "2", "--limit", "3", "--seconds", "9"});
  CHECK(swarm.repeated == " --limit 3");
  CHECK(swarm.swarm_repeated == " --limit 3 --jobs 2 --keep-going --seconds 9");
  CHECK(shell_word("/usr/bin/hawser") == "/usr/bin/hawser");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
}

TEST_CASE("storm_options__workers_are_no_more_than_processors_can_serve") {
  const unsigned usual = parse({"--seeds", "3"}).swarm.jobs;
  const StormOptions many = parse({"--seeds", "3", "--jobs", "1024"});
  CHECK(many.asked_jobs == 1024);
  CHECK(many.swarm.jobs == std::min(1024u, 4 * usual));
}

TEST_CASE("storm_options__a_plan_is_not_overwritten_whatever_it_is_called") {
  const std::string name = "storm_options_test." + std::to_string(::getpid());
  std::ofstream(name + ".json") << "{}";
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{"--shrink", "./" + name + ".json"},
        std::vector<std::string>{"--trace", "./" + name},
        std::vector<std::string>{"--json", std::filesystem::absolute(name + ".json")}}) {
    std::vector<std::string> arguments{"--plan", name + ".json"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    CHECK(complaint(arguments) == "'" + name + ".json' would be overwritten");
  }
  CHECK(std::filesystem::file_size(name + ".json") == 2);
  (void)std::filesystem::remove(name + ".json");
}

// The reader of a pipe would take a check for the data, and waits until there is a writer.
TEST_CASE("storm_options__the_check_does_not_open_a_pipe") {
  const std::string name = "storm_options_test." + std::to_string(::getpid());
  REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
  CHECK(complaint({"--seed", "1", "--json", name}) == "");
  CHECK(complaint({"--seed", "1", "--shrink", name}) == "");
  (void)std::filesystem::remove(name);
}

TEST_CASE("storm_options__what_makes_no_sense_is_refused") {
  struct Case {
    std::vector<std::string> arguments;
    const char* says;
  };
  const std::vector<Case> cases{
      {{}, "no storm is chosen"},
      {{"--seeds", "1..5", "--seed", "3"}, "no storm is chosen"},
      {{"--seed", "1", "--plan", "x"}, "no storm is chosen"},
      {{"--seeds", "1..5", "--jobs", "0"}, "CLI: --jobs"},
      {{"--seeds", "1..5", "--jobs", "-1"}, "CLI: "},
      {{"--seeds", "1..5", "--jobs", "many"}, "CLI: --jobs"},
      {{"--seeds", "1..5", "--seconds", "0"}, "CLI: --seconds"},
      {{"--seeds", "1..5", "--seconds", "nan"}, "CLI: --seconds"},
      {{"--seeds", "1..5", "--limit", "-3"}, "CLI: --limit"},
      {{"--seeds", "1..5", "--trace"}, "--trace is for --seed or --plan"},
      {{"--seeds", "1..5", "--shrink"}, "--shrink is for --seed or --plan"},
      {{"--seed", "1", "--jobs", "2"}, "--jobs is for --seeds"},
      {{"--seed", "1", "--keep-going"}, "--keep-going is for --seeds"},
      {{"--seed", "-1"}, "seeds '-1'"},
      {{"--seed", ""}, "seeds '': '' is not a number"},
      {{"--seeds", ""}, "seeds '': '' is not a number"},
      {{"--seed", "5..3"}, "--seed 5..3 names several seeds: write --seeds 5..3"},
      {{"--seed", "1", "--json", ""}, "--json needs the name of a file, or -"},
      {{"--seed", "1", "--trace", "a", "--json", "a.txt"},
       "'a.txt' can't hold both the figures and the timeline"},
      {{"--seed", "1", "--shrink", "a.json", "--trace", "a"},
       "'a.json' can't hold both the plan and the trace"},
      {{"--plan", ""}, "--plan needs the name of a file"},
      {{"--plan", "/tmp"}, "'/tmp' is a folder, not a plan"},
      {{"--seed", "1", "--from", "3"}, "--from limits what --trace shows"},
      {{"--seed", "1", "--trace", "--from", "3", "--to", "2"}, "--to is not after --from"},
      {{"--seed", "1", "--trace", "--detail", "all"}, "CLI: --detail"},
      {{"--seed", "1", "--seek", "nothing:here"}, "--seek nothing:here: there is no such name"},
      {{"--seed", "1", "--json", "/nonexistent/x"}, "cannot write the figures to '/nonexistent/x'"},
      {{"--seed", "1", "--trace", "/nonexistent/x"},
       "cannot write the timeline to '/nonexistent/x.txt'"},
      {{"--seed", "1", "--shrink", "/nonexistent/x"}, "cannot write the plan to '/nonexistent/x'"},
      {{"--plan", "p.json", "--trace", "p"}, "'p.json' would be overwritten"},
      {{"--plan", "p.json", "--shrink", "p.json"}, "'p.json' would be overwritten"},
      {{"--seed", "1", "--shrink-runs", "0"}, "CLI: --shrink-runs"},
  };
  for (const Case& one : cases) {
    const std::string says = complaint(one.arguments);
    CAPTURE(one.arguments, says);
    CHECK(says.starts_with(one.says));
  }
}

}  // namespace
}  // namespace hawser::tool
