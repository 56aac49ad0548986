// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/fault_plan.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "hawser/engine.hpp"
#include "hawser/faults.hpp"

namespace hawser::ofi {
namespace {

bool parse_number(std::string_view text, std::size_t& number) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  return error == std::errc() && end == text.end();
}

bool parse_time(std::string_view text, std::chrono::milliseconds& time) {
  std::size_t number = 0;
  if (text.ends_with("ms")) {
    if (!parse_number(text.substr(0, text.size() - 2), number)) return false;
    time = std::chrono::milliseconds(number);
    return true;
  }
  if (!text.ends_with('s') || !parse_number(text.substr(0, text.size() - 1), number)) return false;
  time = std::chrono::seconds(number);
  return true;
}

bool parse_entry(std::string_view text, PlannedFault& fault) {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos || !parse_time(text.substr(0, first), fault.at)) return false;
  text.remove_prefix(first + 1);
  const std::size_t second = text.find(':');
  if (second == std::string_view::npos || !parse_number(text.substr(0, second), fault.nic)) {
    return false;
  }
  fault.spec = text.substr(second + 1);
  std::ranges::replace(fault.spec, '+', ',');
  return !fault.spec.empty();
}

}  // namespace

std::string parse_fault_plan(const std::string& text, std::vector<PlannedFault>& plan) {
  plan.clear();
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    PlannedFault fault;
    if (!parse_entry(entry, fault)) {
      return "\"" + entry + "\" is not TIME:NIC:WORD[+WORD...], with a time such as 2s or 500ms";
    }
    if (std::string complaint = complaint_about_faults(fault.spec); !complaint.empty()) {
      return complaint;
    }
    plan.push_back(fault);
  }
  std::ranges::stable_sort(plan, {}, &PlannedFault::at);
  return {};
}

}  // namespace hawser::ofi
