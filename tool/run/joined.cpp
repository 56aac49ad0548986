// SPDX-License-Identifier: Apache-2.0
#include "tool/run/joined.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/bootstrap/bootstrap.hpp"
#include "engine/bootstrap/job_environment.hpp"
#include "engine/host/nic_family.hpp"
#include "hawser/engine.hpp"
#include "hawser/nics.hpp"
#include "tool/error.hpp"
#include "tool/info/info.hpp"
#include "tool/run/child.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/collectives.hpp"
#include "tool/run/conclude.hpp"
#include "tool/run/interruption.hpp"
#include "tool/run/launcher.hpp"
#include "tool/run/memory.hpp"
#include "tool/run/own_address.hpp"
#include "tool/run/rank.hpp"
#include "tool/standard_output.hpp"

namespace hawser::tool {
namespace {

constexpr double kLongestMeetingS = 120;
constexpr const char* kLifeVariable = "HAWSER_LIFE";

std::uint32_t meeting_ms(const RunOptions& options) {
  return static_cast<std::uint32_t>(1000 * std::min(options.timeout_s, kLongestMeetingS));
}

// Wrong information for the ranks is bad input; a rank that did not come, or left, is a failed
// peer.
RankFailure failure_of_meeting(const engine::BootstrapError& error) {
  using engine::BootstrapFailure;
  RankFailure failure;
  switch (error.failure()) {
    case BootstrapFailure::bad_address:
    case BootstrapFailure::port_in_use:
    case BootstrapFailure::rank_out_of_range:
    case BootstrapFailure::rank_taken:
    case BootstrapFailure::size_mismatch: failure.code = ExitCode::bad_input; break;
    case BootstrapFailure::unreachable:
    case BootstrapFailure::rank_left:
    case BootstrapFailure::aborted:
    case BootstrapFailure::timeout: failure.code = ExitCode::peer_failed; break;
  }
  failure.peer = error.rank();
  failure.text = error.what();
  return failure;
}

std::uint32_t life_from_environment() {
  const char* const text = std::getenv(kLifeVariable);
  return text != nullptr ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)) : 0;
}

RankConfig config_of(const RunOptions& options, const engine::JobPlace& place,
                     engine::Rendezvous& rendezvous) {
  RankConfig config;
  config.rank = place.rank;
  config.local_ranks = place.local_size.value_or(1);
  config.epoch = rendezvous.epoch();
  config.job_secret = rendezvous.job_secret();
  config.nics = options.nic_addresses;
  config.exchange.last_round = rendezvous.last_round();
  config.exchange.begin = [&rendezvous](std::span<const std::byte> blob, std::uint32_t timeout_ms) {
    try {
      rendezvous.begin_all_gather(blob, timeout_ms);
    } catch (const engine::BootstrapError& error) {
      throw ReplayError(failure_of_meeting(error));
    }
  };
  config.exchange.poll = [&rendezvous] {
    try {
      return rendezvous.try_all_gather();
    } catch (const engine::BootstrapError& error) {
      throw ReplayError(failure_of_meeting(error));
    }
  };
  return config;
}

bool is_loopback(const std::string& rendezvous) {
  return rendezvous.starts_with("127.") || rendezvous.starts_with("localhost:") ||
         rendezvous.starts_with("[::1]:");
}

