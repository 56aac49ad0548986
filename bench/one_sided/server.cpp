// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <map>
#include <span>
#include <sstream>

#include "bench/compare/cast.hpp"
#include "bench/one_sided/by_name.hpp"
#include "bench/one_sided/client.hpp"

namespace hawser::bench::one_sided {

namespace {

// A target that only makes progress looks at the wire once in so many turns.
constexpr unsigned kTurnsALook = 64;

class Server {
 public:
  Server(const TransportOptions& options, const Wire& wire) : options_(options), wire_(wire) {}

  // Commands: "make NAME LONGEST", "connect NAME ADDRESS", "drop NAME", "end", and
  // "measure NAME KIND BYTES COUNT", which lasts until "done". "attempt" checks nothing.
  void serve() {
    for (;;) {
      const std::string command = wire_.get([this] {
        for (const auto& [name, memory] : cast_) memory->idle();
      });
      const std::size_t end = command.find(' ');
      const std::string verb = command.substr(0, end);
      if (verb == "end") return;
      try {
        wire_.put("ok " + carry_out(verb, command.substr(end + 1)));
      } catch (const std::exception& error) {
        wire_.put(std::string("no ") + error.what());
      }
    }
  }

 private:
  std::string carry_out(const std::string& verb, const std::string& rest) {
    const std::size_t end = rest.find(' ');
    const std::string name = rest.substr(0, end);
    if (verb == "drop") {
      cast_.erase(name);
      return {};
    }
    if (verb == "connect") {
      cast_.at(name)->connect(rest.substr(end + 1));
      return {};
    }
    std::istringstream numbers(rest.substr(end + 1));
    if (verb == "make") {
      std::size_t longest = 0;
      numbers >> longest;
      auto memory = make_remote_memory(name, options_, longest);
      std::string address = memory->address();
      cast_[name] = std::move(memory);
      return address;
    }
    unsigned kind = 0;
    std::size_t bytes = 0;
    std::uint64_t count = 0;
    numbers >> kind >> bytes >> count;
    return measure(*cast_.at(name), static_cast<Kind>(kind), bytes, count, verb == "attempt");
  }

  std::string measure(RemoteMemory& memory, Kind kind, std::size_t bytes, std::uint64_t count,
                      bool once) {
    if (original_.size() < bytes) original_ = pattern(bytes);
    const auto expected = std::span(original_).first(bytes);
    const auto reached = memory.bytes().first(bytes);
    if (kind == Kind::get || kind == Kind::get_stream) {
      std::ranges::copy(expected, reached.begin());
    } else {
      std::ranges::fill(reached, std::byte{0});
    }
    memory.counter() = 0;
    memory.prepare();
    wire_.put("ready");
    const double waited = waiting_seconds();
    std::string failure;
    try {
      if (!once && kind == Kind::signal) memory.exchange_signals(false, count);
      if (!once && kind == Kind::message) memory.exchange_messages(false, count);
    } catch (const Failure& error) {
      failure = error.what();
    }
    const std::string done = wire_.get([&] {
      for (unsigned i = 0; i < kTurnsALook; ++i) memory.idle();
    });
    const double waiting = waiting_seconds() - waited;
    if (!failure.empty()) fail(failure);
    if (!once) check(memory, kind, bytes, count);
    return std::to_string(waiting);
  }

  void check(RemoteMemory& memory, Kind kind, std::size_t bytes, std::uint64_t count) {
    if (kind == Kind::put || kind == Kind::put_stream) {
      if (!std::ranges::equal(memory.bytes().first(bytes), std::span(original_).first(bytes))) {
        fail("other bytes arrived than were put");
      }
    }
    const bool counts =
        kind == Kind::fetch_add || kind == Kind::fetch_add_stream || kind == Kind::compare_swap;
    if (counts && memory.counter().load() != count) {
      fail("the counter is not the number of atomics");
    }
  }

  TransportOptions options_;
  Wire wire_;
  std::map<std::string, std::unique_ptr<RemoteMemory>> cast_;
  std::vector<std::byte> original_;  // what puts bring and gets take
};

}  // namespace

void run_server(const TransportOptions& options, const Wire& wire) {
  const Pinned pinned(1);
  Server(options, wire).serve();
}

}  // namespace hawser::bench::one_sided
