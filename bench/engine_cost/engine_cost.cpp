// SPDX-License-Identifier: Apache-2.0
// Question: what does the engine itself cost, in ns a packet or message, sending and receiving
// apart? Metric: the time in the calls and turns of each endpoint, divided by data packets (bulk)
// or messages (8 B). The two endpoints share one thread, without checksum. The best and the median
// of all rounds; cases take turns.
//   `protocol`: over a pair of NICs that hand packets over in place (passing_nic.hpp). Receives
//   have
//     no bytes, so that every fragment is claimed and none is copied. `N NICs`: each side has so
//     many.
//   `memory`: over memory NICs, which copy each packet once; beside the same packets without a
//     protocol. `copied`: into a buffer that stays in the cache. `from and to DRAM`: messages and
//     receives go through 64 MiB each, beside memcpy over the same memory.
//   `unpacked`: each message in a packet of its own.
//   `traced`: both ends have a trace hook that counts.
//   `mempool`: packets come from an rte_mempool, not from the engine's own pool. `--eal` starts
//     DPDK's EAL and adds such a twin to each case.
// Runtime: 10 s. `--short` moves less, for the tests. `--case NAME` runs one case, and `--rounds 1`
// one round, for valgrind, which counts instructions in the functions measured_*.
#include <fmt/core.h>
#include <rte_config.h>
#include <rte_eal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/engine_cost/measured_pair.hpp"

namespace {

using namespace hawser;
using namespace hawser::bench;

struct Case {
  std::string name;
  PairConfig pair;
  Load load;
};

const std::vector<Case> kCases{
    {"protocol, 1 MiB", {.passing = true}, {.message_bytes = 1 << 20, .messages = 400}},
    {"protocol, 8 B",
     {.passing = true},
     {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
    {"protocol, 1 MiB, 2 NICs",
     {.passing = true, .nics = 2},
     {.message_bytes = 1 << 20, .messages = 400}},
    {"protocol, 1 MiB, 4 NICs",
     {.passing = true, .nics = 4},
     {.message_bytes = 1 << 20, .messages = 400}},
    {"protocol, 1 MiB, 8 NICs",
     {.passing = true, .nics = 8},
     {.message_bytes = 1 << 20, .messages = 400}},
    {"protocol, 8 B, 2 NICs",
     {.passing = true, .nics = 2},
     {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
    {"protocol, 8 B, 4 NICs",
     {.passing = true, .nics = 4},
     {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
    {"protocol, 8 B, 8 NICs",
     {.passing = true, .nics = 8},
     {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
    {"protocol, 8 B, unpacked",
     {.passing = true, .unpacked = true},
     {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
    {"protocol, 8 B, traced",
     {.passing = true, .traced = true},
     {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
    {"memory, 1 MiB", {}, {.message_bytes = 1 << 20, .messages = 200}},
    {"memory, 1 MiB, copied", {}, {.message_bytes = 1 << 20, .messages = 200, .copy = true}},
    {"memory, 1 MiB, from and to DRAM",
     {},
     {.message_bytes = 1 << 20, .messages = 200, .copy = true, .buffers = 64}},
    {"memory, 8 B", {}, {.message_bytes = 8, .messages = 100'000, .copy = true, .window = 256}},
};

// EAL takes no huge pages here, so that both pools have pages of the same size.
bool start_eal() {
  static std::array<std::string, 8> words = {
      "engine_cost", "-l0",         "--no-huge",      "--no-pci",
      "-m512",       "--no-shconf", "--no-telemetry", "--log-level=*:error"};
  static std::array<char*, words.size() + 1> arguments{};  // EAL keeps pointers to them
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  return rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0;
}

// Puts a twin with an rte_mempool after each case.
std::vector<Case> with_mempools(const std::vector<Case>& cases) {
  std::vector<Case> twins;
  for (const Case& each : cases) {
    twins.push_back(each);
    twins.push_back(each);
    twins.back().name += ", mempool";
    twins.back().pair.mempool = true;
  }
  return twins;
}

struct Samples {
  std::unique_ptr<MeasuredPair> pair;
  std::vector<double> send;
  std::vector<double> receive;
  Measured last;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void print(std::string_view name, const Samples& s) {
  fmt::print("{:42} {:7.1f} {:7.1f} {:9.1f} {:7.1f} {:9} {:016x}\n", name, std::ranges::min(s.send),
             median(s.send), std::ranges::min(s.receive), median(s.receive), s.last.units,
             s.last.hash);
}

// GB/s of memcpy over as much memory as the case `from and to DRAM` uses.
double memcpy_rate(std::uint64_t bytes) {
  constexpr std::size_t kArea = 64 << 20;
  constexpr std::size_t kPiece = 1 << 20;
  std::vector<std::byte> from(kArea, std::byte{1});
  std::vector<std::byte> to(kArea, std::byte{2});
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t done = 0; done < bytes; done += kPiece) {
      std::memcpy(to.data() + done % kArea, from.data() + done % kArea, kPiece);
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(bytes) / spent.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  bool brief = false;
  std::uint32_t rounds = 7;
  std::string only;
  CLI::App app("What the engine itself costs");
  app.add_flag("--short", brief, "move little: for the tests");
  app.add_option("--rounds", rounds, "of each case")->check(CLI::Range(1u, 1000u));
  bool own_time = false;
  app.add_flag("--own-time", own_time,
               "a clock that is the same in every run: to count instructions");
  app.add_option("--case", only, "this one alone");
  bool eal = false;
  app.add_flag("--eal", eal, "start DPDK's EAL: each case also with an rte_mempool");
  CLI11_PARSE(app, argc, argv);

  std::vector<Case> cases = kCases;
  if (!only.empty()) std::erase_if(cases, [&](const Case& c) { return c.name != only; });
  if (cases.empty()) {
    fmt::print(stderr, "engine_cost: no case '{}'\n", only);
    return 2;
  }
  if (eal) {
    if (!start_eal()) {
      fmt::print(stderr, "engine_cost: EAL does not start here\n");
      return 1;
    }
    cases = with_mempools(cases);
  }
  if (brief) rounds = 1;
  for (Case& each : cases) each.pair.own_time = own_time;
  std::vector<Samples> samples(cases.size());
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Load load = cases[i].load;
      if (brief) load.messages /= 10;
      if (round == 0) samples[i].pair = std::make_unique<MeasuredPair>(cases[i].pair);
      samples[i].last = samples[i].pair->measure(load);
      samples[i].send.push_back(samples[i].last.send_ns);
      samples[i].receive.push_back(samples[i].last.receive_ns);
    }
  }
  fmt::print("{:42} {:>15} {:>17} {:>9} {}\n{:42} {:>7} {:>7} {:>9} {:>7}\n",
             "ns a packet; 8 B: a message", "send", "receive", "of them", "hash", "", "best",
             "median", "best", "median");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    print(cases[i].name, samples[i]);
    if (own_time) fmt::print("{} in all\n", samples[i].last.all_units);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (own_time || cases[i].load.buffers < 2) continue;
    const double copy = memcpy_rate(brief ? 64 << 20 : 1 << 30);
    const double ours =
        4096 / (std::ranges::min(samples[i].send) + std::ranges::min(samples[i].receive));
    fmt::print("from and to DRAM: {:.2f} GB/s, of memcpy's {:.2f}: {:.2f}\n", ours, copy,
               ours / copy);
  }
  return 0;
}
