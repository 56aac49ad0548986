// SPDX-License-Identifier: Apache-2.0
// The plan of a comparison of one-sided operations, and its results.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/compare/transport.hpp"

namespace hawser::bench::one_sided {

enum class Kind : std::uint8_t {
  put,               // one at a time
  get,               // one at a time
  put_stream,        // many under way
  get_stream,        // many under way
  signal,            // a put of 8 bytes with a signal, and one back
  fetch_add,         // one at a time
  fetch_add_stream,  // many under way
  compare_swap,      // one at a time
  message,           // a two-sided message of 8 bytes, and one back: Hawser alone
};

enum class Unit : std::uint8_t { us, us_one_way, mb_per_s, million_per_s };

struct KindRow {
  Kind kind;
  std::string_view name;  // in options and in JSON
  std::string_view title;
  Unit unit;
};
inline constexpr std::array<KindRow, 9> kKinds{{
    {Kind::put, "put", "put", Unit::us},
    {Kind::get, "get", "get", Unit::us},
    {Kind::put_stream, "put_stream", "stream of puts", Unit::mb_per_s},
    {Kind::get_stream, "get_stream", "stream of gets", Unit::mb_per_s},
    {Kind::signal, "signal", "put with a signal, one way", Unit::us_one_way},
    {Kind::fetch_add, "fetch_add", "fetch-add", Unit::us},
    {Kind::fetch_add_stream, "fetch_add_stream", "stream of fetch-adds", Unit::million_per_s},
    {Kind::compare_swap, "compare_swap", "compare-and-swap", Unit::us},
    {Kind::message, "message", "two-sided message, there and back", Unit::us},
}};
[[nodiscard]] constexpr const KindRow& row_of(Kind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}
[[nodiscard]] constexpr bool is_stream(Kind kind) {
  return kind == Kind::put_stream || kind == Kind::get_stream || kind == Kind::fetch_add_stream;
}
// Whether both sides act, and not the client alone.
[[nodiscard]] constexpr bool is_exchange(Kind kind) {
  return kind == Kind::signal || kind == Kind::message;
}

// One cell of the tables.
struct Point {
  Kind kind = Kind::put;
  std::size_t bytes = 0;
  std::string transport;
  auto operator<=>(const Point&) const = default;
};

struct Sample {
  std::uint64_t count = 0;  // operations, or exchanges
  double seconds = 0;
  double waited = 0;  // both sides together, for a core that ran something else
  [[nodiscard]] double disturbance() const { return seconds > 0 ? waited / seconds : 0; }
};

struct Plan {
  std::vector<std::string> transports;
  bool all = true;  // all transports; those that are missing are left out, with the reason
  std::vector<std::string> kinds;
  std::vector<std::size_t> sizes{8, 512, 4096, 65536};
  std::vector<std::size_t> stream_sizes{8, 4096, 65536, 1 << 20, 4 << 20};
  std::uint64_t rounds = 15;
  std::uint64_t repeats = 0;  // how much tries for an undisturbed sample may take, in samples' time
  double sample_seconds = 0.1;   // a sample's count is chosen so that it takes about as long
  std::uint64_t operations = 0;  // of a sample; 0: chosen in the first round
  TransportOptions options;

  [[nodiscard]] std::size_t longest() const;
  // The kinds and sizes of the tables, in their order.
  [[nodiscard]] std::vector<std::pair<Kind, std::size_t>> cells() const;
  [[nodiscard]] std::uint64_t window_of(Kind kind, std::size_t bytes) const {
    return is_stream(kind) ? options.window_of(bytes) : 1;
  }
};

struct Results {
  std::map<Point, std::vector<Sample>> samples;
  std::map<std::string, std::string> left_out;                  // transports, with the reason
  std::map<std::pair<std::string, Kind>, std::string> refused;  // by a transport, with the reason
  std::map<Point, std::string> failed;  // with the reason; the transport isn't measured after that
};

// In the unit of the point's kind.
[[nodiscard]] std::vector<double> figures(const Point& point, std::span<const Sample> samples);

}  // namespace hawser::bench::one_sided
