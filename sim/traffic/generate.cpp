// SPDX-License-Identifier: Apache-2.0
#include "sim/traffic/generate.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "sim/traffic/collectives.hpp"
#include "sim/traffic/generators.hpp"

namespace hawser::fabric {

namespace {

using Kind = Traffic::Kind;
using Sizes = Traffic::Sizes;

constexpr std::array<std::pair<Kind, std::string_view>, 8> kKinds{
    {{Kind::ring, "ring"},
     {Kind::butterfly, "butterfly"},
     {Kind::doubling, "doubling"},
     {Kind::all_to_all, "all_to_all"},
     {Kind::incast, "incast"},
     {Kind::permutation, "permutation"},
     {Kind::moe, "moe"},
     {Kind::background, "background"}}};
constexpr std::array<std::pair<Sizes, std::string_view>, 3> kSizeNames{
    {{Sizes::fixed, "fixed"},
     {Sizes::exponential, "exponential"},
     {Sizes::web_search, "web_search"}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  return std::ranges::find(table, value, [](const auto& row) { return row.first; })->second;
}

template <class Value, class Table>
std::optional<Value> named_in(const Table& table, std::string_view name) {
  const auto row = std::ranges::find(table, name, [](const auto& each) { return each.second; });
  if (row == table.end()) return std::nullopt;
  return row->first;
}

bool has_rounds(Kind kind) {
  return kind != Kind::incast && kind != Kind::permutation && kind != Kind::background;
}

void check(const Traffic& traffic) {
  const std::string kind(name_of(traffic.kind));
  const bool is_drawn = traffic.kind == Kind::background && traffic.sizes == Sizes::web_search;
  if (traffic.bytes == 0 && !is_drawn) {
    throw InputError(kind + " traffic of 0 bytes is no traffic: give the number of bytes");
  }
  if (traffic.bytes > MatrixBuilder::kMostBytes) {
    throw InputError("bytes are " + std::to_string(traffic.bytes) + ", but at most " +
                     std::to_string(MatrixBuilder::kMostBytes));
  }
  if (traffic.rounds == 0 || traffic.rounds > 1'000'000) {
    throw InputError("rounds are 1 to 1000000, not " + std::to_string(traffic.rounds));
  }
  if (traffic.rounds > 1 && !has_rounds(traffic.kind)) {
    throw InputError(kind + " traffic has one round: none of its messages waits for another");
  }
  if (traffic.channels == 0 || traffic.channels > 64) {
    throw InputError("channels are 1 to 64, not " + std::to_string(traffic.channels));
  }
}

// Checks the number of messages before the long way to the same error.
void check_messages(const Traffic& traffic, std::uint64_t of_a_node) {
  if (of_a_node * traffic.rounds <= MatrixBuilder::kMostConnections / traffic.nodes) return;
  throw InputError(std::string(name_of(traffic.kind)) + " traffic of " +
                   std::to_string(traffic.nodes) + " nodes would be more than " +
                   std::to_string(MatrixBuilder::kMostConnections) +
                   " messages: take fewer nodes, rounds or channels");
}

void add_all_reduce(MatrixBuilder& builder, const Traffic& traffic) {
  std::vector<std::uint32_t> members(traffic.nodes);
  std::iota(members.begin(), members.end(), 0u);
  for (std::uint32_t round = 0; round < traffic.rounds; ++round) {
    if (traffic.kind == Kind::ring) {
      add_ring(builder, members, Collective::all_reduce, traffic.bytes, traffic.channels);
    } else if (traffic.kind == Kind::butterfly) {
      add_halving_doubling(builder, members, traffic.bytes);
    } else {
      add_doubling(builder, members, traffic.bytes);
    }
  }
}

void add_windowed(MatrixBuilder& builder, const Traffic& traffic, proto::Random& random) {
  std::vector<std::uint32_t> members(traffic.nodes);
  std::iota(members.begin(), members.end(), 0u);
  for (std::uint32_t round = 0; round < traffic.rounds; ++round) {
    add_all_to_all(builder, members,
                   {.bytes = [&](std::uint32_t, std::uint32_t) { return traffic.bytes; },
                    .window = traffic.window,
                    .order = traffic.shuffled ? &random : nullptr});
  }
}

}  // namespace

ConnectionMatrix generate(const Traffic& traffic, std::uint64_t seed) {
  check(traffic);
  MatrixBuilder builder(traffic.nodes);
  proto::Random random(seed);
  const std::uint64_t others = traffic.nodes - 1;
  switch (traffic.kind) {
    case Kind::ring:
      check_messages(traffic, 2 * others * traffic.channels);
      add_all_reduce(builder, traffic);
      break;
    case Kind::butterfly:
    case Kind::doubling:
      check_messages(traffic, 1);
      add_all_reduce(builder, traffic);
      break;
    case Kind::all_to_all:
      check_messages(traffic, others);
      add_windowed(builder, traffic, random);
      break;
    case Kind::incast: add_incast(builder, traffic); break;
    case Kind::permutation: add_permutation(builder, traffic, random); break;
    case Kind::moe: add_moe(builder, traffic, random); break;
    case Kind::background: add_background(builder, traffic, random); break;
  }
  return std::move(builder).finish();
}

std::string_view name_of(Kind kind) { return name_in(kKinds, kind); }
std::string_view name_of(Sizes sizes) { return name_in(kSizeNames, sizes); }
std::optional<Kind> kind_named(std::string_view name) { return named_in<Kind>(kKinds, name); }
std::optional<Sizes> sizes_named(std::string_view name) {
  return named_in<Sizes>(kSizeNames, name);
}

}  // namespace hawser::fabric
