// SPDX-License-Identifier: Apache-2.0
// How long single one-sided operations take, from the call to the completion.
//
// A run has millions of them, so a rank counts times by classes. A class is at most 1/32 wide of
// its times.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "tool/run/fault_plan.hpp"

namespace hawser::tool {

enum class OneSidedKind : std::uint8_t { write, read, fetching_add, plain_add, compare_and_swap };
inline constexpr std::size_t kOneSidedKinds = 5;
[[nodiscard]] std::string_view to_string(OneSidedKind kind);

class LatencyCounts {
 public:
  void add(std::uint64_t ns);
  void add(const LatencyCounts& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t longest_ns() const { return longest_ns_; }
  // The nearest-rank percentile, rounded up to the end of its class; 0 if there are no times.
  [[nodiscard]] std::uint64_t percentile(double percent) const;

  friend void to_json(nlohmann::json& json, const LatencyCounts& counts);
  friend void from_json(const nlohmann::json& json, LatencyCounts& counts);

 private:
  std::map<std::uint32_t, std::uint64_t> classes_;
  std::uint64_t count_ = 0;
  std::uint64_t longest_ns_ = 0;
};

// By kind and by When.
struct OperationTimes {
  std::array<std::array<LatencyCounts, 3>, kOneSidedKinds> of{};

  [[nodiscard]] LatencyCounts& at(OneSidedKind kind, When when) {
    return of[static_cast<std::size_t>(kind)][static_cast<std::size_t>(when)];
  }
  [[nodiscard]] const LatencyCounts& at(OneSidedKind kind, When when) const {
    return of[static_cast<std::size_t>(kind)][static_cast<std::size_t>(when)];
  }
  void add(const OperationTimes& other);
};
void to_json(nlohmann::json& json, const OperationTimes& times);
void from_json(const nlohmann::json& json, OperationTimes& times);

}  // namespace hawser::tool