// Chooses NICs for a rank that was told none. If the job stays on this host, they are loopback
// ones. Otherwise there is one for each network interface, at most as many as are asked for.
void choose_own_nics(const engine::JobPlace& place, RunOptions& options) {
  if (is_loopback(place.rendezvous)) {
    options.nic_addresses = loopback_nics(place.rank, options.nics);
    return;
  }
  engine::DeviceChoice chosen = engine::choose_devices("udp", host_nics());
  NicChoice& choice = chosen.choice;
  if (choice.nics.size() > options.nics) choice.nics.resize(options.nics);
  options.nic_addresses = std::move(choice.nics);
  options.nic_devices = std::move(chosen.devices);
  std::ranges::move(choice.notes, std::back_inserter(options.nic_notes));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

// Tells the other ranks which address families this one has, and takes the family that all have.
// Every rank must call it, as it is a round of the rendezvous. Throws NoSharedFamily.
void agree_on_family(const engine::JobPlace& place, engine::Rendezvous& rendezvous,
                     RunOptions& options) {
  std::vector<engine::ChosenNic> devices = options.nic_devices;
  if (devices.empty()) {
    std::ranges::transform(options.nic_addresses, std::back_inserter(devices), engine::named_nic);
  }
  const auto offer = engine::encode(engine::offer_of(devices, host_name()));
  std::vector<engine::FamilyOffer> offers;
  for (const auto& blob : rendezvous.all_gather(offer, meeting_ms(options))) {
    offers.push_back(engine::decode_offer(blob));
  }
  const std::optional<engine::Family> family = engine::shared_family(offers);
  if (!family || options.nic_devices.empty()) return;
  engine::FamilyChoice kept = engine::keep_family(devices, *family, options.nics);
  for (const std::string& note : kept.notes) tell("rank {}: {}\n", place.rank, note);
  options.nic_addresses = std::move(kept.nics);
  options.nics = static_cast<std::uint32_t>(options.nic_addresses.size());
}

// The server of a rank 0 that was told the rendezvous.
std::unique_ptr<engine::RendezvousServer> serve_at(const engine::JobPlace& place,
                                                   std::uint32_t timeout_ms) {
  return std::make_unique<engine::RendezvousServer>(place.rendezvous, place.size,
                                                    std::vector<std::uint32_t>(), timeout_ms);
}

// The server of a rank 0 that was told no rendezvous. It listens at loopback if the job stays on
// this host. Otherwise it listens at every address, as nobody knows by which of them other hosts
// can reach it.
std::unique_ptr<engine::RendezvousServer> serve_anywhere(const engine::JobPlace& place) {
  if (place.local_size == place.size) {
    return std::make_unique<engine::RendezvousServer>("127.0.0.1:0", place.size);
  }
  engine::RendezvousServer::Everywhere where{own_addresses(host_nics())};
  if (where.hosts.empty()) {
    throw InputError(
        "this host has no address at which ranks on other hosts can reach rank 0; set "
        "HAWSER_RENDEZVOUS to an ADDRESS:PORT of rank 0's host");
  }
  return std::make_unique<engine::RendezvousServer>(where, place.size);
}

// The rendezvous' server for rank 0; null for others. If PMIx carries its address, `joining` has it
// afterwards. Opens the report of rank 0 as well: if that fails, PMIx tells the others. Throws
// BootstrapError, where others may be to blame.
std::unique_ptr<engine::RendezvousServer> open_rendezvous(const RunOptions& options,
                                                          Joining& joining, OutputFile& report) {
  engine::JobPlace& place = joining.place;
  const bool is_known = !place.rendezvous.empty();
  std::unique_ptr<engine::RendezvousServer> server;
  if (place.rank == 0) {
    try {
      report = report_file(options);
      server = is_known ? serve_at(place, meeting_ms(options)) : serve_anywhere(place);
    } catch (const std::exception& error) {
      if (joining.pmix) joining.pmix->give_up(error.what(), meeting_ms(options));
      throw;
    }
  }
  const std::string own = server ? server->address() : "";  // with the port that it has
  if (is_known) {
    if (server) place.rendezvous = own;
    return server;
  }
  try {
    place.rendezvous = joining.pmix->meet(own, meeting_ms(options));
  } catch (const Error& error) {
    throw engine::BootstrapError(engine::BootstrapFailure::unreachable, error.what());
  }
  return server;
}

void say_what_runs(const RunOptions& options, const Schedule& schedule,
                   const engine::JobPlace& place) {
  const std::uint32_t rank = place.rank;
  if (rank == 0) {
    tell("{}\n", opening(options, schedule));
    tell("rank 0 of {}, according to {}\n", place.size, place.said_by);
    return;
  }
  for (const std::string& note : options.nic_notes) {
    tell("rank {}: {}\n", rank, note);
  }
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Collects the texts of all ranks, of any length, at rank 0. The others get none of them.
std::vector<std::string> gather_at_0(engine::Rendezvous& rendezvous, std::uint32_t rank,
                                     const std::string& own, std::uint32_t timeout_ms) {
  std::size_t longest = 0;
  for (const auto& blob : rendezvous.all_gather(bytes_of(std::to_string(own.size())), timeout_ms)) {
    longest = std::max<std::size_t>(longest, std::strtoull(text_of(blob).c_str(), nullptr, 10));
  }
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin == 0 || begin < longest; begin += engine::kMaxBlobBytes) {
    const std::string piece =
        begin < own.size() ? own.substr(begin, engine::kMaxBlobBytes) : std::string();
    if (rank != 0) {
      rendezvous.contribute(bytes_of(piece), timeout_ms);
      continue;
    }
    const auto blobs = rendezvous.all_gather(bytes_of(piece), timeout_ms);
    all.resize(blobs.size());
    for (std::size_t other = 0; other < blobs.size(); ++other) all[other] += text_of(blobs[other]);
  }
  return all;
}

// Brings all results together; rank 0 reports them, and all end alike.
ExitCode conclude_together(const RunOptions& options, const OutputFile& report,
                           const Schedule& schedule, const engine::JobPlace& place,
                           engine::Rendezvous& rendezvous, const RankResult& own, double wall_s) {
  const std::uint32_t timeout_ms = meeting_ms(options);
  RankMessage message;
  message.result = own;
  std::vector<RankResult> results;
  for (const std::string& text :
       gather_at_0(rendezvous, place.rank, to_lines(message), timeout_ms)) {
    MessageReader reader;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::optional<RankMessage> told = reader.read(line);
      if (told && told->result) results.push_back(std::move(*told->result));
    }
  }
  int code = 0;
  if (place.rank == 0) {
    code = static_cast<int>(conclude(options, report, schedule, results, ExitCode::ok, wall_s));
  }
  const auto codes = rendezvous.all_gather(bytes_of(std::to_string(code)), timeout_ms);
  return static_cast<ExitCode>(std::atoi(text_of(codes[0]).c_str()));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> environment_of(const engine::JobPlace& place,
                                                                std::uint32_t life) {
  return {{kLifeVariable, std::to_string(life)},
          {"HAWSER_RANK", std::to_string(place.rank)},
          {"HAWSER_SIZE", std::to_string(place.size)},
          {"HAWSER_LOCAL_SIZE", std::to_string(place.local_size.value_or(1))},
          {"HAWSER_RENDEZVOUS", place.rendezvous}};
}

std::optional<Joining> joining_from_environment() {
  if (auto place = engine::job_place_from_environment()) return Joining{std::move(*place), nullptr};
  if (!engine::started_by_pmix()) return {};
  auto pmix = std::make_unique<engine::PmixJob>(engine::load_pmix());
  engine::JobPlace place = pmix->place();
  place.said_by = "PMIX_RANK and its launcher";
  return Joining{place, std::move(pmix)};
}

ExitCode run_joined(const RunOptions& given, Joining joining) {
  const std::uint64_t started = now_ns();
  const TimeLimit limit(given.timeout_s);  // no launcher of ours ends this rank
  RunOptions options = given;
  const engine::JobPlace& place = joining.place;
  if (!options.attacks.empty()) {
    throw InputError("--attack works only with ranks that this command starts itself");
  }
  for (const TimedFault& fault : options.timed_faults) {
    if (fault.kind == TimedFault::Kind::restart_rank) {
      throw InputError("--restart-rank works only with ranks that this command starts itself");
    }
  }
  const Schedule schedule = make_schedule(workload_of(options), options.ranks, options.scale);
  check_length(options, schedule);
  check_memory(options, schedule, place.local_size.value_or(1), memory_room());
  check_trace_file(options, place.rank);
  try {
    OutputFile report;
    const auto server = open_rendezvous(options, joining, report);
    if (options.nic_addresses.empty()) choose_own_nics(place, options);
    options.nics = static_cast<std::uint32_t>(options.nic_addresses.size());
    say_what_runs(options, schedule, place);
    engine::Rendezvous rendezvous(place.rendezvous, place.rank, place.size, meeting_ms(options));
    agree_on_family(place, rendezvous, options);
    ConsoleSink sink(place.rank, place.size);
    RankResult result = run_rank(options, config_of(options, place, rendezvous), sink);
    if (result.failure && limit.is_over()) {
      const bool alone = result.failure->code == ExitCode::interrupted;
      result.failure->text =
          not_in_time(options) + (alone ? std::string() : ": " + result.failure->text);
      result.failure->code = ExitCode::wrong;
    }
    if (result.failure) {
      tell("hawser: rank {}: {}\n", place.rank, result.failure->text);
      rendezvous.abort(result.failure->text);  // ranks that wait for this one would guess
      return result.failure->code;
    }
    return conclude_together(options, report, schedule, place, rendezvous, result,
                             seconds(now_ns() - started));
  } catch (const engine::BootstrapError& error) {
    tell("hawser: rank {}: {}\n", place.rank, error.what());
    return failure_of_meeting(error).code;
  } catch (const engine::NoSharedFamily& error) {
    tell("hawser: rank {}: {}\n", place.rank, error.what());
    return ExitCode::bad_input;
  }
}

ExitCode run_launched(RunOptionParser& parser) {
  end_with_launcher();
  const std::optional<engine::JobPlace> place = engine::job_place_from_environment();
  if (!place) throw InputError("`hawser rank` is started by `hawser run`");
  RunOptions options = parser.finish(place->size, place->said_by);
  if (options.nic_addresses.empty()) {
    options.nic_addresses = loopback_nics(place->rank, options.nics);
  }
  PipeSink sink(kReportFd);
  RankMessage message;
  try {
    engine::Rendezvous rendezvous(place->rendezvous, place->rank, place->size, meeting_ms(options));
    RankConfig config = config_of(options, *place, rendezvous);
    config.life = life_from_environment();
    message.result = run_rank(options, config, sink);
  } catch (const engine::BootstrapError& error) {
    message.result = RankResult{};
    message.result->rank = place->rank;
    message.result->life = life_from_environment();
    message.result->failure = failure_of_meeting(error);
  }
  sink.send(message);
  return message.result->failure ? message.result->failure->code : ExitCode::ok;
}

}  // namespace hawser::tool
