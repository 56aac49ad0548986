// SPDX-License-Identifier: Apache-2.0
#include "bench/one_sided/client.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <span>

#include "bench/compare/cast.hpp"
#include "bench/one_sided/by_name.hpp"

namespace hawser::bench::one_sided {

namespace {

// The client doubles a sample's count until it takes this share of a sample's time.
constexpr double kEnough = 0.25;
constexpr unsigned kTries = 3;
constexpr std::uint64_t kFewest = 2;
constexpr double kMostDisturbance = 0.05;

class Client {
 public:
  Client(const Plan& plan, const std::vector<std::string>& transports, const Wire& wire,
         Results& results)
      : plan_(plan),
        transports_(transports),
        wire_(wire),
        results_(results),
        pattern_(pattern(plan.longest())),
        received_(plan.longest()) {}

  void run() {
    for (const std::string& name : transports_) open(name);
    // The first round chooses the counts and warms up.
    for (std::uint64_t round = 0; round <= plan_.rounds; ++round) {
      for (const auto& [kind, bytes] : plan_.cells()) pass(kind, bytes, round);
    }
    wire_.put("end");
  }

 private:
  void open(const std::string& name) {
    try {
      auto memory = make_remote_memory(name, plan_.options, plan_.longest());
      const std::string peer = ask(fmt::format("make {} {}", name, plan_.longest()));
      wire_.put("connect " + name + " " + memory->address());
      memory->connect(peer);
      (void)answer();
      cast_[name] = std::move(memory);
    } catch (const std::exception& error) {
      if (!plan_.all) throw std::runtime_error(name + ": " + error.what());
      results_.left_out[name] = error.what();
      drop(name);
      return;
    }
    std::vector<Kind> kinds;
    for (const auto& [kind, bytes] : plan_.cells()) {
      if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
    }
    for (const Kind kind : kinds) attempt(kind, name);
  }

  // Does the operation once. A library may refuse it, and goes on with the others.
  void attempt(Kind kind, const std::string& name) {
    if (kind == Kind::message && !is_hawser(name)) return;
    try {
      measure({kind, 8, name}, 1, true);
    } catch (const Failure& error) {
      results_.refused[{name, kind}] = error.what();
      if (is_hawser(name)) results_.failed[{kind, 8, name}] = error.what();
    }
  }

  // Measures every transport once: A B C, and in the next round B C A, because a transport's
  // figures may depend on which one ran before it.
  void pass(Kind kind, std::size_t bytes, std::uint64_t round) {
    for (std::size_t i = 0; i < transports_.size(); ++i) {
      const std::string& name = transports_[(i + round) % transports_.size()];
      if (!cast_.contains(name) || results_.refused.contains({name, kind})) continue;
      if (kind == Kind::message && !is_hawser(name)) continue;
      const Point point{kind, bytes, name};
      try {
        if (round == 0) {
          counts_[point] = count_of(point);
        } else {
          results_.samples[point].push_back(least_disturbed(point, counts_.at(point)));
        }
      } catch (const Failure& error) {
        results_.failed[point] = error.what();
        fmt::print(stderr, "one_sided: {} ends here: {}\n", name, error.what());
        drop(name);
      }
    }
  }

  std::uint64_t count_of(const Point& point) {
    if (plan_.operations != 0) {
      (void)measure(point, plan_.operations);
      return plan_.operations;
    }
    const double enough = kEnough * plan_.sample_seconds;
    for (std::uint64_t count = kFewest;;) {
      const double took = quickest(point, count);
      if (took < enough) {
        count *= took < 0.02 * plan_.sample_seconds ? 8 : 2;
        continue;
      }
      const std::uint64_t scaled = std::max(
          kFewest,
          static_cast<std::uint64_t>(static_cast<double>(count) * plan_.sample_seconds / took));
      // The first operations are slow, as rings and buffers are new memory. This looks again.
      if (scaled <= count || quickest(point, scaled) >= enough) return scaled;
      count = scaled;
    }
  }

