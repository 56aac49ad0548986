// SPDX-License-Identifier: Apache-2.0
// The command. `hawser rank` and `hawser attacker` are not for people: the launcher starts its
// processes by them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "hawser/engine.hpp"
#include "tool/attack/attack.hpp"
#include "tool/error.hpp"
#include "tool/exit_code.hpp"
#include "tool/info/info.hpp"
#include "tool/inherited.hpp"
#include "tool/run/interruption.hpp"
#include "tool/run/joined.hpp"
#include "tool/run/launcher.hpp"
#include "tool/run/options.hpp"
#include "tool/sim/sim.hpp"
#include "tool/standard_output.hpp"
#include "tool/storm/commit.hpp"
#include "tool/storm/storm.hpp"

namespace {

using hawser::tool::commit;
using hawser::tool::ExitCode;

constexpr const char* kFooter =
    "Exit status: 0 every result is right; 1 a wrong byte, a lost or duplicate message, a leaked\n"
    "packet, or no end within --timeout; 2 bad options, files, addresses, or too little memory;\n"
    "3 a rank died or could not be reached; 130 interrupted.\n"
    "\n"
    "The report distinguishes three periods: collectives that end before the first timed fault\n"
    "of a NIC (before), those that start after the last revival (after), and all others\n"
    "(during). While a NIC stays killed, degraded or a black hole, there is no after.\n"
    "\n"
    "The command joins ranks that others start if HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS\n"
    "(ADDRESS:PORT) are set, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun does,\n"
    "or if a launcher with PMIx started it: mpirun of Open MPI, srun --mpi=pmix.\n";

constexpr const char* kInfoNics =
    "a list as for `hawser run --nic`: shows which NICs of this host it chooses, and why";

constexpr const char* kStormFooter =
    "  hawser storm --seeds 1..10000          a swarm, on all processors\n"
    "  hawser storm --seed 42 --trace         the timeline of one: storm-42.txt, storm-42.json\n"
    "  hawser storm --seed 42 --shrink        the part that the failure needs: storm-42.plan.json\n"
    "  hawser storm --plan storm-42.plan.json\n"
    "\n"
    "Exit status: 0 no storm failed; 1 a storm failed; 2 bad options or files, or no room for the\n"
    "report; 130 interrupted before any storm failed.\n";

constexpr const char* kSimFooter =
    "  hawser sim bench/plans/spraying.json                writes to the folder spraying\n"
    "  hawser sim plan.json --check                        checks the plan, and runs nothing\n"
    "\n"
    "Writes runs.csv (a line a run), flows.csv (a line a flow), series.csv (bytes over time) and\n"
    "report.html, which needs no other file. docs/lab/experiments.md describes plans.\n"
    "Hawser looks for the files that a plan names beside the plan, then in the folder that\n"
    "HAWSER_WORKLOADS names.\n"
    "\n"
    "Exit status: 0 the plan's expectation holds; 1 it does not hold, or a run died; 2 bad\n"
    "options, a malformed plan, a missing file, or a folder that can't be written; 130\n"
    "interrupted: the results of the runs that ended are written.\n";

int run(const std::vector<std::string>& arguments, hawser::tool::RunOptionParser& parser) {
  hawser::tool::end_on_signals();  // first: to find this process' place in a job may take long
  auto joining = hawser::tool::joining_from_environment();
  const auto options =
      joining ? parser.finish(joining->place.size, joining->place.said_by) : parser.finish(0);
  const ExitCode code = joining ? hawser::tool::run_joined(options, std::move(*joining))
                                : hawser::tool::launch(options, arguments);
  return static_cast<int>(code);
}

struct InfoOptions {
  std::string to;
  std::string nics;
};

CLI::App* add_info(CLI::App& app, InfoOptions& options) {
  CLI::App* const command =
      app.add_subcommand("info", "show the NICs and limits of this host, and every tunable");
  command
      ->add_option("--to", options.to,
                   "show only the routes of this host's UDP NICs to that address, and their MTUs")
      ->type_name("ADDRESS");
  command->add_option("--nics", options.nics, kInfoNics)->type_name("LIST");
  return command;
}

int command(int argc, char** argv) {
  CLI::App app{"Hawser: reliable messages over unreliable datagrams on every NIC of a host."};
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("hawser {}, commit {}", HAWSER_VERSION, commit()),
                       "version and commit");
  CLI::App* const run_command =
      app.add_subcommand("run", "replay the communication of a training workload, with faults");
  run_command->footer(kFooter);
  hawser::tool::RunOptionParser run_parser(*run_command);
  CLI::App* const rank_command = app.add_subcommand("rank", "one rank of a launcher")->group("");
  hawser::tool::RunOptionParser rank_parser(*rank_command);
  // Not for people either: the launcher starts an attacker by it.
  CLI::App* const attacker_command = app.add_subcommand("attacker", "an attacker")->group("");
  std::string attack;
  std::uint64_t seed = 0;
  std::uint64_t fragment_bytes = 0;
  attacker_command->add_option("attack", attack)->required();
  attacker_command->add_option("seed", seed)->required();
  attacker_command->add_option("fragment_bytes", fragment_bytes)->required();
  InfoOptions info;
  CLI::App* const info_command = add_info(app, info);
  CLI::App* const storm_command = app.add_subcommand(
      "storm",
      "try to break the protocol with random runs in virtual time, each drawn from a seed");
  storm_command->footer(kStormFooter);
  hawser::tool::StormOptionParser storm_parser(*storm_command);
  CLI::App* const sim_command = app.add_subcommand(
      "sim", "run an experiment's plan on a simulated fabric, and write CSV files and a report");
  sim_command->footer(kSimFooter);
  hawser::tool::SimOptionParser sim_parser(*sim_command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // For a word that is no subcommand, CLI11 says only that a subcommand is missing.
    const std::vector<std::string> words = app.remaining();
    if (error.get_name() == "RequiredError" && !words.empty()) {
      throw hawser::tool::InputError(
          fmt::format("'{}' is not a subcommand; `hawser --help` lists them", words.front()));
    }
    // 0 for --help, which is an exception to CLI11.
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  }
  if (*info_command) {
    using hawser::tool::info_text, hawser::tool::ways_text;
    fmt::print("{}", info.to.empty() ? info_text(info.nics) : ways_text(info.to));
    return 0;
  }
  if (*storm_command) {
    return static_cast<int>(hawser::tool::run_storms(storm_parser.finish()));
  }
  if (*sim_command) return static_cast<int>(hawser::tool::run_plan(sim_parser.finish()));
  if (*attacker_command) {
    hawser::tool::run_attacker(hawser::tool::parse_attack(attack), seed, fragment_bytes);
    return 0;
  }
  if (*rank_command) return static_cast<int>(hawser::tool::run_launched(rank_parser));
  // The arguments behind the program's name and the subcommand.
  return run(std::vector<std::string>(argv + 2, argv + argc), run_parser);
}

}  // namespace

int main(int argc, char** argv) {
  using hawser::tool::with_written_output;
  hawser::tool::take_up_inheritance();
  int status = static_cast<int>(ExitCode::bad_input);
  try {
    status = command(argc, argv);
  } catch (const hawser::tool::InputError& error) {
    hawser::tool::tell("hawser: {}\n", error.what());
  } catch (const hawser::Error& error) {
    hawser::tool::tell("hawser: {}\n", error.what());
  } catch (const std::system_error& error) {
    // fmt::print throws this too.
    if (std::ferror(stdout) != 0) return with_written_output(0, error.code().value());
    hawser::tool::tell("hawser: {}\n", error.what());
    status = static_cast<int>(ExitCode::wrong);
  } catch (const std::exception& error) {
    hawser::tool::tell("hawser: {}\n", error.what());
    status = static_cast<int>(ExitCode::wrong);
  }
  return with_written_output(status);
}
