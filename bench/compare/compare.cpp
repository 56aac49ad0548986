// SPDX-License-Identifier: Apache-2.0
// Question: how does Hawser over UDP compare with raw UDP, on which it stands, and with other ways
// to carry messages over the kernel's network? The others are bare TCP, libfabric's reliable
// endpoints over TCP (`rxm`) and over UDP (`rxd`), and UCX over TCP (`ucx`). All run on this
// machine, in this run, for messages of all sizes, with and without loss. Each transport's file
// describes it at its head. `_nocrc` leaves out the CRC32C that Hawser and raw UDP have otherwise;
// `_4nics` has 4 NICs a side instead of --nics.
//
// Metric: MB/s of a stream, microseconds of a round trip, and processor time of both processes
// together, for an operation and for a byte. There are two processes, the client on core 0 and the
// server on core 1. Both spin as far as the transport lets them. Loopback is as it is (MTU 65536,
// segmentation offload). Rounds alternate A B C B C A C A B; medians and spread. A first round
// chooses how many messages a sample has, for each transport and size, so that it takes
// --sample-ms. All bytes of the last message are compared. A transport that stands still for 10 s
// is left out from there on. A message leaves the window at different moments. A send of Hawser's
// completes once the message is in the receiver's buffer. TCP's and raw UDP's complete once they
// are acknowledged, in quarters of the window. A library's completes once its buffer may be used
// again.
//
// `--repeats 8` is for a shared machine. A sample is disturbed if the two processes waited for
// their cores for more than 5% of the time because something else ran there. It is taken again
// until the tries together have taken the time of 8 samples, and the least disturbed one counts.
//
// `--loss 0.001 0.01` runs everything, the lossless part too, in a network namespace of its own, as
// root. Segmentation offload is off there, so that a rule of iptables drops single packets of all
// transports alike, in both directions. TCP fills its segments up to the MTU. With an MTU of 64
// KiB, one packet in a thousand would be another share of the bytes than it is for fragments of 4
// KiB. The MTU is therefore --mtu, 9000, as large as a network has. TCP still loses about half as
// often per byte. Each lossy figure is compared with the transport's own lossless rate in the same
// run. Raw UDP doesn't take part in lossy runs: nothing repairs its losses.
//
// Runtime: 5 minutes, and as much again for each loss. `--short` moves less, for the tests.
// `--json` writes all samples, which tables.py and picture.py show.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "bench/compare/client.hpp"
#include "bench/compare/network.hpp"
#include "bench/compare/report.hpp"
#include "bench/compare/second_process.hpp"
#include "bench/compare/transports.hpp"

namespace hawser::bench {

namespace {

struct Arguments {
  Plan plan;
  std::vector<double> losses;
  unsigned mtu = 9000;
  double sample_ms = 100;
  std::string json;
  bool brief = false;
  int peer_fd = -1;
};

void declare(CLI::App& app, Arguments& a) {
  TransportOptions& options = a.plan.options;
  app.add_flag("--short", a.brief, "Move little: for the tests");
  app.add_option("--transports", a.plan.transports, "Those alone, instead of all that there are")
      ->check(CLI::IsMember(transport_names()));
  app.add_option("--sizes", a.plan.sizes, "Bytes of streamed messages; 0 alone: no streams");
  app.add_option("--ping-sizes", a.plan.ping_sizes, "Bytes that go there and back; 0 alone: none");
  app.add_option("--rounds", a.plan.rounds, "Rounds that count")->check(CLI::Range(1, 10000));
  app.add_option("--repeats", a.plan.repeats, "Tries for a sample that other programs disturb");
  app.add_option("--sample-ms", a.sample_ms, "What a sample takes")->check(CLI::Range(1, 10000));
  app.add_option("--messages", a.plan.messages, "Streamed messages a sample, instead");
  app.add_option("--round-trips", a.plan.round_trips, "Round trips a sample, instead");
  app.add_option("--window", options.window, "Streamed messages under way (by their size)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--nics", options.nics, "Hawser's NICs a side")->check(CLI::Range(1, 16));
  app.add_option("--client-nic", options.client_nics, "Hawser's NICs of one side, instead");
  app.add_option("--server-nic", options.server_nics, "Those of the other side");
  app.add_option("--faults", options.faults, "Hawser's own faults, as in docs/faults.md");
  app.add_option("--loss", a.losses, "Shares of the packets that a network of its own loses")
      ->check(CLI::Range(0.0, 0.5));
  app.add_option("--mtu", a.mtu, "Of that network")->check(CLI::Range(1500, 65536));
  app.add_option("--json", a.json, "Write all samples to this file; -: print them, and no tables");
  app.add_option("--peer-fd", a.peer_fd, "Internal: this is the second process")->group("");
}

void complete(const CLI::App& app, Arguments& a) {
  Plan& plan = a.plan;
  const auto brief = [&](const char* option, auto& value, const auto& less) {
    if (a.brief && app.count(option) == 0) value = less;
  };
  brief("--rounds", plan.rounds, 1u);
  brief("--messages", plan.messages, 32u);
  brief("--round-trips", plan.round_trips, 100u);
  brief("--sizes", plan.sizes, std::vector<std::size_t>{8, 4096, 65536});
  brief("--ping-sizes", plan.ping_sizes, std::vector<std::size_t>{8, 65536});
  plan.sample_seconds = 1e-3 * a.sample_ms;
  plan.all = plan.transports.empty();
  if (plan.all) plan.transports = transport_names();
  std::erase(plan.sizes, 0);
  std::erase(plan.ping_sizes, 0);
  for (const double loss : a.losses) {
    if (loss > 0) plan.losses.push_back(loss);
  }
}

int run(Arguments& a, int argc, char** argv) {
  const bool loses = !a.losses.empty();
  if (loses) enter_lossy_network(a.mtu);
  SecondProcess server(argc, argv);
  const Results results = run_client(a.plan, server.wire(), [&](double share) {
    if (loses) lose_packets(share);
  });
  const bool server_ended_well = server.wait();
  if (a.json != "-") print_tables(a.plan, results);
  if (!a.json.empty()) write_json(a.plan, results, a.json);
  return results.samples.empty() || !results.failed.empty() || !server_ended_well ? 1 : 0;
}

int main_of(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Hawser over UDP beside raw UDP, TCP, libfabric and UCX: streams and round trips"};
  declare(app, a);
  CLI11_PARSE(app, argc, argv);
  if (a.plan.options.client_nics.empty() != a.plan.options.server_nics.empty()) {
    fmt::print(stderr, "compare: --client-nic and --server-nic go together\n");
    return 2;
  }
  complete(app, a);
  try {
    if (a.peer_fd < 0) return run(a, argc, argv);
    a.plan.options.server = true;
    run_server(a.plan.options, Wire(a.peer_fd));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_of(argc, argv); }