  // The quickest of several tries. Beside other programs the count would come out too small, and a
  // sample of few operations shows only how a stream begins.
  double quickest(const Point& point, std::uint64_t count) {
    double took = measure(point, count).seconds;
    for (unsigned i = 0; i < kTries; ++i) took = std::min(took, measure(point, count).seconds);
    return took;
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

  // `once`: the server only makes progress, so nothing comes back and nothing is checked there.
  Sample measure(const Point& point, std::uint64_t count, bool once = false) {
    RemoteMemory& memory = *cast_.at(point.transport);
    std::ranges::fill(std::span(received_).first(point.bytes), std::byte{0});
    memory.prepare();
    wire_.put(fmt::format("{} {} {} {} {}", once ? "attempt" : "measure", point.transport,
                          static_cast<unsigned>(point.kind), point.bytes, count));
    if (const std::string ready = listen(); ready != "ready") fail(ready);
    Sample sample{.count = count};
    std::exception_ptr failure;
    const double waited = waiting_seconds();
    const double begin = seconds_of(CLOCK_MONOTONIC);
    try {
      act(memory, point, count, once);
      sample.seconds = seconds_of(CLOCK_MONOTONIC) - begin;
      sample.waited = waiting_seconds() - waited;
      check(point, count);
    } catch (const Failure&) {
      failure = std::current_exception();
    }
    wire_.put("done");
    const std::string told = listen();
    if (failure) std::rethrow_exception(failure);
    if (!told.starts_with("ok ")) fail(told.substr(3));
    sample.waited += std::stod(told.substr(3));
    return sample;
  }

  void act(RemoteMemory& memory, const Point& point, std::uint64_t count, bool once) {
    const std::uint64_t window = plan_.window_of(point.kind, point.bytes);
    switch (point.kind) {
      case Kind::put:
      case Kind::put_stream:
        return memory.put(std::span(pattern_).first(point.bytes), count, window);
      case Kind::get:
      case Kind::get_stream:
        return memory.get(std::span(received_).first(point.bytes), count, window);
      case Kind::signal: return once ? memory.signal_once() : memory.exchange_signals(true, count);
      case Kind::fetch_add:
      case Kind::fetch_add_stream: fetched_ = memory.fetch_add(count, window); return;
      case Kind::compare_swap: return memory.compare_swap(count);
      case Kind::message:
        if (!once) memory.exchange_messages(true, count);
        return;
    }
  }

  // The client checks what it got. The server checks its memory.
  void check(const Point& point, std::uint64_t count) {
    if (point.kind == Kind::get || point.kind == Kind::get_stream) {
      const auto received = std::span(received_).first(point.bytes);
      if (!std::ranges::equal(received, std::span(pattern_).first(point.bytes))) {
        fail("a get brought other bytes than are there");
      }
    }
    // The counter began with 0, and nobody else adds to it: each number was fetched once.
    if ((point.kind == Kind::fetch_add || point.kind == Kind::fetch_add_stream) &&
        fetched_ != count * (count - 1) / 2) {
      fail("the sum of the fetched words is not that of each number once");
    }
  }

  void drop(const std::string& name) {
    cast_.erase(name);
    wire_.put("drop " + name);
    (void)answer();
  }
  std::string ask(const std::string& command) {
    wire_.put(command);
    return answer();
  }
  std::string answer() {
    const std::string text = listen();
    if (!text.starts_with("ok ")) fail(text.substr(3));
    return text.substr(3);
  }
  // The server may still wait for this side's last acknowledgements.
  std::string listen() {
    return wire_.get([this] {
      for (const auto& [name, memory] : cast_) memory->idle();
    });
  }

  const Plan& plan_;
  const std::vector<std::string>& transports_;
  const Wire& wire_;
  Results& results_;
  std::map<std::string, std::unique_ptr<RemoteMemory>> cast_;
  const std::vector<std::byte> pattern_;  // what is put, and what the server has to be got
  std::vector<std::byte> received_;
  std::uint64_t fetched_ = 0;
  std::map<Point, std::uint64_t> counts_;
};

}  // namespace

void run_client(const Plan& plan, const std::vector<std::string>& transports, const Wire& wire,
                Results& results) {
  const Pinned pinned(0);
  Client(plan, transports, wire, results).run();
}

}  // namespace hawser::bench::one_sided
