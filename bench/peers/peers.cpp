// SPDX-License-Identifier: Apache-2.0
// Question: what do 2 to 16,384 peers cost one host? The metrics for each number of peers:
// * Queues of the NIC that were used, beside the queue pairs of a transport with connections.
// * Resident bytes of the endpoint a peer: at rest, awake, and with a message each way under way.
// * Nanoseconds of the processor for a message to a random peer, with calls, turns and completions.
// * Messages a second to random peers in virtual time over a fabric of 400 Gb/s, beside the
//   baseline `rc`, whose NIC must fetch contexts of queue pairs.
// * Time and packets of connecting there, if the host calls all or all call it, beside an
//   all-to-all.
// * The longest half turns when one of two NICs dies under a message to each peer, and virtual time
//   until the other NIC has completed them (nic_death.hpp).
// The host is the real endpoint in all of it. Its peers are real too on the fabric and where a NIC
// dies, with small limits; elsewhere they are doubles of a few words (answering_nic.hpp). Runtime:
// 10 minutes.
// `--short`: two seconds, for the tests; it also fails if a figure that doesn't depend on the clock
// is out of its bounds.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/peers/connected_rate.hpp"
#include "bench/peers/fabric_world.hpp"
#include "bench/peers/measured_host.hpp"
#include "bench/peers/nic_death.hpp"
#include "bench/peers/peer_bytes.hpp"
#include "bench/recorded_memory.hpp"

namespace {

using namespace hawser;
using namespace hawser::bench;
using Json = nlohmann::ordered_json;

std::vector<std::string> all_parts() {
  return {"memory", "processor", "fabric", "connect", "all_to_all", "nic_death"};
}

struct Options {
  std::vector<std::uint32_t> peers{2, 64, 1024, 4096, 16384};
  std::vector<std::uint32_t> memory_peers{4096, 16384};
  std::uint32_t all_to_all = 1024;
  std::vector<std::uint32_t> death_peers{64, 1024, 4096};
  std::uint32_t death_runs = 5;
  std::vector<std::string> parts = all_parts();
  std::uint64_t messages = 100'000;
  std::uint32_t rounds = 9;
  std::string json;
  bool brief = false;

  void shorten() {
    peers = {2, 64, 256};
    memory_peers = {kPeersToMeasure};
    all_to_all = 32;
    death_peers = {64};
    death_runs = 2;  // as the course of all runs must be the same
    messages = 2000;
    rounds = 1;
  }
  [[nodiscard]] bool has(const char* part) const {
    return std::ranges::find(parts, part) != parts.end();
  }
};

// The printed figures, and the failed checks.
struct Report {
  Json json = Json::object();
  std::vector<std::string> wrong;

