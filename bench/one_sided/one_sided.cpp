// SPDX-License-Identifier: Apache-2.0
// Question: what do Hawser's one-sided operations cost beside those of other libraries, on this
// machine, in this run? The others are libfabric over TCP (`rxm`) and over UDP (`rxd`), and UCX
// over TCP (`ucx`). A fetch-add also stands beside Hawser's own round trip of two messages.
//
// Metric: microseconds of a put, a get, a fetch-add and a compare-and-swap, one at a time; of a put
// of 8 bytes with a signal, as half of a ping-pong; MB/s of puts and gets with many under way;
// millions of fetch-adds a second. An operation completes when its bytes are in the target's
// memory, or its result is here. Each transport's file describes it at its head. The target's
// program only makes progress, except in the exchanges of signals and messages.
//
// `hawser` runs over UDP on loopback between two processes, as the others do: the client on core 0,
// the server on core 1. `hawser_memory` runs over memory NICs between two threads of this process,
// before the others. All spin. Rounds alternate A B C B C A C A B. Figures are medians, with their
// range. Ratios are medians of the rounds' ratios. A first round chooses how many operations a
// sample has, so that it takes --sample-ms. Memory is compared after each sample, and the words
// that were fetched are summed. A transport that refuses an operation is named, with its reason.
// One that stands still for 10 s is left out from there on.
//
// `--repeats 8` is for a shared machine. A sample is disturbed if the two sides waited for their
// cores for more than 5% of the time because something else ran there. It is taken again until the
// tries together have taken the time of 8 samples, and the least disturbed one counts. Short
// samples are undisturbed more often: `--operations 300`.
//
// The same sources make the program `exactly_once` (bench/ablations), which measures the steady
// cost of exactly-once. In `_forgets` the target keeps nothing to answer a repeated fetch with. In
// `_once_or_more` the initiator does not acknowledge replies either.
//
// Runtime: 4 minutes. `--short` moves less, for the tests. `--json` writes all samples.
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/compare/second_process.hpp"
#include "bench/one_sided/by_name.hpp"
#include "bench/one_sided/client.hpp"
#include "bench/one_sided/report.hpp"
#include "hawser/faults.hpp"

namespace hawser::bench::one_sided {

namespace {

constexpr std::size_t kMostBytes = 64 << 20;

struct Arguments {
  Plan plan;
  double sample_ms = 100;
  std::string json;
  bool brief = false;
  int peer_fd = -1;
};

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const KindRow& row : kKinds) names.emplace_back(row.name);
  return names;
}

void declare(CLI::App& app, Arguments& a) {
  Plan& plan = a.plan;
  app.add_flag("--short", a.brief, "Move little: for the tests");
  app.add_option("--transports", plan.transports, "Those alone, instead of all that there are")
      ->check(CLI::IsMember(transport_names()));
  app.add_option("--kinds", plan.kinds, "These operations alone")
      ->check(CLI::IsMember(kind_names()));
  app.add_option("--sizes", plan.sizes, "Bytes of puts and gets, one at a time")
      ->check(CLI::Range(std::size_t{1}, kMostBytes));
  app.add_option("--stream-sizes", plan.stream_sizes, "Bytes of those with many under way")
      ->check(CLI::Range(std::size_t{1}, kMostBytes));
  app.add_option("--rounds", plan.rounds, "Rounds that count")->check(CLI::Range(1, 10000));
  app.add_option("--repeats", plan.repeats, "Tries for a sample that other programs disturb")
      ->check(CLI::Range(0, 10000));
  app.add_option("--sample-ms", a.sample_ms, "What a sample takes")->check(CLI::Range(1, 10000));
  app.add_option("--operations", plan.operations, "Operations a sample, instead")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--window", plan.options.window,
                 "Operations under way in a stream (by their size)")
      ->check(CLI::Range(1, 512));
  app.add_option("--nics", plan.options.nics, "Hawser's UDP NICs a side")->check(CLI::Range(1, 16));
  app.add_option("--faults", plan.options.faults, "Hawser's own faults, as in docs/faults.md")
      ->check(CLI::Validator(complaint_about_faults, "FAULTS"));
  app.add_option("--json", a.json, "Write all samples to this file; -: print them, and no tables");
  app.add_option("--peer-fd", a.peer_fd, "Internal: this is the second process")->group("");
}

void complete(const CLI::App& app, Arguments& a) {
  Plan& plan = a.plan;
  const auto brief = [&](const char* option, auto& value, const auto& less) {
    if (a.brief && app.count(option) == 0) value = less;
  };
  brief("--rounds", plan.rounds, 1u);
  brief("--operations", plan.operations, 16u);
  brief("--sizes", plan.sizes, std::vector<std::size_t>{8, 4096});
  brief("--stream-sizes", plan.stream_sizes, std::vector<std::size_t>{4096, 4 << 20});
  plan.sample_seconds = 1e-3 * a.sample_ms;
  plan.all = plan.transports.empty();
  if (plan.all) plan.transports = transport_names();
  if (!plan.kinds.empty()) return;
  plan.kinds = can_forget_results()
                   ? std::vector<std::string>{"fetch_add", "fetch_add_stream", "message"}
                   : kind_names();
}

// The server as a thread of this process, for transports that don't leave it.
class SecondThread {
 public:
  explicit SecondThread(TransportOptions options) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_) != 0) fail("socketpair failed");
    options.server = true;
    thread_ = std::thread([fd = fds_[1], options] {
      try {
        run_server(options, Wire(fd));
      } catch (const std::exception& error) {
        fmt::print(stderr, "one_sided: {}\n", error.what());
      }
      ::shutdown(fd, SHUT_RDWR);  // the client no longer waits for an answer
    });
  }
  ~SecondThread() {
    ::shutdown(fds_[0], SHUT_RDWR);
    thread_.join();
    for (const int fd : fds_) ::close(fd);
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  [[nodiscard]] Wire wire() const { return Wire(fds_[0]); }

 private:
  int fds_[2] = {-1, -1};
  std::thread thread_;
};

// Before the run, which takes minutes.
void check_writable(const std::string& path) {
  if (path.empty() || path == "-" || std::ofstream(path, std::ios::app)) return;
  fail("can't write " + path);
}

int run(const Arguments& a, int argc, char** argv) {
  check_writable(a.json);
  std::vector<std::string> here, between;
  for (const std::string& name : a.plan.transports) {
    (is_in_one_process(name) ? here : between).push_back(name);
  }
  Results results;
  if (!here.empty()) {
    const SecondThread server(a.plan.options);
    run_client(a.plan, here, server.wire(), results);
  }
  bool server_ended_well = true;
  if (!between.empty()) {
    SecondProcess server(argc, argv);
    run_client(a.plan, between, server.wire(), results);
    server_ended_well = server.wait();
  }
  if (a.json != "-") print_tables(a.plan, results);
  if (!a.json.empty()) write_json(a.plan, results, a.json);
  return results.samples.empty() || !results.failed.empty() || !server_ended_well ? 1 : 0;
}

int main_of(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Hawser's one-sided operations beside those of libfabric and UCX"};
  declare(app, a);
  CLI11_PARSE(app, argc, argv);
  complete(app, a);
  try {
    if (a.peer_fd < 0) return run(a, argc, argv);
    a.plan.options.server = true;
    run_server(a.plan.options, Wire(a.peer_fd));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "one_sided: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace hawser::bench::one_sided

int main(int argc, char** argv) { return hawser::bench::one_sided::main_of(argc, argv); }
