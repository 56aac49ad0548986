// SPDX-License-Identifier: Apache-2.0
// A recorded storm in lines of text: what happened, when, to whom.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/storm/recording.hpp"
#include "tool/storm/apart.hpp"
#include "tool/storm/options.hpp"

namespace hawser::tool {

// For each happening, the message (of the plan) or receive (of the judge) that it is about.
class Subjects {
 public:
  explicit Subjects(const sim::Recording& recording);
  static constexpr std::uint32_t kNone = 0xffffffffu;
  [[nodiscard]] std::uint32_t message(std::uint64_t i) const {
    return is_receive_[i] ? kNone : index_[i];
  }
  [[nodiscard]] std::uint32_t receive(std::uint64_t i) const {
    return is_receive_[i] ? index_[i] : kNone;
  }

 private:
  std::vector<std::uint32_t> index_;
  std::vector<bool> is_receive_;
};

// Whether it is about a single packet, of which there are very many, or too ordinary an event.
[[nodiscard]] bool is_detail(const sim::Happening& happening);
[[nodiscard]] bool is_shown(const sim::Happening& happening, const TraceOptions& options);
// "packet 17 to h1 lost: gap (h0.n1 to h1.n0, slot 3.1), message 5 fragment 9".
[[nodiscard]] std::string happening_text(const sim::Plan& plan, const sim::Recording& recording,
                                         const Subjects& subjects, std::uint64_t i);

// Writes the plan, the lines, and last when and how the storm ended.
void write_timeline(std::ostream& out, const sim::Plan& plan, const sim::Recording& recording,
                    const Subjects& subjects, const ApartOutcome& outcome,
                    const TraceOptions& options);

}  // namespace hawser::tool