  void check(bool right, const std::string& what) {
    if (!right) wrong.push_back(what);
  }
};

constexpr fabric::Span kMost = fabric::microseconds(20'000'000);
constexpr std::uint32_t kSmall = 8;
constexpr std::uint32_t kLarge = 4096;

// ---- memory

void measure_memory(const Options& options, Report& report) {
  fmt::print("bytes of an endpoint of one NIC, resident\n{:>7} {:>12} {:>12} {:>12} {:>12}\n",
             "peers", "at rest", "awake", "under way", "all, MB");
  for (const std::uint32_t peers : options.memory_peers) {
    const PeerBytes bytes = measure_peer_bytes(peers);
    fmt::print("{:>7} {:>12.0f} {:>12.0f} {:>12.0f} {:>12.2f}\n", peers, bytes.at_rest, bytes.awake,
               bytes.under_way, static_cast<double>(bytes.endpoint) / 1e6);
    report.json["memory"].push_back({{"peers", peers},
                                     {"bytes_at_rest", bytes.at_rest},
                                     {"bytes_awake", bytes.awake},
                                     {"bytes_under_way", bytes.under_way},
                                     {"bytes_of_the_endpoint_at_rest", bytes.endpoint}});
    // The sizes that proto/peer/peer_table.hpp asserts of the structs, and 32 bytes for whole
    // pages.
    report.check(bytes.at_rest <= 512 + 32,
                 fmt::format("a peer at rest takes {:.0f} bytes of 512", bytes.at_rest));
    report.check(bytes.under_way <= 4096 + 32,
                 fmt::format("an active peer takes {:.0f} bytes of 4096", bytes.under_way));
  }
}

// ---- processor

struct Timed {
  std::uint32_t peers = 0;
  std::unique_ptr<MeasuredHost> host;
  double best = 0;  // ns a message, of all rounds
  ProcessorCost last;
};

void time_processor(const Options& options, Report& report, const char* name,
                    const MeasuredConfig& what, std::uint32_t bytes) {
  std::vector<Timed> timed;
  for (const std::uint32_t peers : options.peers) {
    MeasuredConfig config = what;
    config.peers = peers;
    timed.push_back({peers, std::make_unique<MeasuredHost>(config), 0, {}});
    timed.back().host->connect(peers);
    (void)timed.back().host->run(options.messages, bytes);
  }
  // Hosts take turns, so that other load disturbs all of them alike.
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (Timed& one : timed) {
      one.last = one.host->run(options.messages, bytes);
      const double ns = one.last.ns_a_message();
      one.best = round == 0 ? ns : std::min(one.best, ns);
    }
  }
  const auto base = std::ranges::find(timed, 64u, &Timed::peers);
  fmt::print("\n{}: ns of the processor, the best of {} rounds\n{:>7} {:>10} {:>10} {:>8} {:>8}\n",
             name, options.rounds, "peers", "a message", "a packet", "to 64", "queues");
  for (const Timed& one : timed) {
    const double packets =
        static_cast<double>(one.last.packets) / static_cast<double>(one.last.messages);
    const double ratio = base == timed.end() ? 0 : one.best / base->best;
    fmt::print("{:>7} {:>10.1f} {:>10.1f} {:>8.2f} {:>8}\n", one.peers, one.best,
               one.best / packets, ratio, one.host->nic().queues_used());
    report.json["processor"].push_back({{"case", name},
                                        {"peers", one.peers},
                                        {"ns_a_message", one.best},
                                        {"ns_a_packet", one.best / packets},
                                        {"ratio_to_64_peers", ratio},
                                        {"nic_queues", one.host->nic().queues_used()}});
    report.check(one.host->nic().queues_used() == 2,
                 fmt::format("{} queues with {} peers", one.host->nic().queues_used(), one.peers));
    report.check(one.host->nic().hellos() == one.peers,
                 fmt::format("{} HELLOs to {} peers", one.host->nic().hellos(), one.peers));
    const std::string complaint = one.host->complaint();
    report.check(complaint.empty(), fmt::format("{} peers: {}", one.peers, complaint));
  }
}

void measure_processor(const Options& options, Report& report) {
  MeasuredConfig config;
  time_processor(options, report, "messages of 8 bytes", config, kSmall);
  time_processor(options, report, "messages of 4 KiB", config, kLarge);
  config.sends_back = true;
  time_processor(options, report, "messages of 8 bytes that are answered", config, kSmall);
  config.sends_back = false;
  config.is_cold = true;
  time_processor(options, report, "messages of 8 bytes, the caches emptied before each turn",
                 config, kSmall);
}

// ---- fabric

struct Cache {
  const char* name;
  baseline::ContextCache settings;
};

std::vector<Cache> caches() {
  return {{"all contexts held", {}},
          {"1024 held, 0.5 us a miss, 8 at once", {1024, fabric::nanoseconds(500), 8}},
          {"1024 held, 2 us a miss, 8 at once", {1024, fabric::microseconds(2), 8}},
          {"1024 held, 5 us a miss, 8 at once", {1024, fabric::microseconds(5), 8}}};
}

void measure_connected(const Options& options, Report& report, std::uint32_t bytes,
                       std::uint32_t peers) {
  constexpr std::uint32_t kUnderWay = 512;
  const std::uint64_t messages =
      std::max<std::uint64_t>(options.messages, 2 * std::uint64_t{peers});
  for (const Cache& cache : caches()) {
    const ConnectedRate rate = connected_rate(peers, messages, bytes, kUnderWay, cache.settings);
    fmt::print("{:>7} {:>8.2f} {:>8} {:>6}   rc, {}; {:.2f} misses a packet\n", peers,
               rate.messages_per_s / 1e6, "", rate.queue_pairs, cache.name, rate.misses_a_packet);
    report.json["connected"].push_back({{"bytes", bytes},
                                        {"peers", peers},
                                        {"cache", cache.name},
                                        {"messages_per_s", rate.messages_per_s},
                                        {"queue_pairs", rate.queue_pairs},
                                        {"misses_a_packet", rate.misses_a_packet}});
    report.check(rate.all, fmt::format("rc, {} peers: not all came", peers));
  }
}

