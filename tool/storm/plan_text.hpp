// SPDX-License-Identifier: Apache-2.0
// A storm's plan in words.
#pragma once

#include <cstdint>
#include <string>

#include "sim/storm/plan.hpp"

namespace hawser::tool {

// "12.345678 ms"; the length does not change below 1000 s.
[[nodiscard]] std::string time_text(proto::Duration time);
// The shortest form: "1.5 ms", "20 us".
[[nodiscard]] std::string span_text(proto::Duration span);
// "h0"; "anyone" for any host.
[[nodiscard]] std::string host_name(std::uint32_t host);
// "h0.n1".
[[nodiscard]] std::string nic_name(std::uint32_t host, std::uint32_t nic);

// "message 7 (h0 to h1, 2000 bytes, tag 3)".
[[nodiscard]] std::string message_text(const sim::Plan& plan, std::uint32_t index);
[[nodiscard]] std::string one_sided_text(const sim::Plan& plan, std::uint32_t index);
// "loss at h1: 2% of the frames, for 1.5 ms".
[[nodiscard]] std::string fault_text(const sim::FaultPlan& fault);
// All of it, in lines.
[[nodiscard]] std::string closing_text(const sim::ClosingPlan& closing);
[[nodiscard]] std::string call_text(const sim::CallPlan& call);
[[nodiscard]] std::string plan_text(const sim::Plan& plan);

}  // namespace hawser::tool
