// SPDX-License-Identifier: Apache-2.0
#include "tool/workload/microbenchmark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "tool/error.hpp"

namespace hawser::tool {
namespace {

constexpr std::array kCollectives{
    Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
    Operation::all_to_all, Operation::broadcast,      Operation::reduce,
    Operation::gather,     Operation::scatter,        Operation::barrier};

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kUsualFactor = 4;
// Each is an entry in the memory of every rank.
constexpr std::uint64_t kMaxTasks = std::uint64_t{1} << 20;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> bytes_from(std::string_view text) {
  constexpr std::string_view kSuffixes = "KMG";
  const std::size_t suffix = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
  const bool has_suffix = suffix != std::string_view::npos;
  if (has_suffix) text.remove_suffix(1);
  const std::size_t shift = has_suffix ? 10 * (suffix + 1) : 0;
  const std::optional<std::uint64_t> value = whole_number(text);
  if (!value || *value < 1 || *value > kMaxBytes >> shift) return std::nullopt;
  return *value << shift;
}

// The items of a list of names, each once. `all` are those that the word all stands for.
template <typename Item>
std::vector<Item> parse_names(std::string_view option, std::string_view text,
                              const std::vector<Item>& all) {
  std::vector<Item> items;
  for (const std::string_view name : split(text, ',')) {
    if (name == "all") return all;
    const auto item = std::ranges::find_if(all, [&](Item one) { return to_string(one) == name; });
    if (item == all.end()) {
      std::string names;
      for (const Item one : all) names += fmt::format(", {}", to_string(one));
      throw InputError(fmt::format("{} {}: '{}' is none of all{}", option, text, name, names));
    }
    if (std::ranges::find(items, *item) == items.end()) items.push_back(*item);
  }
  return items;
}

std::vector<Place> places_of(Operation operation) {
  // A broadcast has one buffer, and a barrier none.
  if (operation == Operation::broadcast || operation == Operation::barrier) {
    return {Place::in_place};
  }
  return {Place::out_of_place, Place::in_place};
}

// As they are after rounding, each once.
std::vector<std::uint64_t> sizes_of(const Microbenchmark& benchmark, Operation operation,
                                    DataType type, std::uint32_t ranks) {
  if (operation == Operation::barrier) return {0};
  const std::uint64_t unit = bytes_of(type) * (is_divided(operation) ? ranks : 1);
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t size : benchmark.sizes) {
    const std::uint64_t bytes = (size + unit - 1) / unit * unit;
    if (sizes.empty() || sizes.back() != bytes) sizes.push_back(bytes);
  }
  return sizes;
}

std::string name_of(const Phase& row) {
  std::string name(to_string(row.operation));
  if (row.operation != Operation::barrier) name += fmt::format(" of {} bytes", row.bytes);
  if (reduces(row.operation)) name += fmt::format(", {}", to_string(row.type));
  if (row.place == Place::in_place && row.operation != Operation::barrier) name += ", in place";
  return name;
}

std::vector<Phase> rows_of(const Microbenchmark& benchmark, std::uint32_t ranks) {
  std::vector<Phase> rows;
  for (const Operation operation : benchmark.collectives) {
    const std::vector<DataType> types =
        reduces(operation) ? benchmark.types : std::vector<DataType>{DataType::u8};
    for (const DataType type : types) {
      for (const std::uint64_t bytes : sizes_of(benchmark, operation, type, ranks)) {
        for (const Place place : places_of(operation)) {
          Phase& row = rows.emplace_back();
          row.operation = operation;
          row.type = type;
          row.place = place;
          row.bytes = bytes;
          row.stage = name_of(row);
        }
      }
    }
  }
  return rows;
}

}  // namespace

std::vector<Operation> parse_collectives(std::string_view text) {
  return parse_names<Operation>("--collective", text, {kCollectives.begin(), kCollectives.end()});
}

std::vector<DataType> parse_types(std::string_view text) {
  std::vector<DataType> all;
  for (std::size_t i = 0; i < coll::kDataTypes; ++i) all.push_back(static_cast<DataType>(i));
  return parse_names<DataType>("--types", text, all);
}

std::vector<std::uint64_t> parse_sizes(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  const std::optional<std::uint64_t> from = bytes_from(parts[0]);
  const std::optional<std::uint64_t> to = parts.size() > 1 ? bytes_from(parts[1]) : from;
  const std::optional<std::uint64_t> factor =
      parts.size() > 2 ? whole_number(parts[2]) : std::optional(kUsualFactor);
  if (parts.size() > 3 || !from || !to || *to < *from || !factor || *factor < 2) {
    throw InputError(fmt::format(
        "--sizes {}: expected FROM[:TO[:FACTOR]], such as 8:64M:4, with sizes from 1 to 1024G that "
        "ascend, and a factor of at least 2",
        text));
  }
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = *from;; size *= *factor) {
    sizes.push_back(size);
    if (size > *to / *factor) return sizes;
  }
}

Workload microbenchmark_workload(const Microbenchmark& benchmark, std::uint32_t ranks) {
  const std::vector<Phase> rows = rows_of(benchmark, ranks);
  const std::uint64_t tasks = rows.size() * benchmark.tasks_of_row();
  if (tasks > kMaxTasks) {
    throw InputError(fmt::format(
        "{} rows of {} collectives are {}, and at most {} are possible; fewer --iterations would "
        "fit, and --steps repeats them all",
        rows.size(), benchmark.tasks_of_row(), tasks, kMaxTasks));
  }
  Workload workload;
  workload.name = "microbenchmark";
  workload.step.reserve(tasks);
  for (const Phase& row : rows) {
    workload.step.insert(workload.step.end(), benchmark.tasks_of_row(), row);
  }
  return workload;
}

}  // namespace hawser::tool