Json connect_json(std::uint32_t peers, const char* who, const ConnectCost& cost) {
  return {{"peers", peers},
          {"who_calls", who},
          {"ms", cost.ms},
          {"sessions", cost.sessions},
          {"handshake_packets_a_session", cost.handshakes_a_session()},
          {"challenges", cost.challenges},
          {"lost_in_queues", cost.lost_in_queues},
          {"lost_in_rings", cost.lost_in_rings}};
}

void show_connect(Report& report, std::uint32_t peers, const char* who, const ConnectCost& cost) {
  fmt::print(
      "{:>7} {:<16} {:>9.2f} ms {:>6.2f} handshake packets a session, {} challenges; lost: "
      "{} in queues, {} in rings\n",
      peers, who, cost.ms, cost.handshakes_a_session(), cost.challenges, cost.lost_in_queues,
      cost.lost_in_rings);
  report.json["connect"].push_back(connect_json(peers, who, cost));
  report.check(cost.all_up, fmt::format("{} peers, {}: not all connected", peers, who));
  constexpr double kMostHandshakes = 8;  // four, a challenge and its answer, one lost of each
  report.check(cost.handshakes_a_session() <= kMostHandshakes,
               fmt::format("{} peers, {}: {:.2f} handshake packets a session", peers, who,
                           cost.handshakes_a_session()));
}

void measure_fabric(const Options& options, Report& report) {
  for (const std::uint32_t bytes : {kSmall, kLarge}) {
    fmt::print("\nmessages of {} bytes over the fabric, virtual time\n{:>7} {:>8} {:>8} {:>6}\n",
               bytes, "peers", "M/s", "link", "queues");
    for (const std::uint32_t peers : options.peers) {
      constexpr std::uint32_t kUnderWay = 512;
      FabricWorld world(peers, Calls::one_calls_all);
      report.check(world.connect(kMost).all_up, fmt::format("{} peers: not connected", peers));
      (void)world.rate(options.messages, bytes, kUnderWay);
      const FabricRate rate = world.rate(options.messages, bytes, kUnderWay);
      fmt::print("{:>7} {:>8.2f} {:>8.3f} {:>6}   Hawser; {} sent again, {} lost\n", peers,
                 rate.messages_per_s / 1e6, rate.link_share, 2, rate.resent, rate.lost);
      report.json["fabric"].push_back({{"bytes", bytes},
                                       {"peers", peers},
                                       {"messages_per_s", rate.messages_per_s},
                                       {"link_share", rate.link_share},
                                       {"sent_again", rate.resent},
                                       {"lost", rate.lost}});
      report.check(rate.all, fmt::format("{} peers, {} bytes: not all came", peers, bytes));
      measure_connected(options, report, bytes, peers);
    }
  }
}

void measure_connect(const Options& options, Report& report) {
  fmt::print("\nuntil all sessions are up and each has carried a message, virtual time\n");
  for (const std::uint32_t peers : options.peers) {
    show_connect(report, peers, "it calls all",
                 FabricWorld(peers, Calls::one_calls_all).connect(kMost));
    show_connect(report, peers, "all call it",
                 FabricWorld(peers, Calls::all_call_one).connect(kMost));
  }
}

void measure_all_to_all(const Options& options, Report& report) {
  const std::uint32_t hosts = options.all_to_all;
  FabricWorld world(hosts - 1, Calls::all_to_all);
  fmt::print("\n{} real hosts, all to all\n", hosts);
  show_connect(report, hosts - 1, "each calls each", world.connect(kMost));
  const FabricRate rate = world.exchange(kLarge);
  fmt::print(
      "{:>7} messages of 4 KiB each: {:.1f} M/s, {:.3f} of the first one's link; {} sent "
      "again, {} lost\n",
      hosts - 1, rate.messages_per_s / 1e6, rate.link_share, rate.resent, rate.lost);
  report.json["all_to_all"] = {{"hosts", hosts},
                               {"messages_per_s", rate.messages_per_s},
                               {"link_share", rate.link_share},
                               {"sent_again", rate.resent},
                               {"lost", rate.lost}};
  report.check(rate.all, fmt::format("all to all of {}: not all came once", hosts));
}

