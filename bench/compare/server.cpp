// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <sstream>

#include "bench/compare/cast.hpp"
#include "bench/compare/client.hpp"
#include "bench/compare/transports.hpp"

namespace hawser::bench {

namespace {

class Server {
 public:
  Server(const TransportOptions& options, const Wire& wire) : options_(options), wire_(wire) {}

  // Commands: "make NAME", "connect NAME ADDRESS", "drop NAME", "stream NAME BYTES COUNT",
  // "ping NAME BYTES COUNT", "end".
  void serve() {
    for (;;) {
      const std::string command = wire_.get([this] { idle(cast_); });
      const std::size_t end = command.find(' ');
      const std::string verb = command.substr(0, end);
      if (verb == "end") return;
      const std::string rest = command.substr(end + 1);
      try {
        wire_.put("ok " + carry_out(verb, rest));
      } catch (const std::exception& error) {
        wire_.put(std::string("no ") + error.what());
      }
    }
  }

 private:
  std::string carry_out(const std::string& verb, const std::string& rest) {
    const std::size_t end = rest.find(' ');
    const std::string name = rest.substr(0, end);
    if (verb == "make") {
      auto transport = make_transport(name, options_);
      std::string address = transport->address();
      cast_[name] = std::move(transport);
      return address;
    }
    if (verb == "drop") {
      cast_.erase(name);
      return {};
    }
    if (verb == "connect") {
      cast_.at(name)->connect(rest.substr(end + 1));
      return {};
    }
    std::istringstream numbers(rest.substr(end + 1));
    std::size_t bytes = 0;
    std::uint64_t count = 0;
    numbers >> bytes >> count;
    return measure(verb == "stream" ? Kind::stream : Kind::ping, *cast_.at(name), bytes, count);
  }

  std::string measure(Kind kind, Transport& transport, std::size_t bytes, std::uint64_t count) {
    if (original_.size() < bytes) {
      original_ = pattern(bytes);
      memory_.resize(bytes);
    }
    const std::span buffer = std::span(memory_).first(bytes);
    std::ranges::fill(buffer, std::byte{0});
    wire_.put("ready");
    const double waited = waiting_seconds();
    const double begin = processor_seconds();
    if (kind == Kind::stream) {
      transport.stream_in(buffer, count);
    } else {
      transport.pong(buffer, count);
    }
    const double end = processor_seconds();
    const double waiting = waiting_seconds() - waited;
    if (!std::ranges::equal(buffer, std::span(original_).first(bytes))) {
      fail("other bytes arrived than were sent");
    }
    return std::to_string(end - begin) + " " + std::to_string(waiting);
  }

  TransportOptions options_;
  Wire wire_;
  Cast cast_;
  std::vector<std::byte> original_, memory_;  // as long as the longest message
};

}  // namespace

void run_server(const TransportOptions& options, const Wire& wire) {
  const Pinned pinned(1);
  Server(options, wire).serve();
}

}  // namespace hawser::bench
