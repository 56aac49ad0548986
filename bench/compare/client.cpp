// SPDX-License-Identifier: Apache-2.0
#include "bench/compare/client.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <sstream>

#include "bench/compare/cast.hpp"
#include "bench/compare/transports.hpp"

namespace hawser::bench {

namespace {

// The client doubles a sample's count until it takes this share of a sample's time.
constexpr double kEnough = 0.25;
constexpr unsigned kTries = 3;
constexpr std::uint64_t kFewest = 2;
constexpr double kMostDisturbance = 0.05;

class Client {
 public:
  Client(const Plan& plan, const Wire& wire, const std::function<void(double)>& lose)
      : plan_(plan), wire_(wire), lose_(lose) {
    std::size_t longest = 0;
    for (const auto* sizes : {&plan.sizes, &plan.ping_sizes}) {
      for (const std::size_t bytes : *sizes) longest = std::max(longest, bytes);
    }
    memory_ = pattern(longest);
  }

  Results run() {
    lose_(0);
    for (const std::string& name : plan_.transports) open(name);
    // The first round chooses the counts and warms up.
    for (std::uint64_t round = 0; round <= plan_.rounds; ++round) {
      for (const double loss : plan_.losses) {
        lose_(loss);
        for (const std::size_t bytes : plan_.sizes) pass(loss, Kind::stream, bytes, round);
        for (const std::size_t bytes : plan_.ping_sizes) pass(loss, Kind::ping, bytes, round);
      }
    }
    lose_(0);
    wire_.put("end");
    return std::move(results_);
  }

 private:
  void open(const std::string& name) {
    try {
      auto transport = make_transport(name, plan_.options);
      const std::string peer = ask("make " + name);
      wire_.put("connect " + name + " " + transport->address());
      transport->connect(peer);
      (void)answer();
      cast_[name] = std::move(transport);
    } catch (const std::exception& error) {
      if (!plan_.all) throw std::runtime_error(name + ": " + error.what());
      results_.left_out[name] = error.what();
      wire_.put("drop " + name);
      (void)answer();
    }
  }

  // Measures every transport once: A B C, and in the next round B C A, because a transport's
  // figures may depend on which one ran before it.
  void pass(double loss, Kind kind, std::size_t bytes, std::uint64_t round) {
    for (std::size_t i = 0; i < plan_.transports.size(); ++i) {
      const std::string& name = plan_.transports[(i + round) % plan_.transports.size()];
      if (!cast_.contains(name) || (loss > 0 && !is_reliable(name))) continue;
      const Point point{loss, kind, bytes, name};
      try {
        if (round == 0) {
          counts_[point] = count_of(point);
        } else {
          results_.samples[point].push_back(least_disturbed(point, counts_.at(point)));
        }
      } catch (const Failure& error) {
        results_.failed[point] = error.what();
        fmt::print(stderr, "compare: {} ends here: {}\n", name, error.what());
        cast_.erase(name);
        wire_.put("drop " + name);
        (void)answer();
      }
    }
  }

  std::uint64_t count_of(const Point& point) {
    // Use the lossless count. A count chosen under loss would favour samples that met no loss.
    if (point.loss > 0) return counts_.at({0, point.kind, point.bytes, point.transport});
    const std::uint64_t fixed = point.kind == Kind::stream ? plan_.messages : plan_.round_trips;
    std::uint64_t count = fixed != 0 ? fixed : kFewest;
    for (;;) {
      // Take the quickest of several tries. Beside other programs the count would come out too
      // small, and a sample of few messages shows only how a stream begins.
      double took = measure(point, count).seconds;
      if (fixed != 0) return count;
      for (unsigned i = 0; i < kTries; ++i) took = std::min(took, measure(point, count).seconds);
      if (took >= kEnough * plan_.sample_seconds) {
        return std::max(kFewest, static_cast<std::uint64_t>(static_cast<double>(count) *
                                                            plan_.sample_seconds / took));
      }
      count *= took < 0.02 * plan_.sample_seconds ? 8 : 2;
    }
  }

  // Measures again for as long as other programs had the processors, within the budget.
  Sample least_disturbed(const Point& point, std::uint64_t count) {
    Sample best = measure(point, count);
    double spent = best.seconds;
    const double budget = static_cast<double>(plan_.repeats) * plan_.sample_seconds;
    while (spent < budget && best.disturbance() > kMostDisturbance) {
      const Sample next = measure(point, count);
      spent += next.seconds;
      if (next.disturbance() < best.disturbance()) best = next;
    }
    return best;
  }

  Sample measure(const Point& point, std::uint64_t count) {
    const bool is_stream = point.kind == Kind::stream;
    wire_.put(fmt::format("{} {} {} {}", is_stream ? "stream" : "ping", point.transport,
                          point.bytes, count));
    if (const std::string ready = wire_.get([this] { idle(cast_); }); ready != "ready") {
      fail(ready);
    }
    const std::span message = std::span(memory_).first(point.bytes);
    Sample sample{.count = count};
    std::string failure;
    const double waited = waiting_seconds();
    const double cpu = processor_seconds();
    const double begin = seconds_of(CLOCK_MONOTONIC);
    try {
      Transport& transport = *cast_.at(point.transport);
      if (is_stream) {
        transport.stream_out(message, count);
      } else {
        transport.ping(message, count);
      }
    } catch (const Failure& error) {
      failure = error.what();
    }
    sample.seconds = seconds_of(CLOCK_MONOTONIC) - begin;
    sample.client_cpu = processor_seconds() - cpu;
    sample.waited = waiting_seconds() - waited;
    const std::string server = answer();  // throws if the server failed
    if (!failure.empty()) fail(failure);
    std::istringstream numbers(server);
    double server_waited = 0;
    numbers >> sample.server_cpu >> server_waited;
    sample.waited += server_waited;
    return sample;
  }

  std::string ask(const std::string& command) {
    wire_.put(command);
    return answer();
  }
  std::string answer() {
    const std::string text = wire_.get([this] { idle(cast_); });
    if (!text.starts_with("ok ")) fail(text.substr(3));
    return text.substr(3);
  }

  const Plan& plan_;
  const Wire& wire_;
  const std::function<void(double)>& lose_;
  Cast cast_;
  std::vector<std::byte> memory_;  // as long as the longest message: new memory is slow at first
  std::map<Point, std::uint64_t> counts_;
  Results results_;
};

}  // namespace

Results run_client(const Plan& plan, const Wire& wire, const std::function<void(double)>& lose) {
  const Pinned pinned(0);
  return Client(plan, wire, lose).run();
}

}  // namespace hawser::bench