// ---- NIC death

void show_death(Report& report, std::uint32_t peers, bool dies, std::uint32_t runs) {
  const NicDeath death = measure_nic_death(peers, dies, runs);
  const char* const name = dies ? "dies" : "lives";
  report.check(death.complaint.empty(),
               fmt::format("{} peers, the NIC {}: {}", peers, name, death.complaint));
  if (!death.complaint.empty()) return;
  fmt::print("{:>7} {:<5} {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7} {:>11.1f} {:>6} {:>6}\n", peers,
             name, death.begin_turn.median_us, death.begin_turn.worst_us,
             death.finish_turn.median_us, death.finish_turn.worst_us, death.turns, death.virtual_us,
             death.lost, death.resent);
  report.json["nic_death"].push_back({{"peers", peers},
                                      {"dies", dies},
                                      {"longest_begin_turn_us", death.begin_turn.median_us},
                                      {"worst_begin_turn_us", death.begin_turn.worst_us},
                                      {"longest_finish_turn_us", death.finish_turn.median_us},
                                      {"worst_finish_turn_us", death.finish_turn.worst_us},
                                      {"turns", death.turns},
                                      {"virtual_us", death.virtual_us},
                                      {"lost", death.lost},
                                      {"sent_again", death.resent}});
}

void measure_deaths(const Options& options, Report& report) {
  fmt::print(
      "\none of two NICs, a message of 4 KiB to each peer under way: us of the processor of the "
      "longest half turn, median and worst of {} runs; turns and virtual us until all are "
      "complete\n{:>7} {:<5} {:>9} {:>9} {:>9} {:>9} {:>7} {:>11} {:>6} {:>6}\n",
      options.death_runs, "peers", "NIC", "begin", "worst", "finish", "worst", "turns",
      "virtual us", "lost", "again");
  for (const std::uint32_t peers : options.death_peers) {
    show_death(report, peers, false, options.death_runs);
    show_death(report, peers, true, options.death_runs);
  }
}

int run(const Options& options) {
  Report report;
  if (options.has("memory")) measure_memory(options, report);
  if (options.has("processor")) measure_processor(options, report);
  if (options.has("fabric")) measure_fabric(options, report);
  if (options.has("connect")) measure_connect(options, report);
  if (options.has("all_to_all")) measure_all_to_all(options, report);
  if (options.has("nic_death")) measure_deaths(options, report);
  for (const std::string& what : report.wrong) fmt::print("wrong: {}\n", what);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << report.json.dump(2) << "\n";
    if (!file.flush()) {
      fmt::print("{} can't be written\n", options.json);
      return 2;
    }
  }
  return report.wrong.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("What many peers cost one host");
  app.add_flag("--short", options.brief, "few peers and messages, for the tests");
  app.add_option("--peers", options.peers, "numbers of peers; 64 is what others are compared with")
      ->check(CLI::Range(2u, 16384u));
  app.add_option("--memory-peers", options.memory_peers, "the same where memory is measured")
      ->check(CLI::Range(kPeersToMeasure, 16384u));
  app.add_option("--all-to-all", options.all_to_all, "real hosts that all send to each other")
      ->check(CLI::Range(2, 1024));
  app.add_option("--death-peers", options.death_peers, "numbers of peers where a NIC dies")
      ->check(CLI::Range(1u, kMostDeathPeers));
  app.add_option("--death-runs", options.death_runs, "for each of them")->check(CLI::Range(1, 100));
  app.add_option("--parts", options.parts, fmt::format("{}", fmt::join(all_parts(), ", ")))
      ->check(CLI::IsMember(all_parts()));
  app.add_option("--messages", options.messages, "of a round")->check(CLI::Range(1, 100'000'000));
  app.add_option("--rounds", options.rounds, "of timing")->check(CLI::Range(1, 1000));
  app.add_option("--json", options.json, "a file for all figures");
  CLI11_PARSE(app, argc, argv);
  if (options.brief) options.shorten();
  prepare_recording();
  return run(options);
}
