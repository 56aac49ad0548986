// Question: how does Hawser over UDP compare with what it stands on (raw UDP, same CRC) and with
// TCP, on this machine, in this run? Metric: seconds for a stream of 4 MiB messages, and for
// ping-pongs of 8 bytes, between two processes pinned to different cores, all spinning; rounds
// alternate A B C A B C; medians, spread and ratios. Runtime: 30 s. `--short` moves less, for the
// tests. `--nics`, `--faults` vary Hawser; so do `--client-nic` and `--server-nic`, for NICs of
// other kinds. `--json` prints all samples.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench {

void fail(std::string_view what) {
  fmt::print(stderr, "compare: {} failed\n", what);
  std::exit(1);
}

std::unique_ptr<Transport> make_transport(std::string_view name, const TransportOptions& options) {
  if (name == "hawser") return make_hawser(options);
  if (name == "udp") return make_udp(options);
  if (name == "tcp") return make_tcp(options);
  throw std::invalid_argument("no such transport");
}

namespace {

struct Plan {
  std::vector<std::string> transports{"hawser", "udp", "tcp"};
  std::uint64_t rounds = 7;
  std::uint64_t messages = 64;
  std::uint64_t round_trips = 20000;
  std::size_t stream_bytes = 4 << 20;
  TransportOptions options;
};

// A line of text to the other process, and one from it.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  void put(const std::string& text) {
    const std::uint64_t size = text.size();
    write_all(&size, sizeof size);
    write_all(text.data(), text.size());
  }
  // Calls `idle` until something is here.
  template <class Idle>
  std::string get(Idle&& idle) {
    for (pollfd here{fd_, POLLIN, 0}; ::poll(&here, 1, 0) == 0;) idle();
    std::uint64_t size = 0;
    read_all(&size, sizeof size);
    std::string text(size, '\0');
    read_all(text.data(), size);
    return text;
  }

 private:
  void write_all(const void* data, std::size_t bytes) {
    if (::write(fd_, data, bytes) != static_cast<ssize_t>(bytes)) fail("the other process");
  }
  void read_all(void* data, std::size_t bytes) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::read(fd_, at, bytes);
      if (n <= 0) fail("the other process");
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  int fd_;
};

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Samples {
  std::vector<double> stream_gb_s;
  std::vector<double> round_trip_us;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One process: the client measures.
std::map<std::string, Samples> run(const Plan& plan, Wire wire) {
  pin(plan.options.server ? 1 : 0);
  std::map<std::string, std::unique_ptr<Transport>> transports;
  for (const std::string& name : plan.transports) {
    auto transport = make_transport(name, plan.options);
    wire.put(transport->address());
    transport->connect(wire.get([] {}));
    transports[name] = std::move(transport);
  }
  std::vector<std::byte> big(plan.stream_bytes);
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<std::byte>(i * 7 >> 3);
  const std::vector<std::byte> original = big;
  std::vector<std::byte> small(8);
  std::map<std::string, Samples> samples;
  for (std::uint64_t round = 0; round <= plan.rounds; ++round) {
    for (const std::string& name : plan.transports) {
      Transport& transport = *transports[name];
      wire.put("go");
      (void)wire.get([&] {
        for (auto& [other, each] : transports) each->idle();
      });
      if (plan.options.server) {
        std::ranges::fill(big, std::byte{0});
        transport.stream_in(big, plan.messages);
        if (big != original) fail("the comparison of the bytes");
        transport.pong(small, plan.round_trips);
        continue;
      }
      const double begin = seconds();
      transport.stream_out(big, plan.messages);
      const double middle = seconds();
      transport.ping(small, plan.round_trips);
      const double end = seconds();
      if (round == 0) continue;  // warms up
      samples[name].stream_gb_s.push_back(
          1e-9 * static_cast<double>(plan.stream_bytes * plan.messages) / (middle - begin));
      samples[name].round_trip_us.push_back(1e6 * (end - middle) /
                                            static_cast<double>(plan.round_trips));
    }
  }
  wire.put("done");
  (void)wire.get([&] {
    for (auto& [name, each] : transports) each->idle();
  });
  return samples;
}

void print(const Plan& plan, const std::map<std::string, Samples>& samples) {
  fmt::print("{:8} {:>10} {:>17} {:>12} {:>17}\n", "", "GB/s", "min..max", "8 B rtt us",
             "min..max");
  for (const std::string& name : plan.transports) {
    const Samples& s = samples.at(name);
    const auto [low, high] = std::ranges::minmax(s.stream_gb_s);
    const auto [fast, slow] = std::ranges::minmax(s.round_trip_us);
    fmt::print("{:8} {:10.2f} {:8.2f}..{:<7.2f} {:12.2f} {:8.2f}..{:<7.2f}\n", name,
               median(s.stream_gb_s), low, high, median(s.round_trip_us), fast, slow);
  }
  if (!samples.contains("hawser")) return;
  const Samples& own = samples.at("hawser");
  for (const std::string& name : plan.transports) {
    if (name == "hawser") continue;
    fmt::print("hawser / {}: {:.2f} of its {} B rate, {:.2f} of its 8 B round trip\n", name,
               median(own.stream_gb_s) / median(samples.at(name).stream_gb_s), plan.stream_bytes,
               median(own.round_trip_us) / median(samples.at(name).round_trip_us));
  }
}

void print_json(const std::map<std::string, Samples>& samples) {
  nlohmann::json all;
  for (const auto& [name, each] : samples) {
    all[name] = {{"stream_gb_s", each.stream_gb_s}, {"round_trip_us", each.round_trip_us}};
  }
  fmt::print("{}\n", all.dump());
}

int main_of(int argc, char** argv) {
  Plan plan;
  int peer_fd = -1;
  bool brief = false;
  bool json = false;
  CLI::App app{"Hawser over UDP beside raw UDP and TCP: 4 MiB streams and 8-byte round trips"};
  app.add_flag("--short", brief, "Move little: for the tests");
  app.add_option("--rounds", plan.rounds, "Rounds that count");
  app.add_option("--bytes", plan.stream_bytes, "Bytes of a streamed message");
  app.add_option("--messages", plan.messages, "Streamed messages a round");
  app.add_option("--window", plan.options.window, "Hawser's streamed messages under way")
      ->check(CLI::Range(1, 1024));
  app.add_option("--nics", plan.options.nics, "Hawser's NICs a side")->check(CLI::Range(1, 16));
  app.add_option("--client-nic", plan.options.client_nics, "Hawser's NICs of one side, instead");
  app.add_option("--server-nic", plan.options.server_nics, "Those of the other side");
  app.add_option("--round-trips", plan.round_trips, "8-byte round trips a round");
  app.add_flag("--json", json, "Print the samples as JSON instead of the table");
  app.add_option("--faults", plan.options.faults, "Hawser's faults, as in docs/faults.md");
  app.add_option("--transports", plan.transports, "Of hawser, udp, tcp");
  app.add_option("--peer-fd", peer_fd, "Internal: this is the second process")->group("");
  CLI11_PARSE(app, argc, argv);
  if (plan.options.client_nics.empty() != plan.options.server_nics.empty()) {
    fmt::print(stderr, "compare: --client-nic and --server-nic go together\n");
    return 2;
  }
  if (brief) {
    plan.rounds = 1;
    plan.messages = 4;
    plan.round_trips = 200;
  }
  if (peer_fd >= 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    plan.options.server = true;
    (void)run(plan, Wire(peer_fd));
    return 0;
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("socketpair");
  const pid_t child = ::fork();
  if (child == 0) {
    const int inherited = ::dup(pair[1]);  // without CLOEXEC
    const std::string fd = std::to_string(inherited);
    std::vector<char*> args(argv, argv + argc);
    std::string option = "--peer-fd";
    std::string value = fd;
    args.push_back(option.data());
    args.push_back(value.data());
    args.push_back(nullptr);
    ::execv("/proc/self/exe", args.data());
    ::_exit(127);
  }
  ::close(pair[1]);
  const auto samples = run(plan, Wire(pair[0]));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (json) {
    print_json(samples);
  } else {
    print(plan, samples);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_of(argc, argv); }
