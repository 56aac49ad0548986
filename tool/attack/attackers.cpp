// SPDX-License-Identifier: Apache-2.0
#include "tool/attack/attackers.hpp"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "tool/attack/observer.hpp"
#include "tool/error.hpp"
#include "tool/run/clock.hpp"
#include "tool/run/summary.hpp"

namespace hawser::tool {
namespace {

constexpr std::uint64_t kGraceNs = 3'000'000'000;
constexpr int kPollMs = 20;

}  // namespace

Attackers::Attackers(const RunOptions& options) : attacks_(options.attacks) {
  for (std::uint32_t i = 0; i < attacks_.size(); ++i) {
    if (attacks_[i].observes()) Observer may_see;  // an early error is better than the attacker's
    const std::vector<std::string> arguments{"hawser", "attacker", to_text(attacks_[i]),
                                             std::to_string(options.seed + i),
                                             std::to_string(options.tunables.fragment_bytes)};
    children_.push_back(std::make_unique<Child>(
        options.ranks + i, arguments, std::vector<std::pair<std::string, std::string>>{}));
  }
}

std::vector<AttackResult> Attackers::finish(std::vector<std::string>& complaints) {
  std::vector<AttackResult> results;
  for (const auto& child : children_) child->signal(SIGTERM);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = *children_[i];
    std::optional<AttackResult> result;
    const auto read = [&] {
      for (RankMessage& message : child.read_messages()) {
        if (message.attack) result = *message.attack;
      }
      for (const std::string& line : child.read_output()) {
        complaints.push_back(fmt::format("[attack {}] {}", to_text(attacks_[i]), line));
      }
    };
    const std::uint64_t deadline = now_ns() + kGraceNs;
    while (child.running() && now_ns() < deadline) {
      (void)::poll(nullptr, 0, kPollMs);
      (void)child.update();
      read();
    }
    child.signal(SIGKILL);
    read();
    if (result) {
      results.push_back(*result);
    } else {
      complaints.push_back(fmt::format("attack {} ended without a report", to_text(attacks_[i])));
    }
  }
  return results;
}

std::string attack_text(const std::vector<AttackResult>& attacks, std::uint64_t dropped,
                        std::uint64_t overrun, bool right) {
  std::string text;
  bool any_forged = false;
  for (const AttackResult& attack : attacks) {
    const double rate =
        attack.ns > 0 ? static_cast<double>(attack.packets) / seconds(attack.ns) : 0;
    text += fmt::format("attack {}: {} packets ({}) at {} in {:.1f} s, {:.0f} k/s",
                        to_string(attack.kind), attack.packets, bytes_text(attack.bytes),
                        counted(attack.sockets, "socket"), seconds(attack.ns), rate / 1e3);
    const bool observes = attack.kind == AttackKind::replay || attack.kind == AttackKind::forged;
    text += observes ? fmt::format(", derived from {} that it saw\n", attack.seen) : "\n";
    any_forged = any_forged || attack.kind == AttackKind::forged;
  }
  text += fmt::format(
      "under attack the ranks dropped {} packets and lost {} in their hosts' "
      "receive queues; the job is {}\n",
      dropped, overrun, right ? "right" : "not right");
  if (any_forged) {
    text +=
        "an attacker who sees the traffic can forge it: that is outside the trust model, so no "
        "result is promised\n";
  }
  return text;
}

}  // namespace hawser::tool
